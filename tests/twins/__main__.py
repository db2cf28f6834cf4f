"""Compare two strategies over the planted bugs of the exam: which of them finds each bug sooner?

    python -m tests.twins [--system NAME …] [--bug NAME …] [--strategy triggered] [--other random-twin]
                          [--sittings N] [--budget 60s] [--jobs N] [--out DIR] [--fresh] [--json]

``random-twin`` and ``step-twin`` are strategies of the plug-in in ``tests/twins/plugin``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dethrone.harness.commands.exam import progress
from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.exam.exam_tasks import ROWS, ExamRow, examinable, run_exam, tasks_for
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TROUBLE
from dethrone.harness.report.terminal import Screen
from tests.twins.compared import compare_lines, compare_object, compare_table, compared

PLUGIN = Path(__file__).with_name("plugin")
SITTING_SEEDS = 24_000
"""From the first seed of one sitting to that of the next: a multiple of all that a plan takes in turn."""


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
        raise ConfigError("nothing to compare", next_step="name another strategy with --other")
    tasks = [
        msgspec.structs.replace(task, first_seed=number * SITTING_SEEDS)
        for number in range(sittings)
        for strategy in strategies
        for task in tasks_for(systems or examinable(), bugs=bugs, strategy=strategy, budget_ns=budget_ns)
    ]
    if fresh:
        (out / ROWS).unlink(missing_ok=True)
    screen.say(f"{len(tasks)} tasks, at most {budget_ns // SECOND} s of one core each, rows in {out / ROWS}")

    def say(row: ExamRow, done: int, of: int) -> None:
        screen.say(f"{progress(row, done, of)} {row.strategy}")

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


def main() -> int:
    """The exit code of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", default=[], help="limit to this system (repeatable)")
    parser.add_argument("--bug", action="append", default=[], help="limit to this bug (repeatable)")
    parser.add_argument("--strategy", default="triggered", help="the first strategy [triggered]")
    parser.add_argument("--other", default="random-twin", help="the second strategy [random-twin]")
    parser.add_argument("--sittings", type=int, default=1, help="sittings of each bug, from different first seeds [1]")
    parser.add_argument("--budget", default="60s", help="time of one core per sitting [60s]")
    parser.add_argument("--jobs", type=int, default=1, help="number of worker processes")
    parser.add_argument("--out", type=Path, default=Path("runs/compare"), help="directory of the rows [runs/compare]")
    parser.add_argument("--fresh", action="store_true", help="ignore the rows in --out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    sys.path.insert(0, str(PLUGIN))
    for name in (options.strategy, options.other):
        registry.load(registry.STRATEGIES, name)
    return compare(
        Screen(json=options.json),
        systems=options.system,
        bugs=options.bug,
        budget_ns=parse_duration(options.budget),
        strategies=(options.strategy, options.other),
        sittings=options.sittings,
        jobs=options.jobs,
        out=options.out,
        fresh=options.fresh,
    )


if __name__ == "__main__":
    sys.exit(main())
