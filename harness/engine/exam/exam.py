"""The harness' own exam: does the checker that is named for a planted bug find it, and is it silent otherwise?

A bug counts as found only when a checker named for it fails within the budget AND the same seed on the build without
the bug passes that checker. Schedules are drawn: run number k of every bug of a system has the same settings, workload,
cluster size and nemesis interval, and differs by nothing but the variant. Guarantees: a function of its arguments
except for the budget, which is CPU time of this process, or wall-clock time where the runs are real. Out of scope:
distributing the work over processes (``exam_tasks``) and running on real hosts (``live_runs``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.events import Mark
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.rng import Rng
from dethrone.harness.engine.run.garbage_collection import swept
from dethrone.harness.engine.run.judge import judge
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import Rehearsed, rehearse

SCHEMA = 1

CRASH = "crash"
"""The checker of nodes that die; it finds no planted bug unless it is named for one."""

FEWEST_KINDS = 2
"""Of faults, in a run that has not all of them."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One bug to find, or one build on which nothing may be found (``seeds`` of it)."""

    system: str
    plan: ExamPlan
    strategy: str
    planted: Planted
    budget_ns: Ns = 60 * SECOND
    first_seed: int = 0
    seeds: int = 1_000_000
    """Maximum number of runs."""
    profile: str | None = None
    baseline: bool = False
    """The build without any bug: ``planted`` names nothing."""
    backend: str = "sim"
    faults: tuple[str, ...] = ()
    """The kinds that were asked for, if the plan's own were not to be."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A checker that failed where nothing is wrong."""

    system: str
    build: str
    seed: int
    checker: str
    sentence: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one task.

    ``by``: the checker named for the bug that failed; "" : not found. ``seed``, ``run``: where. ``spent_ns``: of one
    core (of the wall where runs are real), until found or given up; ``confirm_ns`` of it went into runs of the build
    without the bug. ``base``: what the checker ``by`` says of that build. ``also``: all checkers that failed in that
    run. ``before``: how often others failed in earlier runs (found by another checker). ``hits``, ``misses``: of the
    triggers. ``events``: in the certificate. ``simulated_ns``: of all runs of this build, whole. ``found_at_ns``: the
    time of the runs before the one that shows it, and of that one up to the last event of the earliest certificate of
    a checker named for it: how long a user of real clusters waits, one run after another; None: not found.
    """

    system: str
    bug: str
    says: str
    caught_by: tuple[str, ...]
    by: str = ""
    seed: int = -1
    runs: int = 0
    spent_ns: Ns = 0
    simulated_ns: Ns = 0
    found_at_ns: Ns | None = None
    also: tuple[str, ...] = ()
    before: Mapping[str, int] = {}
    unknown: int = 0
    hits: int = 0
    misses: int = 0
    events: int = 0
    alarms: tuple[Alarm, ...] = ()
    trouble: str = ""
    backend: str = "sim"
    confirm_ns: Ns = 0
    base: str = ""
    schema: int = SCHEMA

    @property
    def find_ns(self) -> Ns:
        """How long it took to find it."""
        return self.spent_ns - self.confirm_ns


def options_of(task: Task, seed: int, *, variant: str | None) -> RunOptions:
    """The run with this seed: the plan's tuples in turn, so that every bug meets the same runs."""
    plan = task.plan
    sizes = tuple(size for size in plan.nodes if size >= task.planted.nodes_min) or (task.planted.nodes_min,)
    number = seed
    nodes, number = sizes[number % len(sizes)], number // len(sizes)
    workload, number = plan.workloads[number % len(plan.workloads)], number // len(plan.workloads)
    interval_ns, number = plan.intervals_ns[number % len(plan.intervals_ns)], number // len(plan.intervals_ns)
    rate_per_s, number = plan.rates_per_s[number % len(plan.rates_per_s)], number // len(plan.rates_per_s)
    return RunOptions(
        system=task.system,
        backend=task.backend,
        nodes=nodes,
        seed=seed,
        workload=workload,
        faults=kinds_of(plan.faults, seed),
        strategy=task.strategy,
        profile=task.profile if task.profile is not None else plan.profile,
        variant=variant,
        time_limit_ns=plan.time_limit_ns,
        nemesis_interval_ns=interval_ns,
        rate_per_s=rate_per_s,
        settings={**plan.settings, **plan.in_turn[number % len(plan.in_turn)], **task.planted.settings},
        stop_at_first_failure=False,
        time_scale=1,
        conclusive=False,
    )


def kinds_of(faults: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The kinds of faults of the run with this seed: all of them in one run of two, in the others a choice of some.

    Many kinds hide what few that meet often show (Groce et al., Swarm Testing, 2012). A choice has two kinds at least.
    """
    rng = Rng(seed).stream("kinds")
    if len(faults) <= FEWEST_KINDS or rng.chance(1, 2):
        return faults
    chosen = rng.shuffle(list(range(len(faults))))[: rng.between(FEWEST_KINDS, len(faults) - 1)]
    return tuple(faults[number] for number in sorted(chosen))


def examine(
    task: Task,
    checkers: Mapping[str, Checker],
    *,
    core_ns: Callable[[], Ns],
    run: Callable[[RunOptions, Mapping[str, Checker]], Rehearsed] | None = None,
) -> Found:
    """Run seeds until the bug is found, the budget is spent or the seeds are over. ``core_ns``: time of this core."""
    carry_out = run if run is not None else _rehearse
    began = core_ns()
    bug = task.planted
    named = {name: checkers[name] for name in (*bug.caught_by, CRASH) if name in checkers}
    before: dict[str, int] = {}
    alarms: list[Alarm] = []
    runs = unknown = hits = misses = 0
    simulated = confirming = 0

    def told(**more: Any) -> Found:
        """What is known so far, and more."""
        return Found(
            system=task.system,
            bug=bug.name,
            says=bug.says,
            caught_by=bug.caught_by,
            runs=runs,
            spent_ns=core_ns() - began,
            simulated_ns=simulated,
            before=before,
            unknown=unknown,
            hits=hits,
            misses=misses,
            alarms=tuple(alarms),
            backend=task.backend,
            confirm_ns=confirming,
            **more,
        )

    for seed in swept(range(task.first_seed, task.first_seed + task.seeds)):
        if core_ns() - began - confirming > task.budget_ns:
            break
        done = carry_out(options_of(task, seed, variant=bug.name), named)
        runs += 1
        before_ns, simulated = simulated, simulated + done.simulated_ns
        hit, missed = _triggers(done)
        hits, misses = hits + hit, misses + missed
        unknown += done.judgement.outcome == "unknown"
        caught = [name for name in bug.caught_by if name in done.failing()]
        if not caught:
            for name in done.failing():
                before[name] = before.get(name, 0) + 1
            if early := crashed_at_start(done):
                return told(trouble=f"the variant crashes before the first fault, so no run can show it: {early}")
            continue
        asked = core_ns()
        base = carry_out(options_of(task, seed, variant=None), checkers)
        confirming += core_ns() - asked
        wrong = base.failing() - set(task.plan.weak) - set(bug.weak)
        alarms += _alarms(task, "clean", seed, base, wrong)
        caught = [name for name in caught if name not in base.failing()]
        if caught:
            whole = judge(done.history, done.plan, checkers)
            also = tuple(verdict.checker for verdict in whole.verdicts if verdict.outcome == "fail")
            events = min(
                len(finding.certificate)
                for verdict in done.judgement.verdicts
                if verdict.checker == caught[0]
                for finding in verdict.findings
                if finding.excused is None
            )
            said = next(verdict.outcome for verdict in base.judgement.verdicts if verdict.checker == caught[0])
            shown_ns = before_ns + _shown_ns(done, caught)
            return told(by=caught[0], seed=seed, also=also, events=events, base=said, found_at_ns=shown_ns)
    return told()


def watch(
    task: Task,
    checkers: Mapping[str, Checker],
    *,
    core_ns: Callable[[], Ns],
    run: Callable[[RunOptions, Mapping[str, Checker]], Rehearsed] | None = None,
) -> Found:
    """Run all seeds of a clean or harmless build, on which no checker may fail."""
    carry_out = run if run is not None else _rehearse
    began = core_ns()
    alarms: list[Alarm] = []
    runs = unknown = 0
    simulated: Ns = 0
    build = None if task.baseline else task.planted.name
    for seed in swept(range(task.first_seed, task.first_seed + task.seeds)):
        if core_ns() - began > task.budget_ns:
            break
        done = carry_out(options_of(task, seed, variant=build), checkers)
        runs += 1
        simulated += done.simulated_ns
        unknown += done.judgement.outcome == "unknown"
        alarms += _alarms(task, build or "clean", seed, done, done.failing() - set(task.plan.weak))
    return Found(
        system=task.system,
        bug=build or "clean",
        says=task.planted.says,
        caught_by=(),
        runs=runs,
        spent_ns=core_ns() - began,
        simulated_ns=simulated,
        unknown=unknown,
        alarms=tuple(alarms),
        backend=task.backend,
    )


def crashed_at_start(done: Rehearsed) -> str:
    """How a node crashed in a run that ended before its first fault; "" if none did."""
    if any(mark.name == "faults" for mark in done.history.of(Mark)):
        return ""
    crash = next((verdict for verdict in done.judgement.verdicts if verdict.checker == CRASH), None)
    return crash.reason if crash is not None and crash.outcome == "fail" else ""


def _rehearse(options: RunOptions, checkers: Mapping[str, Checker]) -> Rehearsed:
    return rehearse(options, checkers, seed=options.seed or 0)


def _shown_ns(done: Rehearsed, caught: Sequence[str]) -> Ns:
    """When the first certificate of one of these checkers was complete, since the run began."""
    return min(
        max((done.history.at(seq).t for seq in finding.certificate), default=done.simulated_ns)
        for verdict in done.judgement.verdicts
        if verdict.checker in caught
        for finding in verdict.findings
        if finding.excused is None
    )


def _alarms(task: Task, build: str, seed: int, done: Rehearsed, names: frozenset[str]) -> list[Alarm]:
    return [
        Alarm(
            system=task.system,
            build=build,
            seed=seed,
            checker=verdict.checker,
            sentence=next((f.sentence for f in verdict.findings if f.excused is None), verdict.reason),
        )
        for verdict in done.judgement.verdicts
        if verdict.checker in names
    ]


def _triggers(done: Rehearsed) -> tuple[int, int]:
    """How many triggers of this run hit, and how many did not."""
    waited = [trigger for fault in done.realised.faults for trigger in (fault.trigger, fault.until) if trigger]
    hits = sum(trigger.outcome == "hit" for trigger in waited)
    return hits, len(waited) - hits
