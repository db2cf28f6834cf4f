"""The exam as a table and as one JSON object: which bug was found, by which checker, how soon; and every alarm.

Guarantees: a bug counts as found only if a checker named for it found it, regardless of other failures; alarms are
listed one by one. Running the exam is out of scope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.engine.exam.exam import Alarm, Found

SCHEMA = 1


def exam_object(rows: Sequence[Found], *, strategy: str, interrupted: bool, backend: str = "sim") -> dict[str, Any]:
    """JSON values; at least ``found``, ``total``, ``alarms``."""
    bugs = [row for row in rows if row.caught_by]
    watched = [row for row in rows if not row.caught_by]
    times = sorted(row.find_ns for row in bugs if row.by)
    clean_runs: dict[str, int] = defaultdict(int)
    for row in watched:
        clean_runs[row.system] += row.runs
    return {
        "schema": SCHEMA,
        "command": "exam",
        "backend": backend,
        "strategy": strategy,
        "found": sum(bool(row.by) for row in bugs),
        "total": len(bugs),
        "alarms": [_alarm(alarm) for row in rows for alarm in row.alarms],
        "median_find_s": _seconds(times[len(times) // 2]) if times else None,
        "p95_find_s": _seconds(times[min(len(times) - 1, len(times) * 95 // 100)]) if times else None,
        "clean_runs": dict(clean_runs),
        "clean_unknown": sum(row.unknown for row in watched),
        "triggers": {"hits": sum(row.hits for row in rows), "misses": sum(row.misses for row in rows)},
        "bugs": [_row(row) for row in bugs],
        "trouble": [f"{row.system} {row.bug}: {row.trouble}" for row in rows if row.trouble],
        "interrupted": interrupted,
    }


def exam_table(rows: Sequence[Found]) -> Table:
    """The kill matrix, a line a bug."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("system", "bug", "found by", "seed", "runs", "s", "of runs", "triggers", "also failed", "what"):
        table.add_column(name, overflow="fold")
    for row in rows:
        if not row.caught_by:
            continue
        also = [name for name in row.also if name != row.by] if row.by else list(row.before)
        table.add_row(
            row.system,
            row.bug,
            row.by or (f"trouble: {row.trouble}" if row.trouble else f"NOT FOUND ({' or '.join(row.caught_by)})"),
            str(row.seed) if row.by else "",
            str(row.runs),
            f"{row.find_ns / SECOND:.1f}",
            f"{row.simulated_ns // SECOND} s",
            f"{row.hits}/{row.hits + row.misses}",
            ", ".join(also),
            row.says,
        )
    return table


def exam_lines(value: dict[str, Any]) -> list[str]:
    """The result, in sentences."""
    where = " of one core" if value["backend"] == "sim" else f" on {value['backend']}"
    lines = [f"found {value['found']} of {value['total']} planted bugs ({value['strategy']})"]
    if value["median_find_s"] is not None:
        lines[0] += f"; median {value['median_find_s']} s{where}, 95 % within {value['p95_find_s']} s"
    runs = sum(value["clean_runs"].values())
    lines.append(f"alarms on clean and harmless builds: {len(value['alarms'])} in {runs} separate runs")
    lines += [
        f"  ALARM {one['system']} {one['build']} seed {one['seed']}: {one['sentence']}" for one in value["alarms"]
    ]
    lines += [f"  trouble: {line}" for line in value["trouble"]]
    return lines


def _row(row: Found) -> dict[str, Any]:
    return {
        "system": row.system,
        "bug": row.bug,
        "says": row.says,
        "caught_by": list(row.caught_by),
        "found": bool(row.by),
        "by": row.by or None,
        "seed": row.seed if row.by else None,
        "runs": row.runs,
        "find_s": _seconds(row.find_ns),
        "confirm_s": _seconds(row.confirm_ns),
        "runs_s": _seconds(row.simulated_ns),
        "found_at_s": None if row.found_at_ns is None else _seconds(row.found_at_ns),
        "base": row.base or None,
        "also": list(row.also),
        "trigger_hits": row.hits,
        "trigger_misses": row.misses,
        "certificate_events": row.events if row.by else None,
        "unknown_runs": row.unknown,
    }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    return {
        "system": alarm.system,
        "build": alarm.build,
        "seed": alarm.seed,
        "checker": alarm.checker,
        "sentence": alarm.sentence,
    }


def _seconds(ns: Ns) -> float:
    return round(ns / SECOND, 2)
