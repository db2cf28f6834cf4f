"""Shrinking a failing schedule: fewer steps and faults, shorter and rounder times, fewer victims; it still fails.

Pure: the caller decides whether a schedule fails, and how often to ask. Source of the search over steps: Zeller,
Hildebrandt, "Simplifying and isolating failure-inducing input", 2002 (ddmin). Guarantees: the result was seen to fail
(the given schedule is assumed to); never more tries than allowed, and a note says when they ran out; the same answers
give the same result. ``rehearsal`` and ``runner`` run schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, Step

T = TypeVar("T")

HOLD_MIN_NS = 50 * MS
GAP_MIN_NS = 100 * MS
"""Times below these are not tried: they are of the order of a round trip."""


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What is left. ``exhausted``: the tries ran out, so a smaller one may exist."""

    schedule: Schedule
    tries: int
    exhausted: bool


class _OutOfTriesError(Exception):
    pass


class _Asker:
    """Asks whether schedules fail, at most ``most`` times, never twice for the same one."""

    def __init__(self, fails: Callable[[Schedule], bool], most: int) -> None:
        self.fails = fails
        self.left = most
        self.tries = 0
        self.known: dict[bytes, bool] = {}

    def __call__(self, schedule: Schedule) -> bool:
        key = msgspec.json.encode(schedule)
        if key not in self.known:
            if self.left < 1:
                raise _OutOfTriesError
            self.left -= 1
            self.tries += 1
            self.known[key] = self.fails(schedule)
        return self.known[key]


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], *, tries_max: int) -> Shrunk:
    """The smallest schedule found that still fails. ``fails`` is not asked about ``schedule`` itself."""
    asker = _Asker(fails, tries_max)
    best = [schedule]

    amiss = _dangling(schedule)

    def keep(candidate: Schedule | None) -> bool:
        if candidate is None or not _dangling(candidate) <= amiss or not asker(candidate):
            return False
        best[0] = candidate
        return True

    exhausted = False
    try:
        for phase in (_fewer_steps, _fewer_faults, _shorter, _fewer_victims, _fewer_steps, _fewer_names, _rounder):
            phase(best, keep)
    except _OutOfTriesError:
        exhausted = True
    return Shrunk(schedule=best[0], tries=asker.tries, exhausted=exhausted)


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A 1-minimal subsequence that fails: without any one of its items it would not. ``items`` itself is taken to."""
    current, parts = list(items), 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        chunks = [current[at : at + size] for at in range(0, len(current), size)]
        smaller = next((chunk for chunk in chunks if len(chunk) < len(current) and fails(chunk)), None)
        if smaller is not None:
            current, parts = smaller, 2
            continue
        rests = [[item for at, part in enumerate(chunks) if at != skip for item in part] for skip in range(len(chunks))]
        smaller = next((rest for rest in rests if len(rest) < len(current) and fails(rest)), None)
        if smaller is not None:
            current, parts = smaller, max(2, parts - 1)
            continue
        if parts >= len(current):
            break
        parts = min(len(current), 2 * parts)
    return current


Keep = Callable[[Schedule | None], bool]


def _fewer_steps(best: list[Schedule], keep: Keep) -> None:
    whole = best[0]
    last = max(range(len(whole.steps)), default=0)
    for end in _halving(last):  # what came after the failure goes at once
        if keep(_with_steps(whole, whole.steps[: end + 1])):
            break
    whole = best[0]
    ddmin(whole.steps, lambda steps: keep(_with_steps(whole, steps)))
    if len(best[0].steps) == 1:
        keep(_with_steps(best[0], ()))


def _halving(last: int) -> Iterator[int]:
    """Positions before ``last`` to cut behind, the earliest first."""
    at = 1
    while at < last:
        yield at - 1
        at *= 2


def _fewer_faults(best: list[Schedule], keep: Keep) -> None:
    number = 0
    while number < len(best[0].steps):
        index = 0
        while index < len(best[0].steps[number].faults) and len(best[0].steps[number].faults) > 1:
            faults = best[0].steps[number].faults
            if not keep(_with_faults(best[0], number, (*faults[:index], *faults[index + 1 :]))):
                index += 1
        number += 1


def _shorter(best: list[Schedule], keep: Keep) -> None:
    for number in range(len(best[0].steps)):
        while (gap := best[0].steps[number].gap_ns) > GAP_MIN_NS:
            if not keep(_with_gap(best[0], number, max(GAP_MIN_NS, gap // 4))):
                break
        for index in range(len(best[0].steps[number].faults)):
            fault = best[0].steps[number].faults[index]
            if fault.delay_ns:
                keep(_with_fault(best[0], number, index, delay_ns=0))
            while (hold := best[0].steps[number].faults[index].hold_ns) > HOLD_MIN_NS:
                if not keep(_with_fault(best[0], number, index, hold_ns=max(HOLD_MIN_NS, hold // 2))):
                    break


_SIMPLER = {
    "minority-with-leader": "leader",
    "minority": "follower",
    "majority": "random",
    "voters": "voter",
    "peers": "peer",
}


def _fewer_victims(best: list[Schedule], keep: Keep) -> None:
    for number in range(len(best[0].steps)):
        for index in range(len(best[0].steps[number].faults)):
            fault = best[0].steps[number].faults[index]
            simpler = _SIMPLER.get(fault.victims)
            if (
                simpler is None
                and ":" in fault.victims
                and fault.victims.split(":")[0] in {"follower", "random", "peer"}
            ):
                simpler = fault.victims.split(":")[0]
            if simpler is not None:
                keep(_with_fault(best[0], number, index, victims=simpler))


def _fewer_names(best: list[Schedule], keep: Keep) -> None:
    """A name that no other fault speaks of says nothing to a reader."""
    for number, step in enumerate(best[0].steps):
        needed = {fault.needs_fault for fault in step.faults} | _selected(step)
        needed |= {str(trigger.where.get("fault", "")) for trigger in best[0].triggers}
        for index, fault in enumerate(step.faults):
            if fault.name and fault.name not in needed:
                keep(_with_fault(best[0], number, index, name=""))


def _rounder(best: list[Schedule], keep: Keep) -> None:
    """Times of two digits, all at once, else step by step: drawn ones are long to read."""
    steps = [_rounded_step(step) for step in best[0].steps]
    if steps != list(best[0].steps) and not keep(_with_steps(best[0], steps)):
        for number, step in enumerate(steps):
            if step != best[0].steps[number]:
                keep(_with_step(best[0], number, step))


def _rounded_step(step: Step) -> Step:
    faults = []
    for fault in step.faults:
        until = fault.until
        faults.append(
            msgspec.structs.replace(
                fault,
                delay_ns=_rounded(fault.delay_ns),
                hold_ns=_rounded(fault.hold_ns),
                when=_rounded_trigger(fault.when) if isinstance(fault.when, OnEvent) else fault.when,
                until=until if until is None else _rounded_trigger(until),
            )
        )
    when = _rounded_trigger(step.when) if isinstance(step.when, OnEvent) else step.when
    return msgspec.structs.replace(step, faults=tuple(faults), gap_ns=_rounded(step.gap_ns), when=when)


def _rounded_trigger(trigger: OnEvent) -> OnEvent:
    return msgspec.structs.replace(trigger, within_ns=_rounded(trigger.within_ns))


def _rounded(ns: Ns) -> Ns:
    """Upwards, to two digits."""
    unit: Ns = 10 ** max(0, len(str(ns)) - 2)
    return -(-ns // unit) * unit


def _with_steps(schedule: Schedule, steps: Sequence[Step]) -> Schedule:
    # What the smaller one must show is the failure, not the coverage that the whole one was drawn for.
    return msgspec.structs.replace(schedule, steps=tuple(steps), obligations=())


def _with_step(schedule: Schedule, number: int, step: Step) -> Schedule:
    steps = schedule.steps
    return _with_steps(schedule, (*steps[:number], step, *steps[number + 1 :]))


def _with_gap(schedule: Schedule, number: int, gap_ns: Ns) -> Schedule:
    return _with_step(schedule, number, msgspec.structs.replace(schedule.steps[number], gap_ns=gap_ns))


def _with_faults(schedule: Schedule, number: int, faults: tuple[PlannedFault, ...]) -> Schedule | None:
    """None if a remaining fault waits for a removed one."""
    step = schedule.steps[number]
    try:
        made = Step(faults=faults, gap_ns=step.gap_ns, when=step.when)
    except ValueError:
        return None
    return _with_step(schedule, number, made)


def _dangling(schedule: Schedule) -> set[str]:
    """Names that selectors and triggers speak of, and that no fault has: of selectors, no fault of the same step."""
    every = {fault.name for step in schedule.steps for fault in step.faults}
    out = {str(trigger.where["fault"]) for trigger in schedule.triggers if "fault" in trigger.where} - every
    for step in schedule.steps:
        out |= _selected(step) - {fault.name for fault in step.faults}
    return out


def _selected(step: Step) -> set[str]:
    """Names of faults that the selectors of this step speak of, those of its triggers too."""
    texts = [*(fault.victims for fault in step.faults), *(trigger.by for trigger in step.triggers)]
    selectors = (text.partition(":") for text in texts)
    return {name for kind, _, rest in selectors if kind in {"hit-by", "spared-by"} for name in rest.split(",")}


def _with_fault(schedule: Schedule, number: int, index: int, **changes: Ns | str) -> Schedule | None:
    faults = schedule.steps[number].faults
    changed = msgspec.structs.replace(faults[index], **changes)
    return _with_faults(schedule, number, (*faults[:index], changed, *faults[index + 1 :]))
