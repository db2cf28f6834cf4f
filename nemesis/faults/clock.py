"""clock: the wall clock of the node process steps, strobes or drifts; its monotonic clock is left alone.

Parameters, all whole numbers: ``offset_ns`` (a step, forward or back), ``rate_ppm`` (drift), and together
``strobe_amplitude_ns`` and ``strobe_period_ns``. Two clock faults on one host add up; of two strobes the larger one is
in force. Guarantees: pure; skew that did not take is for the agent to measure and report. Out of scope: monotonic time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import RATE_MAX_PPM, ClockSkew, HostState, Strobe, with_more
from dethrone.harness.core.interfaces import ClusterView, FaultTraits, Shown, Who
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.parameters import bad, check_known, check_times, integer

STEPS_NS: tuple[Ns, ...] = (200 * MS, 2 * SECOND, 20 * SECOND, 300 * SECOND, 3600 * SECOND)
"""Sizes that are drawn: below and above usual timeouts, and the hour of a summer-time mistake."""

OFFSET_MAX_NS = 10 * 366 * 24 * 3600 * SECOND
STROBE_PERIOD_MIN_NS = 20 * MS

_PARAMS = ("offset_ns", "rate_ppm", "strobe_amplitude_ns", "strobe_period_ns")


class ClockFault:
    """See ``dethrone.harness.core.interfaces.Fault``."""

    kind = "clock"
    traits = FaultTraits(
        harms="clock",
        mild=True,
        owes=(Shown("clock-stepped", "anybody", "see what `dethrone doctor` says of the clocks here"),),
        touches=frozenset({"clock"}),
    )

    def summary(self) -> str:
        """One line for ``list faults``."""
        return "step, strobe or drift the wall clock of the node process (its monotonic clock is left alone)"

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for bad parameters or victims."""
        check_times(fault)
        selectors.check(fault.victims, nodes=nodes)
        skew = _skew(fault.params)
        if skew == ClockSkew():
            raise ConfigError("a clock fault that changes nothing", next_step=f"give one of {', '.join(_PARAMS)}")

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """A step three times out of four, else a strobe. Knobs: ``victims`` and the parameters."""
        check_known(self.kind, knobs, ("victims", *_PARAMS))
        params = {name: knobs[name] for name in _PARAMS if name in knobs}
        if not params:
            params = draw_step(rng) if rng.chance(3, 4) else _draw_strobe(rng)
        victims = knobs.get("victims") or _draw_victims(rng, nodes)
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params=params)

    def oblige(self, who: Who, rng: Rng, *, nodes: int, hold_ns: Ns, company: int) -> PlannedFault:
        """A step of one node's clock, with any leader: by a selector that can always be resolved.

        In company it comes after the others, which may have ended processes, and hits enough nodes that one runs.
        """
        del who  # any node
        few = f"random:{rng.between(1, max(1, minority(nodes)))}"
        victims = rng.choice(("majority", "all") if company else (few, "majority", "all"))
        delay_ns = rng.between(0, hold_ns // 2) if company else 0
        return PlannedFault(
            kind=self.kind, victims=victims, delay_ns=delay_ns, hold_ns=hold_ns - delay_ns, params=draw_step(rng)
        )

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Victims, with the parameters as planned.

        A process that is down or frozen cannot report its clock: it is skipped.
        """
        victims = selectors.resolve(selectors.parse(fault.victims), view, rng)
        if isinstance(victims, str):
            return victims
        running = tuple(node for node in victims if not view.state[node].frozen and view.state[node].down is None)
        return (running, dict(fault.params)) if running else "every victim is down or paused: no clock can be measured"

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims' wall clocks skewed."""
        return with_more(state, dict.fromkeys(victims, HostState(clock=_skew(params))))

    def needs(self) -> frozenset[str]:
        """It needs libfaketime, preloaded into the node process, or its vDSO (``Unpreloaded``)."""
        return frozenset({"faketime"})


def draw_step(rng: Rng) -> dict[str, int]:
    """A step forward or back, within a tenth of one of the usual sizes."""
    size = rng.choice(STEPS_NS)
    size += rng.between(-size // 10, size // 10)
    return {"offset_ns": size if rng.chance(1, 2) else -size}


def _draw_strobe(rng: Rng) -> dict[str, int]:
    return {
        "strobe_amplitude_ns": rng.choice((100 * MS, SECOND, 30 * SECOND)),
        "strobe_period_ns": rng.choice((50 * MS, 200 * MS, SECOND)),
    }


def _draw_victims(rng: Rng, nodes: int) -> str:
    if nodes == 1:
        return "leader"
    few = f"random:{rng.between(1, max(1, minority(nodes)))}"
    return rng.choice(("leader", "follower", few, "majority", "all"))


def _skew(params: Mapping[str, Any]) -> ClockSkew:
    check_known("clock", params, _PARAMS)
    offset = integer("clock", params, "offset_ns")
    rate = integer("clock", params, "rate_ppm", least=-RATE_MAX_PPM)
    amplitude = integer("clock", params, "strobe_amplitude_ns", least=1)
    period = integer("clock", params, "strobe_period_ns", least=STROBE_PERIOD_MIN_NS)
    if abs(offset) > OFFSET_MAX_NS:
        raise bad("clock", "offset_ns", offset, "more than ten years")
    if rate > RATE_MAX_PPM:
        raise bad("clock", "rate_ppm", rate, f"the most is {RATE_MAX_PPM}")
    if bool(amplitude) != bool(period):
        raise ConfigError("a strobe needs both strobe_amplitude_ns and strobe_period_ns")
    return ClockSkew(offset_ns=offset, rate_ppm=rate, strobe=Strobe(amplitude, period) if amplitude else None)


FAULT = ClockFault()
