"""The kinds of doses: what a dose of a fault is, from where to where it is searched, and the schedule that gives it.

Guarantees: pure; each step of a schedule gives the dose once, and health is awaited after it. Out of scope: which dose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.duration import parse_duration, show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.engine.margin.dose_search import Scale

HOUR_NS = 3600 * SECOND
HOLD_NS = 5 * SECOND
GAP_NS = 1 * SECOND
WARM_NS = 8 * SECOND
"""Until a cluster has its first leader, and some more."""


class DoseKind(msgspec.Struct, frozen=True, kw_only=True):
    """``param``: the parameter of ``fault`` that is the dose; None: how long it is held. ``sign``: of the parameter.

    ``lags``: what the dose delays shows only after it, so the fault is held for twice the dose longer. ``percent``: the
    dose is a share, else a time in ns. ``least`` to ``most``: searched unless the user says otherwise.
    """

    name: str
    says: str
    fault: str
    param: str | None
    more: Mapping[str, Any] = {}
    sign: int = 1
    lags: bool = False
    percent: bool = False
    least: int
    most: int
    precision: int = 25

    @property
    def scale(self) -> Scale:
        """Shares are compared by differences, times by ratios."""
        return "difference" if self.percent else "ratio"

    def show(self, dose: int) -> str:
        """The dose in words."""
        if self.percent:
            return f"{dose} %"
        return f"{dose / HOUR_NS:.3g} h" if dose >= HOUR_NS else show_duration(dose)

    def read(self, words: str) -> int:
        """The dose that a user wrote. Raises ConfigError."""
        if not self.percent:
            return parse_duration(words)
        number = words.strip().removesuffix("%").strip()
        if not number.isdigit() or not 1 <= int(number) <= 100:
            raise ConfigError(f"{words!r} is no share", next_step="write 1 to 100, in percent")
        return int(number)

    def hold_ns(self, dose: int, hold_ns: Ns) -> Ns:
        """How long a fault of this dose is held."""
        if self.param is None:
            return dose
        return hold_ns + 2 * dose if self.lags else hold_ns

    def planned(self, dose: int, *, victims: str, hold_ns: Ns) -> PlannedFault:
        """The fault."""
        params = dict(self.more) if self.param is None else {**self.more, self.param: self.sign * dose}
        return PlannedFault(kind=self.fault, victims=victims, hold_ns=self.hold_ns(dose, hold_ns), params=params)


KINDS: Mapping[str, DoseKind] = {
    kind.name: kind
    for kind in (
        DoseKind(
            name="pause", says="SIGSTOP for this time", fault="pause", param=None, least=50 * MS, most=20 * SECOND
        ),
        DoseKind(
            name="link.delay",
            says="each packet or message to and from its peers arrives later by this time",
            fault="link",
            param="delay_ns",
            lags=True,
            least=5 * MS,
            most=9 * SECOND,
        ),
        DoseKind(
            name="link.loss",
            says="this share of packets or messages to and from its peers is lost",
            fault="link",
            param="loss_percent",
            percent=True,
            least=1,
            most=100,
            precision=5,
        ),
        DoseKind(
            name="clock",
            says="its wall clock is stepped forward by so much",
            fault="clock",
            param="offset_ns",
            least=10 * MS,
            most=24 * HOUR_NS,
        ),
        DoseKind(
            name="clock.back",
            says="its wall clock is stepped back by so much",
            fault="clock",
            param="offset_ns",
            sign=-1,
            least=10 * MS,
            most=24 * HOUR_NS,
        ),
        DoseKind(
            name="disk.slow",
            says="each sync of its disk takes so much longer",
            fault="disk",
            param="latency_ns",
            more={"how": "slow"},
            lags=True,
            least=5 * MS,
            most=20 * SECOND,
        ),
    )
}


def kind_of(name: str) -> DoseKind:
    """The kind of this name. Raises ConfigError with the nearest one."""
    if name not in KINDS:
        raise unknown_name("dose", name, KINDS)
    return KINDS[name]


def schedule_of(kind: DoseKind, dose: int, *, times: int, victims: str, hold_ns: Ns) -> Schedule:
    """The dose, ``times`` times, each after health is back."""
    fault = kind.planned(dose, victims=victims, hold_ns=hold_ns)
    steps = tuple(Step(faults=(fault,), gap_ns=GAP_NS) for _ in range(times))
    return Schedule(seed=0, strategy=f"margin {kind.name} {kind.show(dose)}", steps=steps)


def time_limit_ns(kind: DoseKind, dose: int, *, times: int, hold_ns: Ns) -> Ns:
    """How long a run of this schedule lasts at least: an estimate; the engine allows twice as long."""
    return WARM_NS + times * (kind.hold_ns(dose, hold_ns) + GAP_NS + 1 * SECOND)
