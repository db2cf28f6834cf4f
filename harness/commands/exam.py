"""Runs the exam on a screen: one line per bug as it is found, the table at the end, the JSON object on request.

Guarantees: exit code 0 when every bug was found by a checker named for it and no correct build failed; 1 otherwise;
130 when interrupted. The exam itself is out of scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.planted import Planted
from dethrone.harness.engine.exam.exam_tasks import ROWS, SIM, Row, examinable, run_exam, tasks_for
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TROUBLE, EXIT_VIOLATION
from dethrone.harness.report.exam_compare import compare_lines, compare_object, compare_table, compared
from dethrone.harness.report.exam_table import exam_lines, exam_object, exam_table
from dethrone.harness.report.terminal import Screen

SITTING_SEEDS = 24_000
"""From the first seed of one sitting to that of the next: a multiple of all that a plan takes in turn."""


def sit(
    screen: Screen,
    *,
    systems: Sequence[str],
    bugs: Sequence[str],
    own: Planted | None = None,
    backend: str = SIM,
    faults: Sequence[str] = (),
    budget_ns: Ns,
    strategy: str,
    clean: int,
    jobs: int,
    out: Path,
    fresh: bool,
) -> int:
    """The exit code. ConfigError for unknown systems, bugs and strategies, before anything starts."""
    tasks = tasks_for(
        systems or examinable(),
        bugs=bugs,
        own=own,
        strategy=strategy,
        budget_ns=budget_ns,
        clean=clean,
        backend=backend,
        faults=faults,
    )
    if not tasks:
        raise ConfigError("nothing to examine", next_step="name another --system")
    if fresh:
        (out / ROWS).unlink(missing_ok=True)
    measure = "of one core" if backend == SIM else f"on {backend}"
    screen.say(f"{len(tasks)} tasks, at most {budget_ns // SECOND} s {measure} each, rows in {out / ROWS}")
    rows, interrupted = run_exam(tasks, out, jobs=jobs, on_row=lambda row, done, of: screen.say(_line(row, done, of)))
    found = [row.found for row in rows]
    value = exam_object(found, strategy=strategy, interrupted=interrupted, backend=backend)
    screen.say("")
    screen.say(exam_table(found))
    screen.say("")
    for line in exam_lines(value):
        screen.say(line, level=-1)
    code = EXIT_PASS if value["found"] == value["total"] and not value["alarms"] else EXIT_VIOLATION
    if interrupted:
        code = EXIT_INTERRUPTED
    if value["trouble"]:
        code = EXIT_TROUBLE
    screen.result({**value, "exit_code": code})
    return code


def compare(
    screen: Screen,
    *,
    systems: Sequence[str],
    bugs: Sequence[str],
    budget_ns: Ns,
    strategies: tuple[str, str],
    sittings: int,
    jobs: int,
    out: Path,
    fresh: bool,
) -> int:
    """Each bug under both strategies, ``sittings`` times from different first seeds. The exit code: 0, or 130, or 3."""
    if strategies[0] == strategies[1]:
        raise ConfigError("nothing to compare", next_step="name another strategy after --compare")
    tasks = [
        msgspec.structs.replace(task, first_seed=number * SITTING_SEEDS)
        for number in range(sittings)
        for strategy in strategies
        for task in tasks_for(systems or examinable(), bugs=bugs, strategy=strategy, budget_ns=budget_ns)
    ]
    if fresh:
        (out / ROWS).unlink(missing_ok=True)
    screen.say(f"{len(tasks)} tasks, at most {budget_ns // SECOND} s of one core each, rows in {out / ROWS}")

    def say(row: Row, done: int, of: int) -> None:
        screen.say(f"{_line(row, done, of)} {row.strategy}")

    rows, interrupted = run_exam(tasks, out, jobs=jobs, on_row=say)
    one, other = strategies
    comparison = compared(rows, one=one, other=other, budget_ns=budget_ns)
    value = compare_object(comparison)
    screen.say("")
    screen.say(compare_table(comparison))
    screen.say("")
    for line in compare_lines(value):
        screen.say(line, level=-1)
    trouble = any(row.found.trouble for row in rows)
    code = EXIT_TROUBLE if trouble else EXIT_INTERRUPTED if interrupted else EXIT_PASS
    screen.result({**value, "interrupted": interrupted, "exit_code": code})
    return code


def _line(row: Row, done: int, of: int) -> str:
    found = row.found
    if found.trouble:
        told = f"trouble: {found.trouble.splitlines()[0]}"
    elif not found.caught_by:
        told = f"{found.runs} seeds, {len(found.alarms)} alarms, {found.unknown} unknown"
    elif found.by:
        told = f"found by {found.by}, seed {found.seed}; the build without the bug gives {found.base}"
    else:
        told = "NOT FOUND" + (f" ({', '.join(found.before)} failed)" if found.before else "")
    return f"[{done}/{of}] {found.system} {found.bug}: {told} ({found.runs} runs, {found.find_ns / SECOND:.1f} s)"
