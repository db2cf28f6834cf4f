"""Schedules as data: planned (selectors, times, triggers) and realised (who, when, with which outcome).

A planned fault begins at a time of its step, after another fault of it, or on something that the nodes do (a trigger).
Guarantees: a schedule is a value that prints, stores and compares; one that contradicts itself cannot be made or read;
files of older versions read. Drawing one from a seed is the nemesis' business. Out of scope: carrying it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.plausible import wrong_times

SCHEMA = 2
"""2: triggers and named faults. Files of schema 1 read as they were meant."""

ANYBODY = "anybody"

SCALE_LEAST, SCALE_MOST = 0.01, 100.0
"""Of ``Schedule.time_scale``: what a file may say."""


class StepBegin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="step-begin"):
    """At the begin of the step."""


class AfterFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="after-fault"):
    """Once the fault of this name, earlier in the same step, is in force."""

    fault: str


class OnEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="on-event"):
    """A trigger: the ``count``-th ``event`` since it was armed; a miss if it did not come ``within_ns``.

    ``event``: an entry-point name of ``dethrone.triggers`` (``elected``, ``vote-granted``, ``write-acked`` …). ``by``:
    who must have done it, as a selector. ``where``: fields that it must have. ``after``: armed once the fault of this
    name, earlier in the same step, is in force; "" : armed at the begin of the step.
    """

    event: str
    within_ns: Ns
    count: int = 1
    by: str = ANYBODY
    where: Mapping[str, Any] = {}
    after: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what can never happen."""
        if self.within_ns < 1:
            raise ValueError(f"the trigger {self.event!r} needs a within_ns above 0")
        if self.count < 1:
            raise ValueError(f"the trigger {self.event!r} needs a count of at least 1")


When = StepBegin | AfterFault | OnEvent


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault of a step: which (``kind`` is an entry-point name), to whom (``victims`` is a selector's text), when.

    ``delay_ns``: from ``when`` to the fault's begin. ``hold_ns``: from in force to its end (0: ends at once, as a
    restart does); ``until``: it ends sooner, on this event. ``params``: the fault kind's own, validated by it.
    ``name``: how other faults refer to it (``AfterFault``, ``OnEvent.after``, the selectors ``hit-by:`` and
    ``spared-by:``).
    """

    kind: str
    victims: str
    delay_ns: Ns = 0
    hold_ns: Ns
    params: Mapping[str, Any] = {}
    name: str = ""
    when: When = StepBegin()
    until: OnEvent | None = None

    @property
    def needs_fault(self) -> str:
        """The name of the fault that must be in force before this one is thought of; "" : none."""
        if isinstance(self.when, AfterFault):
            return self.when.fault
        return self.when.after if isinstance(self.when, OnEvent) else ""

    @property
    def triggers(self) -> tuple[OnEvent, ...]:
        """What it waits for, to begin and to end."""
        began = (self.when,) if isinstance(self.when, OnEvent) else ()
        return began if self.until is None else (*began, self.until)


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults that may overlap, then healing, then ``gap_ns`` of quiet AFTER health came back (bounded).

    ``when``: the step begins on this event, and its faults' selectors may speak of it; a miss leaves the step out.
    """

    faults: tuple[PlannedFault, ...]
    gap_ns: Ns
    when: StepBegin | OnEvent = StepBegin()

    def __post_init__(self) -> None:
        """Raise ValueError for two faults of one name, or a reference to none that comes earlier."""
        known: set[str] = set()
        for fault in self.faults:
            if fault.needs_fault and fault.needs_fault not in known:
                raise ValueError(
                    f"the {fault.kind} fault waits for {fault.needs_fault!r}, which names no earlier fault of its step"
                )
            if fault.until is not None and fault.until.after:
                raise ValueError(f"the end of the {fault.kind} fault cannot wait for another fault: remove 'after'")
            if fault.name in known:
                raise ValueError(f"two faults of one step are called {fault.name!r}")
            known |= {fault.name} - {""}
        if isinstance(self.when, OnEvent) and self.when.after:
            raise ValueError("a step cannot wait for a fault: remove 'after'")

    @property
    def triggers(self) -> tuple[OnEvent, ...]:
        """What it and its faults wait for."""
        own = (self.when,) if isinstance(self.when, OnEvent) else ()
        return (*own, *(trigger for fault in self.faults for trigger in fault.triggers))


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps one after another. ``seed`` and ``strategy`` say where it came from; ``obligations`` what it must show.

    ``obligations``: names the coverage checker knows (``leader-isolated``, ``leader-killed``, ``minority-cut`` …).
    """

    seed: int
    strategy: str
    steps: tuple[Step, ...]
    obligations: tuple[str, ...] = ()
    health_bound_ns: Ns | None = None
    """How long health is awaited after a step before its gap begins; None: the promise's bounds decide."""
    time_scale: float = 1.0
    """The time scale that its durations are written for (``dethrone.harness.core.timescale``)."""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Raise ValueError for a file of a newer version."""
        if self.schema > SCHEMA:
            raise ValueError(f"the schedule has schema {self.schema}, this version reads up to {SCHEMA}")
        if not SCALE_LEAST <= self.time_scale <= SCALE_MOST:
            raise ValueError(f"the schedule's time_scale {self.time_scale} is not from {SCALE_LEAST} to {SCALE_MOST}")
        faults = [fault for step in self.steps for fault in step.faults]
        wrong = wrong_times(self, *self.steps, *faults, *self.triggers)
        if wrong:
            raise ValueError(f"invalid schedule: {wrong}")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The fault kinds in it, sorted, each once."""
        return tuple(sorted({fault.kind for step in self.steps for fault in step.faults}))

    @property
    def triggers(self) -> Iterator[OnEvent]:
        """Every trigger in it, in order."""
        return (trigger for step in self.steps for trigger in step.triggers)


class RealisedTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a trigger. ``at``: when the event happened, as far as known; ``seen_ns``: when the harness saw it.

    ``latency_ns``: from the event to its effect in force (or its fault healed), at most; None: it had no effect.
    """

    event: str
    outcome: Literal["hit", "miss"]
    actor: str = ""
    term: int = 0
    at: Span | None = None
    seen_ns: Ns | None = None
    latency_ns: Ns | None = None


class RealisedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of one planned fault. ``begin``/``end``: command … confirmed effect; None: did not happen.

    ``trigger``, ``until``: of its begin and its end, where it was planned with one and it came to that. ``engine``: by
    which means hosts changed their links, where they did (``nfqueue``: packets pass through a program). ``zones``: the
    zones that its victims are, where it hit all nodes of them.
    """

    fault: int
    step: int
    kind: str
    victims: tuple[str, ...]
    roles: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    begin: Span | None = None
    end: Span | None = None
    outcome: Literal["installed", "skipped", "indeterminate"]
    healed: bool
    why: str = ""
    name: str = ""
    trigger: RealisedTrigger | None = None
    until: RealisedTrigger | None = None
    engine: str | msgspec.UnsetType = msgspec.UNSET
    zones: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class RealisedSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults that really were, in order of their beginning."""

    seed: int
    faults: tuple[RealisedFault, ...]
    schema: int = SCHEMA
