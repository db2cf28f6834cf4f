"""Simulated runs that leave nothing behind: from options and a seed to a judgement, all in memory.

For callers that need thousands of runs and few of their histories: the exam, shrinking, campaigns. Guarantees: the
events are those that ``run --on sim`` writes for the same options and seed; a run that does not end is trouble, not a
loop. Files, progress and the user's signals are out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import AnyEvent, End
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Checker, Watcher
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.schedule import RealisedSchedule, Schedule
from dethrone.harness.engine.run.continuation import unmet_by
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.judge import judge
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import Draft, draft
from dethrone.harness.engine.run.virtual_loop import play, world_of


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its plan (bounds fixed after the warm-up), what happened, and what the checkers say."""

    plan: Plan
    history: History
    realised: RealisedSchedule
    judgement: Judgement
    simulated_ns: Ns

    def failing(self) -> frozenset[str]:
        """Names of the checkers that failed."""
        return frozenset(verdict.checker for verdict in self.judgement.verdicts if verdict.outcome == "fail")


def rehearse(options: RunOptions, checkers: Mapping[str, Checker], *, seed: int) -> Rehearsed:
    """Run once. Raises ConfigError where the options make no run, ClusterError for one that does not end."""
    return rehearse_draft(draft(options, seed=seed), checkers)


def with_schedule(drafted: Draft, schedule: Schedule) -> Draft:
    """The same run under another schedule (of fault kinds and triggers that the draft has loaded)."""
    missing = set(schedule.kinds) - set(drafted.faults)
    if missing:
        raise ConfigError(f"the draft has no fault {', '.join(sorted(missing))}")
    return msgspec.structs.replace(drafted, plan=msgspec.structs.replace(drafted.plan, schedule=schedule), more=None)


def rehearse_draft(
    drafted: Draft, checkers: Mapping[str, Checker], *, watchers: Sequence[Watcher] = (), limited: bool = False
) -> Rehearsed:
    """Run a draft once. ``watchers``: as for the director; the first that says so ends the run."""
    plans: list[Plan] = [drafted.plan]
    director = Director(drafted, watchers=watchers)
    director.on_warm = plans.append
    director.assess = unmet_by(checkers)
    world = world_of(drafted)
    events: list[AnyEvent] = []
    with no_garbage():
        play(director, world, events.extend)
        now = world.now()
        events.append(End(seq=len(events), t=now, count=len(events), digest="", reason=director.end_reason))
        history = History(events)
        plan = plans[-1]
        return Rehearsed(
            plan=plan,
            history=history,
            realised=director.realised(),
            judgement=judge(history, plan, checkers, limited=limited),
            simulated_ns=now,
        )
