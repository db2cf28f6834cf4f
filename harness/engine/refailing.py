"""Whether a schedule still fails: the question that shrinking asks again and again, answered by simulated runs.

Promises: the same draft and schedule give the same answer; a run ends as soon as one of the wanted checkers is certain,
which changes no answer; only failures that nothing excuses count. Leaves out the search (``shrinking``) and real hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.core.protocols import Checker, Incremental
from harness.core.schedule import Schedule
from harness.engine.judge import load_checkers
from harness.engine.model import RunOptions
from harness.engine.planning import Draft, draft
from harness.engine.rehearsal import Rehearsed, rehearse_draft, with_schedule


def still_fails(options: RunOptions, wanted: tuple[str, ...]) -> Callable[[Schedule], bool]:
    """Schedule → whether a run with these options and it fails one of ``wanted``. ConfigError for unknown checkers."""
    drafted = draft(options, seed=options.seed or 0)
    known = load_checkers()
    checkers = {name: known[name] for name in wanted if name in known}

    def fails(schedule: Schedule) -> bool:
        return bool(run_until_failure(with_schedule(drafted, schedule), checkers).failing())

    return fails


def run_until_failure(drafted: Draft, checkers: Mapping[str, Checker]) -> Rehearsed:
    """One run, which ends early where one of these checkers can tell at once."""
    plan = drafted.plan
    watchers = [
        checker.watcher(plan.promise, plan)
        for name, checker in checkers.items()
        if isinstance(checker, Incremental) and plan.promise.owes(name)
    ]
    return rehearse_draft(drafted, checkers, watchers=watchers)
