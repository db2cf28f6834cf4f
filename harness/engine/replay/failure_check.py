"""Whether a schedule still fails: shrinking asks this again and again, and simulated runs answer.

Guarantees: the same draft and schedule give the same answer; a run ends as soon as one of the wanted checkers is
certain, and soon after a short schedule is over, so that small schedules are cheap; only failures without an excuse
count. ``shrinker`` searches; real hosts are out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.engine.replay.failure_rate import room_for
from dethrone.harness.engine.run.code_names import chosen_checkers
from dethrone.harness.engine.run.judge import watchers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import Draft, draft
from dethrone.harness.engine.run.rehearsal import Rehearsed, rehearse_draft, with_schedule

BOUNDS_AFTER = 2
"""How many of the promise's bounds a run lasts beyond its schedule: a window of liveness is as long as one."""


class StillFails:
    """Schedule → whether a run with these options and it fails one of ``wanted``. ConfigError for bad options."""

    def __init__(self, options: RunOptions, wanted: tuple[str, ...]) -> None:
        self._options = options
        self._draft = draft(options, seed=options.seed or 0)
        self._checkers = {
            name: checker for name, checker in chosen_checkers(options.checkers).items() if name in wanted
        }

    def __call__(self, schedule: Schedule) -> bool:
        """One run decides: the same schedule gives the same history."""
        return bool(self.run(schedule).failing())

    def options(self, schedule: Schedule) -> RunOptions:
        """The options of that run: it lasts as long as this schedule needs, and no longer than the whole one."""
        plan = self._draft.plan
        needed = room_for(schedule, at_most=plan.time_limit_ns) + BOUNDS_AFTER * plan.promise.leader_bound_ns
        return msgspec.structs.replace(self._options, time_limit_ns=min(plan.time_limit_ns, needed))

    def run(self, schedule: Schedule) -> Rehearsed:
        """That run."""
        limit_ns = self.options(schedule).time_limit_ns
        plan = msgspec.structs.replace(self._draft.plan, time_limit_ns=limit_ns)
        shortened = msgspec.structs.replace(self._draft, plan=plan)
        return run_until_failure(with_schedule(shortened, schedule), self._checkers)


def run_until_failure(drafted: Draft, checkers: Mapping[str, Checker]) -> Rehearsed:
    """One run, which ends early if one of these checkers can decide at once."""
    return rehearse_draft(drafted, checkers, watchers=watchers(checkers.values(), drafted.plan))
