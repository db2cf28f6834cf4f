"""The verdict matrix on a screen: run, then one table of invariants and systems, every proof that failed, one object.

Guarantees: exit code 0 when every proof showed what it must, 1 otherwise, 130 when interrupted, 3 for trouble; a cell
that no run could judge is never shown as held. Out of scope: running the proofs (``tests.matrix.proofs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from dethrone.harness.commands import listing
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TROUBLE, EXIT_VIOLATION
from dethrone.harness.report.terminal import Screen
from tests.matrix.column import INVARIANTS, Column, Proof, all_columns, chosen
from tests.matrix.proofs import (
    ROWS,
    Judged,
    Row,
    Shown,
    cells_of,
    run_matrix,
    tasks_for,
)

PACKAGED = Path(__file__).parents[2] / "harness" / "commands" / "matrix.json"
"""The table that is shipped."""

SCHEMA = 1


def run(screen: Screen, *, systems: Sequence[str], seeds: int, jobs: int, out: Path, fresh: bool) -> int:
    """The exit code. ``systems``: names of systems or of columns; none: all. ConfigError for one without a column."""
    columns = chosen(systems)
    tasks = tasks_for(columns, seeds=seeds)
    if fresh:
        (out / ROWS).unlink(missing_ok=True)
    screen.say(f"{len(tasks)} tasks for {len(columns)} columns, {seeds} drawn schedules each, rows in {out / ROWS}")
    rows, interrupted = run_matrix(
        tasks, out, jobs=jobs, on_row=lambda row, done, of: screen.say(f"[{done}/{of}] {_line(row)}")
    )
    judged = cells_of(columns, rows)
    trouble = [f"{row.key}: {row.trouble.splitlines()[0]}" for row in rows if row.trouble]
    screen.say("")
    screen.say(table(columns, judged))
    screen.say("")
    for line in lines(judged):
        screen.say(line, level=-1)
    for line in trouble:
        screen.say(f"  trouble: {line}", level=-1)
    code = EXIT_PASS if all(cell.ok for cell in judged) else EXIT_VIOLATION
    if interrupted:
        code = EXIT_INTERRUPTED
    if trouble:
        code = EXIT_TROUBLE
    value = matrix_object(columns, judged, rows, interrupted=interrupted)
    screen.result({**value, "trouble": trouble, "exit_code": code})
    return code


def packaged() -> bytes:
    """What ``dethrone list matrix`` shows: each cell, and what shows it."""
    rows = [
        listing.Cell(
            column=column.name,
            invariant=cell.invariant,
            said=cell.said,
            shown_by="; ".join(f"{says} {_by(proof)}" for _, says, proof in cell.proofs()),
        )
        for column in all_columns()
        for cell in column.cell
    ]
    return b"[\n" + b",\n".join(msgspec.json.encode(row) for row in rows) + b"\n]\n"


def table(columns: Sequence[Column], judged: Iterable[Judged]) -> Table:
    """Invariants down, columns across."""
    cells = {(cell.column, cell.cell.invariant): cell for cell in judged}
    out = Table(box=None, pad_edge=False, header_style="bold")
    out.add_column("", overflow="fold")
    for column in columns:
        out.add_column(column.name, overflow="fold")
    for invariant in INVARIANTS:
        out.add_row(
            f"{invariant.id} {invariant.says}",
            *(mark(cells[column.name, invariant.id]) for column in columns),
        )
    return out


def mark(judged: Judged) -> str:
    """``Y 20`` held in 20 runs; ``X DL-B4``; ``!`` where a proof did not show what it must; ``*`` where it differs."""
    words = [f"{'Y' if one.ok else '!Y'} {one.count.passed}" for one in judged.shown if one.says == "holds"]
    words += [f"{'X' if one.ok else '!X'} {one.proof.by or 'drawn'}" for one in judged.shown if one.says == "broken"]
    return ("; ".join(words) or "–") + (" *" if judged.cell.differs else "")


def lines(judged: Sequence[Judged]) -> list[str]:
    """What it came to, in sentences."""
    proofs = [one for cell in judged for one in cell.shown]
    held = [one for one in proofs if one.says == "holds"]
    broken = [one for one in proofs if one.says == "broken"]
    runs = sum(one.count.passed + one.count.unknown + one.count.failed for one in proofs)
    shown = f"shown broken {sum(one.ok for one in broken)} of {len(broken)}"
    out = [f"held {sum(one.ok for one in held)} of {len(held)}, {shown} ({runs} judgements)"]
    for cell in judged:
        out += [f"  {cell.column} {cell.cell.invariant}: {why(one)}" for one in cell.shown if not one.ok]
    out += [f"  * {cell.column} {cell.cell.invariant}: {cell.cell.differs}" for cell in judged if cell.cell.differs]
    return out


def why(shown: Shown) -> str:
    """Why a proof did not show what it must."""
    count = shown.count
    runs = count.passed + count.unknown + count.failed
    if shown.says == "broken":
        return f"NOT EXPOSED by {_by(shown.proof)} in {runs} runs"
    if count.failed:
        first = f"first in seed {count.seed}: {count.sentence}"
        return f"BROKEN in {count.failed} of {runs} runs of {_by(shown.proof)}, {first}"
    return f"NOT SHOWN by {_by(shown.proof)}: {count.unknown} of {runs} runs could not be judged"


def matrix_object(
    columns: Sequence[Column], judged: Sequence[Judged], rows: Sequence[Row], *, interrupted: bool
) -> dict[str, Any]:
    """JSON values."""
    return {
        "schema": SCHEMA,
        "command": "matrix",
        "matrix": [
            {
                "column": cell.column,
                "invariant": cell.cell.invariant,
                "said": cell.cell.said,
                "ok": cell.ok,
                "differs": cell.cell.differs or None,
                "proofs": [
                    {
                        "says": one.says,
                        "by": _by(one.proof),
                        "ok": one.ok,
                        "passed": one.count.passed,
                        "unknown": one.count.unknown,
                        "failed": one.count.failed,
                        "seed": one.count.seed if one.count.failed else None,
                        "sentence": one.count.sentence or None,
                    }
                    for one in cell.shown
                ],
            }
            for cell in judged
        ],
        "columns": [column.name for column in columns],
        "runs": sum(row.runs for row in rows),
        "interrupted": interrupted,
    }


def _by(proof: Proof) -> str:
    """The proof in a few words."""
    words = [proof.by or "drawn schedules"]
    words += [f"{name}={word}" for name, word in sorted(proof.settings.items())]
    words += [word for word in (proof.profile, proof.workload) if word]
    if proof.metric:
        words.append(f"({proof.metric} above {proof.above})")
    if proof.demand is not None:
        words.append("(required by the matrix, not promised by the system)")
        words += [f"(links of {proof.demand.delay_ns // 1_000_000} ms count)"] if proof.demand.delay_ns else []
    return " ".join(words)


def _line(row: Row) -> str:
    failed = [name for name, count in row.counts.items() if count.failed]
    return f"{' '.join(row.key.split()[:3])}: {row.runs} runs{', broken: ' + ', '.join(failed) if failed else ''}"
