"""The strategy ``orbits``: every graph of cut links up to symmetry, the leader fixed; seed k plays part k.

Guarantees: as ``enumerated``. Out of scope: the graphs themselves (``dethrone.nemesis.orbits``).
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import orbits
from dethrone.nemesis.strategies.enumerated import KIND, Entry, EnumeratedStrategy


class OrbitsStrategy(EnumeratedStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``. ``one_way``: each direction of a link is cut by itself."""

    name: str = "orbits"
    one_way: bool = False

    def entries(self, nodes: int, hold_ns: Ns, promise: Promise) -> Sequence[Entry]:
        """One graph each, around the leader."""
        del promise  # the list is the same for every system
        return [
            (PlannedFault(kind=KIND, victims="leader", hold_ns=hold_ns, params={"graph": str(one)}),)
            for one in orbits.orbits(nodes, one_way=self.one_way)
        ]


STRATEGY = OrbitsStrategy()
