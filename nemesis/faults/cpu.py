"""cpu: the node process gets no more than a share of one processor, as a container that is limited too tightly does.

Parameter: ``percent`` of one processor. In each period of 100 ms the process runs for that share of it at most, then
waits for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostState, with_more
from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.parameters import integer

PERCENTS = (2, 5, 10, 25)
"""What is drawn: of a hundredth, a process hardly answers; of a quarter, only what is busy notices."""
PERCENT_MAX = 99


def _percent(params: Mapping[str, Any]) -> int:
    percent = integer("cpu", params, "percent", least=1, most=PERCENT_MAX)
    if not percent:
        raise ConfigError("the fault 'cpu' needs the share of a processor that is left", next_step="give percent = 5")
    return percent


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    return {"percent": rng.choice(PERCENTS)}


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    return with_more(state, dict.fromkeys(victims, HostState(cpu_percent=_percent(params))))


FAULT = Affliction(
    kind="cpu",
    line="starve the node process of CPU: it gets a few percent of one processor",
    params=("percent",),
    judge=_percent,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"cpu"}),
    traits=FaultTraits(
        owes=(Shown("leader-starved", "leader", "starve the leader"),),
        borne_as=("pause",),
        touches=frozenset({"cpu"}),
    ),
)
