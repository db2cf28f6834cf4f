"""The exam's runs on real hosts: the same drawn schedules, triggers from the tailed traces, every run kept.

A budget of wall-clock time pays for a few runs only, so each must be able to show the bug: the plan is limited to what
the hosts can suffer, to the workloads under which most of the checkers named for the bug can judge, and to the pace at
which they do. Guarantees: faults and their times are drawn as in simulation; a run of the build without any bug that
stands in the directory is not run again, whichever bug asks for it; harness trouble is never an answer: such a run is
repeated once, then it is an error; a run of that build in which not every checker could judge is repeated once, and the
one that more of them judged is kept. Out of scope: what counts as found (``exam``).

Files below the exam's directory: ``clean/<key>``, ``builds/<system>-<bug>-<seed>``; a run that was cut short or had
trouble lies next to it under another name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError
from dethrone.harness.core.history_files import history_at, read_history
from dethrone.harness.core.interfaces import Backend, Checker, Fault, No, System, Workload
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.schedule import RealisedSchedule
from dethrone.harness.engine.run.judge import judge
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft, needs_of
from dethrone.harness.engine.run.rehearsal import Rehearsed

ASIDE = "set-aside"
"""What the name of a run ends with that was repeated."""

LIMIT_NS = 45 * SECOND
"""The longest run: with its start, its quiet end and its judgement, three of them fit into three minutes."""
JUDGES: Mapping[str, str] = {
    "lease-exclusion": "acquire",
    "lock": "acquire",
    "members-only": "reconfigure",
    "agreement": "propose",
    "linearizable": "cas",
    "set": "add",
    "list-append": "txn",
}
"""Checker → the operation without which it has nothing to judge."""


def fitting(plan: ExamPlan, system: System, backend: str) -> ExamPlan:
    """The plan without faults that these hosts cannot suffer, without other backends' settings, in shorter runs."""
    hosts: Backend = registry.load(registry.BACKENDS, backend)
    able = hosts.traits.capabilities
    kinds = []
    for kind in plan.faults:
        fault: Fault = registry.load(registry.FAULTS, kind)
        if needs_of([fault], system, hosts) <= able and not isinstance(system.fault_support(kind), No):
            kinds.append(kind)
    if not kinds:
        raise ConfigError(f"no fault of {system.name}'s exam can happen on {backend!r}", next_step="use --on sim")
    others = {name for name in registry.names(registry.BACKENDS) if name != backend}
    settings = {name: word for name, word in plan.settings.items() if name.partition(".")[0] not in others}
    limit_ns = min(plan.time_limit_ns, LIMIT_NS)
    return msgspec.structs.replace(plan, faults=tuple(kinds), settings=settings, time_limit_ns=limit_ns)


def telling(plan: ExamPlan, bug: Planted, checkers: Mapping[str, Checker]) -> ExamPlan:
    """The plan without runs that can hardly show this bug.

    It omits workloads under which fewer of its checkers can judge than under others, and paces of the other kind:
    haste is for safety, room for liveness.
    """
    if bug.harmless:
        return plan

    def judging(name: str) -> int:
        workload: Workload = registry.load(registry.WORKLOADS, name)
        return sum(JUDGES.get(checker) in {None, *workload.needs()} for checker in bug.caught_by)

    most = max(judging(name) for name in plan.workloads)
    kinds = {checkers[name].kind for name in bug.caught_by if name in checkers}
    intervals = plan.intervals_ns
    if kinds == {"safety"}:
        intervals = (min(intervals),)
    elif kinds == {"liveness"}:
        intervals = (max(intervals),)
    return msgspec.structs.replace(
        plan, workloads=tuple(name for name in plan.workloads if judging(name) == most), intervals_ns=intervals
    )


class LiveRuns:
    """Carries out one set of options on real hosts. One object a worker; ``out`` may be shared between workers."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __call__(self, options: RunOptions, checkers: Mapping[str, Checker]) -> Rehearsed:
        """Run, or read what was run. ClusterError for trouble twice in a row; KeyboardInterrupt for the user's."""
        clean = options.variant is None
        directory = self._out / (
            f"clean/{_key(options)}" if clean else f"builds/{options.system}-{_word(options.variant)}-{options.seed}"
        )
        if not clean:
            return self._until_it_tells(options, directory, checkers)
        with _alone(directory):
            found = _stored(directory, checkers)
            return found if found is not None else self._until_it_tells(options, directory, checkers)

    def _until_it_tells(self, options: RunOptions, directory: Path, checkers: Mapping[str, Checker]) -> Rehearsed:
        clean = options.variant is None
        # The failing build's run is over with the first certain finding; the honest one has to last.
        options = msgspec.structs.replace(options, out=directory, stop_at_first_failure=not clean)
        first = self._once(options, checkers)
        if isinstance(first, Rehearsed) and not (clean and first.judgement.outcome == "unknown"):
            return first
        second = self._once(options, checkers)
        if isinstance(first, Rehearsed) and (isinstance(second, str) or _judged(first) > _judged(second)):
            _bring_back(directory)
            return first
        if isinstance(second, Rehearsed):
            return second
        raise ClusterError(
            f"the run with seed {options.seed} ended in trouble twice: {second}",
            where=str(directory),
            next_step="run `dethrone doctor`, then repeat the command to resume the exam",
        )

    def _once(self, options: RunOptions, checkers: Mapping[str, Checker]) -> Rehearsed | str:
        """What the run came to, or its trouble in words."""
        from dethrone.harness.engine.run.runner import run

        directory = options.out
        if directory is None:
            raise ConfigError("a run of the exam needs a directory")
        store.set_aside(directory, suffix=ASIDE)
        result = run(options, Silence(), checkers=checkers)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.trouble or result.plan is None or result.judgement is None:
            return "; ".join(result.trouble) or "it was not judged"
        found = _stored(directory, checkers)
        return found if found is not None else "its files cannot be read"


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """No other worker runs into this directory meanwhile: a second one waits for what the first finds."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stored(directory: Path, checkers: Mapping[str, Checker]) -> Rehearsed | None:
    """A run that ended well, judged by these checkers; None if there is none."""
    try:
        record = store.read_json(directory / store.RUN, dict[str, Any])
        if record.get("trouble") or record.get("interrupted"):
            return None
        plan = store.read_json(directory / store.PLAN, Plan)
        history = read_history(history_at(directory))
        realised = store.read_json(directory / store.REALISED, RealisedSchedule)
    except HarnessError:
        return None
    if history.end is None:
        return None
    return Rehearsed(
        plan=plan,
        history=history,
        realised=realised,
        judgement=judge(history, plan, checkers),
        simulated_ns=history.end.t,
    )


def _judged(done: Rehearsed) -> int:
    """How many checkers could judge it."""
    return sum(verdict.outcome in {"pass", "fail"} for verdict in done.judgement.verdicts)


def _bring_back(directory: Path) -> None:
    """The run that was set aside is the better one."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.with_name(f"{directory.name}.{ASIDE}").rename(directory)


def _key(options: RunOptions) -> str:
    """Runs of the honest build under the same plan are the same run, however its knobs were said."""
    content = msgspec.json.encode(draft(options, seed=options.seed or 0).plan, order="deterministic")
    return f"{options.system}-{options.seed}-{hashlib.blake2b(content, digest_size=5).hexdigest()}"


def _word(variant: str | None) -> str:
    """A variant as part of a file name: those of the user's own are paths."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in variant or "")
