"""Sitting the exam on a screen: one line a bug as it is found, the table at the end, the JSON object if asked for.

Guarantees: exit code 0 when every bug was found by a checker named for it and nothing failed where nothing is wrong; 1
otherwise; 130 when interrupted. Out of scope: the exam itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.planted import Planted
from dethrone.harness.engine.exam.exam_tasks import ROWS, SIM, ExamRow, examinable, run_exam, tasks_for
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TROUBLE, EXIT_VIOLATION
from dethrone.harness.report.exam_table import exam_lines, exam_object, exam_table
from dethrone.harness.report.terminal import Screen


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
    rows, interrupted = run_exam(
        tasks, out, jobs=jobs, on_row=lambda row, done, of: screen.say(progress(row, done, of))
    )
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


def progress(row: ExamRow, done: int, of: int) -> str:
    """A task that is done, in one line."""
    found = row.found
    if found.trouble:
        said = f"trouble: {found.trouble.splitlines()[0]}"
    elif not found.caught_by:
        said = f"{found.runs} seeds, {len(found.alarms)} alarms, {found.unknown} unknown"
    elif found.by:
        said = f"found by {found.by}, seed {found.seed}; the build without the bug gives {found.base}"
    else:
        said = "NOT FOUND" + (f" ({', '.join(found.before)} failed)" if found.before else "")
    return f"[{done}/{of}] {found.system} {found.bug}: {said} ({found.runs} runs, {found.find_ns / SECOND:.1f} s)"
