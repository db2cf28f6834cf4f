"""The strategy ``restarts``: a rolling restart, then storms of restarts of the leader, of some, most and all nodes.

A rolling restart stops one node after the other by SIGTERM, as operators do, and waits for health before the next.
In a storm nodes are killed and started again at once, again and again: each must stand by what it stored, and those
that start together meet with old terms and logs of different ends. Guarantees: as ``enumerated``; a rolling restart
is played as a whole if the time limit allows one at all. Out of scope: builds other than the node's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule
from dethrone.nemesis.faults import restart, stop
from dethrone.nemesis.strategies.enumerated import Entry, EnumeratedStrategy

BLOWS = 6
"""How often a storm restarts its victims."""
STORMS = ("leader", "minority", "majority", "all")
"""Who is restarted in a storm, the mildest first; chosen again for each blow."""


class RestartsStrategy(EnumeratedStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    name: str = "restarts"
    kinds: frozenset[str] = frozenset({restart.FAULT.kind, stop.FAULT.kind})

    def entries(self, nodes: int, hold_ns: Ns, promise: Promise) -> Sequence[Entry]:
        """Each node once, stopped for a third of the time; then the storms that this number of nodes allows."""
        del promise  # the list is the same for every system
        rolling = [
            (PlannedFault(kind=stop.FAULT.kind, victims=f"node:n{number}", hold_ns=max(1, hold_ns // 3)),)
            for number in range(1, nodes + 1)
        ]
        some = [victims for victims in STORMS if nodes > 2 or victims != "minority"]
        return [*rolling, *(storm(victims, hold_ns) for victims in some)]

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """As ``EnumeratedStrategy``, but health is awaited before the next node, however short the interval."""
        drawn = EnumeratedStrategy.draw(
            self,
            rng,
            faults=faults,
            nodes=nodes,
            time_limit_ns=time_limit_ns,
            interval_ns=interval_ns,
            promise=promise,
        )
        return msgspec.structs.replace(drawn, health_bound_ns=None)


def storm(victims: str, hold_ns: Ns) -> Entry:
    """These nodes are restarted again and again for so long."""
    period_ns = max(1, hold_ns // BLOWS)
    return tuple(
        PlannedFault(kind=restart.FAULT.kind, victims=victims, delay_ns=number * period_ns, hold_ns=0)
        for number in range(BLOWS)
    )


STRATEGY = RestartsStrategy()
