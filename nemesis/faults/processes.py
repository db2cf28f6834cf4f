"""What the four faults of the node process share: whom they hit, how they are drawn, how they are checked.

Guarantees: no draw hits more nodes than a minority (one, where there is none), unless the selector was asked for; pure.
Out of scope: the one line in which kill, stop, restart and pause differ: each is a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import HostState, Signal, with_more
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.parameters import check_known


class ProcessFault(FaultKind, frozen=True, kw_only=True):
    """One fault of the node process: ended by ``signal`` and held down, or frozen (None).

    See ``dethrone.harness.core.interfaces.Fault``.
    """

    capabilities: frozenset[str] = frozenset({"signals"})
    signal: Signal | None

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """The leader half the time, else followers or any nodes; never more than a minority. Knob: ``victims``."""
        check_known(self.kind, knobs, ("victims",))
        victims = knobs.get("victims") or draw_victims(rng, nodes)
        held_ns = 0 if self.traits.lasts == "at-once" else hold_ns
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=held_ns)

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims down or frozen. Of two signals the harder one wins, in any order."""
        del params  # it has none
        return with_more(state, dict.fromkeys(victims, HostState(down=self.signal, frozen=self.signal is None)))


def draw_victims(rng: Rng, nodes: int) -> str:
    """The leader half the time, else followers or any nodes; never more than a minority."""
    most = max(1, minority(nodes))
    if nodes == 1 or rng.chance(1, 2):
        return "leader"
    name = rng.choice(("follower", "random"))
    return f"{name}:{rng.between(1, min(most, nodes - 1))}"
