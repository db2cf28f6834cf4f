"""When a run goes beyond its schedule: what it has yet to show, and the steps that may show it.

Guarantees: pure; a run that has shown everything is not touched; the demands are the checkers' own
(``dethrone.harness.core.interfaces.Demanding``), judged on the few events that concern faults; steps come from the
strategy that drew the schedule. Out of scope: when to ask, and for how long (``director``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import AnyEvent, Invoke, Mark, Observed, Return, Silent, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Checker, Condition, Demanding, Unmet
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.schedule import Schedule, Step
from dethrone.harness.core.timescale import schedule_at

LEFT_OUT = frozenset({Observed, Traced, Invoke, Return, Silent})
"""Most of a history, and not what obligations and windows are made of."""


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """Steps drawn after the schedule's own, and the conditions of their triggers."""

    steps: tuple[Step, ...]
    conditions: Mapping[str, Condition]

    def at_scale(self, scale: float) -> Continuation:
        """The same steps in a run at this time scale."""
        drawn = schedule_at(Schedule(seed=0, strategy="", steps=self.steps), scale)
        return msgspec.structs.replace(self, steps=drawn.steps)


Continue = Callable[[], Continuation]
Assess = Callable[[Sequence[AnyEvent], Plan, Ns], Sequence[Unmet]]


def worth_keeping(event: AnyEvent) -> bool:
    """Whether the event is needed to say what a run has yet to show."""
    kind = type(event)
    if kind not in LEFT_OUT:
        return True
    if kind is Observed:
        return bool(event.leads)  # type: ignore[union-attr]
    return kind is Traced and event.name == "halt"  # type: ignore[union-attr]


def unmet_by(checkers: Mapping[str, Checker]) -> Assess:
    """What these checkers miss in a run so far: its kept events, its plan, and the time."""
    demanding = [checker for _, checker in sorted(checkers.items()) if isinstance(checker, Demanding)]

    def assess(events: Sequence[AnyEvent], plan: Plan, now: Ns) -> Sequence[Unmet]:
        history = History([*events, Mark(seq=len(events), t=now, name="stop")])
        return [one for checker in demanding for one in checker.unmet(history, plan.promise, plan)]

    return assess


def next_step(steps: Sequence[Step], unmet: Sequence[Unmet]) -> int | None:
    """Which of these steps to run next: the first with a fault of a kind that may show what is missing."""
    wanted = {kind for one in unmet for kind in one.kinds}
    return next((n for n, step in enumerate(steps) if any(f.kind in wanted for f in step.faults)), None)
