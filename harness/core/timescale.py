"""One factor by which a whole run is slower: its system's timers, the bounds of its promise, its schedule, its limit.

Guarantees: pure; a scale of 1 changes nothing; every duration of a promise and of a schedule moves by the same factor,
so that on a machine half as fast the same run takes twice as long. Out of scope: how a system's knobs say it
(``dethrone.harness.core.interfaces.Scalable``) and which factor a machine needs
(``dethrone.harness.core.calibration``).
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, StepBegin

SCALES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""The factors that a calibration chooses from."""

SCALE_MAX = SCALES[-1]


def longer(duration_ns: Ns, scale: float | Fraction) -> Ns:
    """The duration at this scale, in whole ns."""
    return duration_ns if scale == 1 else round(duration_ns * Fraction(scale))


def longer_promise(promise: Promise, scale: float) -> Promise:
    """The promise of the same system with all its timers longer by ``scale``."""
    if scale == 1:
        return promise
    return msgspec.structs.replace(
        promise,
        election_timeout_ns=longer(promise.election_timeout_ns, scale),
        heartbeat_ns=longer(promise.heartbeat_ns, scale),
        leader_bound_ns=longer(promise.leader_bound_ns, scale),
        later_gap_ns=longer(promise.later_gap_ns, scale),
        step_down_ns=None if promise.step_down_ns is None else longer(promise.step_down_ns, scale),
        converge_ns=None if promise.converge_ns is None else longer(promise.converge_ns, scale),
        delay_max_ns=longer(promise.delay_max_ns, scale),
        noise_max_ns=longer(promise.noise_max_ns, scale),
    )


def schedule_at(schedule: Schedule, scale: float) -> Schedule:
    """The same schedule at this scale, from any scale that it is written for."""
    by = Fraction(scale) / Fraction(schedule.time_scale)
    if by == 1:
        return schedule
    steps = tuple(
        msgspec.structs.replace(
            step,
            faults=tuple(_fault(fault, by) for fault in step.faults),
            gap_ns=longer(step.gap_ns, by),
            when=_when(step.when, by),
        )
        for step in schedule.steps
    )
    bound = schedule.health_bound_ns
    return msgspec.structs.replace(
        schedule, steps=steps, health_bound_ns=None if bound is None else longer(bound, by), time_scale=scale
    )


def read_scale(raw: object) -> float | None:
    """The factor that a user wrote, a word or a number; None: ``auto``. ValueError: neither, or out of bounds."""
    if isinstance(raw, str) and raw.strip() == "auto":
        return None
    try:
        value = float(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else 0.0
    except (ValueError, OverflowError):
        value = 0.0
    if not 1 <= value <= SCALE_MAX:
        raise ValueError(f"expected auto or a number from 1 to {show_scale(SCALE_MAX)}")
    return value


def show_scale(scale: float) -> str:
    """``1.5``, ``2``."""
    return f"{scale:g}"


def _fault(fault: PlannedFault, by: Fraction) -> PlannedFault:
    return msgspec.structs.replace(
        fault,
        delay_ns=longer(fault.delay_ns, by),
        hold_ns=longer(fault.hold_ns, by),
        when=_trigger(fault.when, by) if isinstance(fault.when, OnEvent) else fault.when,
        until=None if fault.until is None else _trigger(fault.until, by),
    )


def _when(when: StepBegin | OnEvent, by: Fraction) -> StepBegin | OnEvent:
    return _trigger(when, by) if isinstance(when, OnEvent) else when


def _trigger(trigger: OnEvent, by: Fraction) -> OnEvent:
    return msgspec.structs.replace(trigger, within_ns=max(1, longer(trigger.within_ns, by)))
