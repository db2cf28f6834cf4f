"""What the faults share that end a node process and do something to its disk: loss of power, wiped and damaged disks.

Guarantees: the process is down while the fault lasts and starts again at its end, on what is left of its disk; pure. Of
two such faults on one host the one that leaves less wins, so their order does not matter. Out of scope: what exactly
happens to the disk: the host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import DiskTrouble, HostState, Signal, with_more
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.faults.processes import draw_victims
from dethrone.nemesis.parameters import check_known


class Downfall(FaultKind, frozen=True, kw_only=True):
    """One kind. ``trouble``: params → what happens to the disk (raises ConfigError); ``draws``: params of a draw.

    See ``dethrone.harness.core.interfaces.Fault``.
    """

    signal: Signal
    trouble: Callable[[Mapping[str, Any]], DiskTrouble | None]
    draws: Callable[[Rng], Mapping[str, Any]]

    def check_values(self, params: Mapping[str, Any]) -> None:
        """They must make a trouble of the disk."""
        self.trouble(params)

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """Never more than a minority. Knobs: ``victims`` and the parameters."""
        check_known(self.kind, knobs, ("victims", *self.params))
        params = {**self.draws(rng), **{name: knobs[name] for name in self.params if name in knobs}}
        victims = knobs.get("victims") or draw_victims(rng, nodes)
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params=params)

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims down, and their disks as they will be found."""
        fallen = HostState(down=self.signal, disk=self.trouble(params))
        return with_more(state, dict.fromkeys(victims, fallen))
