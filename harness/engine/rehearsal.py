"""Simulated runs that leave nothing behind: from options and a seed to a judgement, all in memory.

For those who need thousands of runs and few of their histories: the exam, shrinking, campaigns. Promises: the events
are those that ``run --on sim`` writes for the same options and seed; a run that does not end is trouble, not a loop.
Leaves out files, progress and the user's signals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from harness.core.clock import SECOND, Ns
from harness.core.errors import ClusterError, ConfigError
from harness.core.events import AnyEvent, End
from harness.core.history import History
from harness.core.plan import Plan
from harness.core.protocols import Checker
from harness.core.schedule import RealisedSchedule, Schedule
from harness.core.world import VirtualBackend
from harness.engine.director import Director
from harness.engine.judge import judge
from harness.engine.model import Judgement, RunOptions
from harness.engine.planning import Draft, draft
from harness.engine.virtual import ENDLESS, REST_NS, TICK_NS, no_garbage


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
        raise ConfigError(f"the draft knows no fault {', '.join(sorted(missing))}")
    return msgspec.structs.replace(drafted, plan=msgspec.structs.replace(drafted.plan, schedule=schedule))


def rehearse_draft(
    drafted: Draft, checkers: Mapping[str, Checker], *, watchers: Sequence[Callable[[AnyEvent], bool]] = ()
) -> Rehearsed:
    """Run a draft once. ``watchers``: as for the director; the first that says so ends the run."""
    plans: list[Plan] = [drafted.plan]
    director = Director(drafted, watchers=watchers)
    director.on_warm = plans.append
    events, now = _play(drafted, director)
    events.append(
        End(seq=len(events), t=now, count=len(events), digest="", reason=director.end_reason),
    )
    history = History(events)
    plan = plans[-1]
    return Rehearsed(
        plan=plan,
        history=history,
        realised=director.realised(),
        judgement=judge(history, plan, checkers),
        simulated_ns=now,
    )


def _play(drafted: Draft, director: Director) -> tuple[list[AnyEvent], Ns]:
    backend = drafted.backend
    if not isinstance(backend, VirtualBackend):
        raise ConfigError(f"the backend {backend.name!r} makes no worlds", next_step="use --on sim")
    world = backend.world(drafted.system, drafted.plan)
    director.tick_ns, director.rest_ns = TICK_NS, REST_NS
    limit: Ns = ENDLESS * (drafted.plan.time_limit_ns + 30 * SECOND) + 600 * SECOND
    step, wait, submit, wake_at = director.step, world.wait, world.submit, director.wake_at
    out: list[AnyEvent] = []
    with no_garbage():
        events, actions = director.open(world.now())
        while True:
            out += events
            for action in actions:
                submit(action)
            if director.done:
                return out, world.now()
            world.eager = director.attentive
            happenings = wait(wake_at(world.now()))
            now = world.now()
            if now > limit:
                raise ClusterError("the simulated run does not end", next_step="this is a bug of dethrone: report it")
            events, actions = step(now, happenings)
