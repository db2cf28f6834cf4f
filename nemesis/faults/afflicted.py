"""What the faults share that leave the node process running and make its world worse: disks, links, rates of clocks.

Guarantees: pure; nothing but the named part of a host's state changes. Out of scope: the part, which each kind names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.faults.processes import draw_victims
from dethrone.nemesis.parameters import check_known

Afflict = Callable[[Mapping[str, HostState], tuple[str, ...], Mapping[str, Any]], Mapping[str, HostState]]


class Affliction(FaultKind, frozen=True, kw_only=True):
    """One kind. ``judge``: raises ConfigError for bad params; ``afflict``: (state, victims, params) → state.

    ``few``: a draw hits a minority at most; else any node. See ``dethrone.harness.core.interfaces.Fault``.
    """

    judge: Callable[[Mapping[str, Any]], object]
    draws: Callable[[Rng, Ns], Mapping[str, Any]]
    afflict: Afflict
    few: bool = True

    def check_values(self, params: Mapping[str, Any]) -> None:
        """As the kind judges them."""
        self.judge(params)

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """Knobs: ``victims`` and the parameters; without any parameter, all are drawn."""
        check_known(self.kind, knobs, ("victims", *self.params))
        params = {name: knobs[name] for name in self.params if name in knobs} or self.draws(rng, hold_ns)
        victims = knobs.get("victims")
        if victims is None:
            victims = draw_victims(rng, nodes) if self.few or rng.chance(1, 2) else "all"
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params=params)

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims afflicted."""
        return self.afflict(state, victims, params)
