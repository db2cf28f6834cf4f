"""drift: the monotonic clock of the host runs too fast or too slow.

What it gained or lost stays when the fault ends, in simulation. On real hosts only static Go programs suffer it, in
their vDSO, at 100,000 ppm at most; at its end their clock runs slower or faster until it is right again
(``docs/clocks.md``).

Parameter: ``rate_ppm``. Draws stay within five per cent, which timers and leases must bear. Out of scope: wall clocks
(``clock``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import RATE_MAX_PPM, ClockSkew, HostState, with_more
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.parameters import bad, integer

DRAWN_PPM = (500, 10_000, 50_000)


def _rate(params: Mapping[str, Any]) -> int:
    rate = integer("drift", params, "rate_ppm", least=-RATE_MAX_PPM)
    if rate > RATE_MAX_PPM:
        raise bad("drift", "rate_ppm", rate, f"the most is {RATE_MAX_PPM}")
    if not rate:
        raise ConfigError("a drift that changes nothing", next_step="give rate_ppm")
    return rate


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    rate = rng.choice(DRAWN_PPM)
    return {"rate_ppm": rate if rng.chance(1, 2) else -rate}


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    return with_more(state, dict.fromkeys(victims, HostState(clock=ClockSkew(mono_rate_ppm=_rate(params)))))


FAULT = Affliction(
    kind="drift",
    line="the monotonic clock of the host runs too fast or too slow",
    params=("rate_ppm",),
    judge=_rate,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"monotonic"}),
    traits=FaultTraits(harms="clock", touches=frozenset({"clock"})),
    few=False,
)
