"""The exam's tasks over worker processes: resumable, one row a task, stopped by Ctrl-C without losing rows.

Guarantees: a row does not depend on the number of workers; it is written once, when its task is done; a task that has a
row in the file is not run again; a worker that dies is reported, not waited for. Out of scope: what a task is
(``exam``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.interfaces import System
from dethrone.harness.core.planted import Examinable, Planted
from dethrone.harness.engine.campaign.resumable_tasks import keep_rows, read_kept
from dethrone.harness.engine.exam.exam import Found, Task, examine, watch
from dethrone.harness.engine.exam.live_runs import LiveRuns, fitting, telling
from dethrone.harness.engine.run.judge import load_checkers

ROWS = "exam.jsonl"
Key = tuple[str, str, str, str, int, tuple[str, ...]]
SIM = "sim"
WATCH_SEEDS = 250
"""Seeds of one row of a clean or harmless build: small enough to resume."""


def tasks_for(
    systems: Sequence[str],
    *,
    bugs: Sequence[str] = (),
    own: Planted | None = None,
    strategy: str,
    budget_ns: Ns,
    clean: int = 0,
    profile: str | None = None,
    backend: str = SIM,
    faults: Sequence[str] = (),
) -> list[Task]:
    """All tasks of an exam. ``clean``: seeds on the build without bugs and, together, on the harmless ones.

    ``backend``: where the runs take place; the plan of each system is cut to what its hosts can do. ``faults``: the
    kinds that schedules are drawn from, instead of those of the plan.

    ``own``: a bug that is in no list, to be found instead of those that are; it takes exactly one system.

    ConfigError for a system that knows no planted bugs, a bug that no system knows, or a kind that is not installed.
    """
    for kind in faults:
        registry.load(registry.FAULTS, kind)
    if own is not None and len(systems) != 1:
        raise ConfigError("--variant needs exactly one system", next_step="give --system once")
    out: list[Task] = []
    known: set[str] = set()
    for name in systems:
        system = registry.load(registry.SYSTEMS, name)
        if not isinstance(system, Examinable) or not system.planted():
            raise ConfigError(f"{name} has no planted bugs", next_step=f"known: {', '.join(examinable())}")
        plan, planted = system.exam(), system.planted()
        if faults:
            plan = msgspec.structs.replace(plan, faults=tuple(faults))
        if backend != SIM:
            plan = fitting(plan, cast("System", system), backend)
        if own is not None:
            whole = cast("System", system)
            words = {name: word for name, word in plan.settings.items() if not name.startswith("sim.")}
            whole.knobs({**words, **own.settings}, profile=profile, variant=own.name)  # refused now, if at all
            planted = {own.name: own}
        known |= set(planted)
        for bug in planted.values():
            if not bug.harmless and (not bugs or bug.name in bugs):
                task = Task(
                    system=name,
                    plan=plan if backend == SIM else telling(plan, bug, load_checkers()),
                    strategy=strategy,
                    planted=bug,
                    budget_ns=budget_ns,
                    profile=profile,
                    backend=backend,
                    faults=tuple(faults),
                )
                out.append(task)
        if clean and not bugs:
            nobody = Planted(name="clean", says="the build without any bug")
            builds = [nobody, *(bug for bug in planted.values() if bug.harmless)]
            share = [clean, *([-(-clean // max(1, len(builds) - 1))] * (len(builds) - 1))]
            for build, seeds in zip(builds, share, strict=True):
                out += [
                    Task(
                        system=name,
                        plan=plan,
                        strategy=strategy,
                        planted=build,
                        budget_ns=24 * 3600 * SECOND,
                        first_seed=first,
                        seeds=min(WATCH_SEEDS, seeds - first),
                        profile=profile,
                        baseline=build is nobody,
                        backend=backend,
                        faults=tuple(faults),
                    )
                    for first in range(0, seeds, WATCH_SEEDS)
                ]
    if unknown := set(bugs) - known:
        raise registry.unknown_name("planted bug", min(unknown), sorted(known))
    return out


def examinable() -> list[str]:
    """Names of the systems that know planted bugs of themselves."""
    found = registry.load_all(registry.SYSTEMS)
    return sorted(name for name, system in found.items() if isinstance(system, Examinable) and system.planted())


class ExamRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task, with its key."""

    strategy: str
    first_seed: int
    found: Found
    faults: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Backend, system, build, strategy, first seed, kinds asked for."""
        found = self.found
        return (found.backend, found.system, found.bug, self.strategy, self.first_seed, self.faults)


def read_rows(path: Path) -> list[ExamRow]:
    """The rows so far; a torn last line is dropped."""
    return read_kept(path, ExamRow, what="the exam's")


def run_exam(
    tasks: Sequence[Task], out: Path, *, jobs: int, on_row: Callable[[ExamRow, int, int], None]
) -> tuple[list[ExamRow], bool]:
    """Run every task without a conclusive row. All rows of these tasks, and whether the exam was interrupted.

    A bug that was not found is looked for again if there is more time now.

    ``on_row`` is called in this process with each new row, how many are done, and how many there are.
    """
    path = out / ROWS
    wanted = {_key(task): task for task in tasks}
    kept = [row for row in read_rows(path) if not row.found.trouble and _searched(row.found, wanted.get(row.key))]
    return keep_rows(partial(carry_out, out=out), wanted, kept, path, jobs=jobs, on_row=on_row)


def _searched(found: Found, task: Task | None) -> bool:
    """Whether this is what the task would come to, as far as its budget goes."""
    if task is None or not found.caught_by or found.by:
        return True
    return found.find_ns >= task.budget_ns or found.runs >= task.seeds


def carry_out(task: Task, out: Path) -> ExamRow:
    """One task, here. Harness trouble is recorded in the row and never counts as found.

    ``out``: where runs on real hosts are kept.
    """
    checkers = load_checkers()
    try:
        find = watch if task.baseline or task.planted.harmless else examine
        if task.backend == SIM:
            found = find(task, checkers, core_ns=time.process_time_ns)
        else:
            found = find(task, checkers, core_ns=time.monotonic_ns, run=LiveRuns(out))
    except HarnessError as error:
        found = Found(
            system=task.system,
            bug=task.planted.name,
            says=task.planted.says,
            caught_by=task.planted.caught_by,
            trouble=str(error),
            backend=task.backend,
        )
    return ExamRow(strategy=task.strategy, first_seed=task.first_seed, found=found, faults=task.faults)


def _key(task: Task) -> Key:
    return (task.backend, task.system, task.planted.name, task.strategy, task.first_seed, task.faults)
