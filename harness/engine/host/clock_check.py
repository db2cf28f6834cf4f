"""Whether a node's clock can be skewed, and what the command of a description prints of it: right, and stepped.

Guarantees: the step ends before the last row; only processes of this cluster are touched, and none on hosts that
another user lent. Out of scope: starting the node, and comparing clocks (the agent).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.interfaces import ClockAsked, Evidence, Host, SkewedHost
from dethrone.harness.engine.host.doctor_row import DoctorRow

STEP = "clock"
STEP_NS = 10 * SECOND
"""What the clock is stepped by."""
_SKEWED = "its clock can be skewed"
_STEPS = f"a step by {STEP_NS // SECOND} s and its end are in what it prints"


def clock_rows(host: Host, *, told: bool, lent: bool) -> Iterator[DoctorRow]:
    """Whether the clock of this host's running node can be skewed; where it is ``told``, what the node prints of it,
    and what once it is stepped."""
    untried = "another user owns the host" if lent else ""
    if isinstance(host, SkewedHost) and not lent:
        untried = host.unskewed()
        yield _skewable(untried)
    if told and isinstance(host, ClockAsked):
        yield from _told_rows(host, host.ask_clock, untried)


def _skewable(refused: str) -> DoctorRow:
    """What was tried of it without doing harm."""
    if not refused:
        return DoctorRow(step=STEP, what=_SKEWED)
    step = "leave clock out of --faults here; docs/clocks.md says what each way needs"
    return DoctorRow(step=STEP, what=_SKEWED, seen="not seen", why=refused, what_to_do=step)


def _told_rows(host: Host, ask: Callable[[], Mapping[str, Any]], untried: str) -> Iterator[DoctorRow]:
    """What the node prints of its clock; ``untried``: why that is not stepped."""
    try:
        told = ask()
    except HarnessError as error:
        yield DoctorRow(
            step=STEP,
            what="the node prints its clock",
            seen="no",
            why=error.cause or error.what,
            what_to_do="check command and pattern in [clock]",
        )
        return
    if told["wrong"]:
        yield DoctorRow(
            step=STEP,
            what=f"it prints {told['printed']!r}: {_date(told['wall_ns'])}",
            seen="no",
            why=f"that is {_ms(told['skew_ns'])} from its host's clock, which is not skewed",
            what_to_do="check the groups of pattern in [clock], or raise tolerance if the node keeps an older time",
        )
        return
    exact = f"{_ms(told['skew_ns'])} from its host's clock, exact to {_ms(told['within_ns'])}"
    yield DoctorRow(step=STEP, what=f"it prints {told['printed']!r}: {_date(told['wall_ns'])}, {exact}")
    if untried:
        yield DoctorRow(step=STEP, what=_STEPS, seen="not seen", why=f"not tried: {untried}")
        return
    yield _stepped(host.converge(HostState(clock=ClockSkew(offset_ns=STEP_NS))), host.converge(HEALTHY))


def _stepped(began: Evidence, ended: Evidence) -> DoctorRow:
    """The row of a clock that was stepped, and set right."""
    if not began.confirmed or not ended.confirmed:
        step = "let command in [clock] ask the node: a program that prints its own clock has none that is skewed"
        return DoctorRow(step=STEP, what=_STEPS, seen="no", why=began.why or ended.why, what_to_do=step)
    silent = [said["unanswered"] for one in (began, ended) if "unanswered" in (said := _told(one))]
    if silent:
        return DoctorRow(step=STEP, what=_STEPS, seen="no", why=silent[0], what_to_do="check command in [clock]")
    printed = [str(_told(one).get("printed")) for one in (began, ended)]
    return DoctorRow(step=STEP, what=f"{_STEPS}: {printed[0]!r}, then {printed[1]!r}")


def _told(evidence: Evidence) -> dict[str, Any]:
    parts = (evidence.detail.get(name, {}) for name in ("host_clock", "clock"))
    return next((dict(part["told"]) for part in parts if "told" in part), {})


def _date(wall_ns: Ns) -> str:
    try:
        moment = dt.datetime.fromtimestamp(wall_ns / SECOND, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{wall_ns} ns since 1970"
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _ms(span_ns: Ns) -> str:
    return f"{span_ns / MS:.3g} ms" if abs(span_ns) < SECOND else f"{span_ns / SECOND:,.3f} s"
