"""Two strategies over the same planted bugs: how soon each finds them, as a table and as one JSON object.

A time to find is that of one sitting: from its first seed on, until the bug was found; where it was not found, it is
censored at the budget. Of several sittings the median is told; where half of them or more were censored, all that is
known is that it is above the budget. A factor is the other strategy's median through the first one's: at least so
much, where the other's is censored; unknown, where the first one's is.

Promises: pure. Leaves out running anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table

from harness.core.clock import SECOND, Ns
from harness.engine.exam_jobs import Row

SCHEMA = 1
LEAST_NS: Ns = SECOND // 100
"""A shorter time counts as this: nothing is found in no time."""


class Median(msgspec.Struct, frozen=True, kw_only=True):
    """Of some sittings. ``ns``, ``runs``: None where half of them or more did not find it."""

    found: int
    sittings: int
    ns: Ns | None
    runs: int | None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One bug under both strategies. ``factor``: None where unknown; ``at_least``: it is a lower bound."""

    system: str
    bug: str
    one: Median
    other: Median
    factor: float | None
    at_least: bool


def compared(rows: Sequence[Row], *, one: str, other: str, budget_ns: Ns) -> list[Compared]:
    """A line for each bug that both strategies were tried on, in the order of the rows."""
    bugs = list(dict.fromkeys((row.found.system, row.found.bug) for row in rows if row.found.caught_by))
    out = []
    for system, bug in bugs:
        mine = [row for row in rows if (row.found.system, row.found.bug) == (system, bug) and not row.found.trouble]
        first = median([row for row in mine if row.strategy == one])
        second = median([row for row in mine if row.strategy == other])
        if not first.sittings or not second.sittings:
            continue
        factor = None
        if first.ns is not None:
            ended_ns = budget_ns if second.ns is None else second.ns
            factor = max(ended_ns, LEAST_NS) / max(first.ns, LEAST_NS)
        out.append(
            Compared(
                system=system, bug=bug, one=first, other=second, factor=factor, at_least=second.ns is None
            )
        )  # fmt: skip
    return out


def median(rows: Sequence[Row]) -> Median:
    """The lower one of the middle two, a sitting that did not find it counting as the longest."""
    found = [row.found for row in rows if row.found.by]
    middle = (len(rows) - 1) // 2
    times, runs = sorted(row.find_ns for row in found), sorted(row.runs for row in found)
    known = bool(rows) and middle < len(found) and 2 * len(found) > len(rows)
    return Median(
        found=len(found),
        sittings=len(rows),
        ns=times[middle] if known else None,
        runs=runs[middle] if known else None,
    )


def compare_object(lines: Sequence[Compared], *, one: str, other: str, budget_ns: Ns) -> dict[str, Any]:
    """JSON values."""
    factors = sorted(line.factor for line in lines if line.factor is not None)
    middle = factors[(len(factors) - 1) // 2] if factors else None
    return {
        "schema": SCHEMA,
        "command": "exam --compare",
        "strategies": [one, other],
        "budget_s": _seconds(budget_ns),
        "bugs": [_object(line) for line in lines],
        "found": [sum(line.one.ns is not None for line in lines), sum(line.other.ns is not None for line in lines)],
        "total": len(lines),
        "median_find_s": [_overall([line.one.ns for line in lines]), _overall([line.other.ns for line in lines])],
        "median_factor": None if middle is None else round(middle, 1),
    }


def compare_table(lines: Sequence[Compared], *, one: str, other: str, budget_ns: Ns) -> Table:
    """A line a bug."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("system", "bug", f"{one} s", "runs", f"{other} s", "runs", "factor"):
        table.add_column(name, overflow="fold", justify="left" if name in ("system", "bug") else "right")
    for line in lines:
        factor = "" if line.factor is None else f"{'≥ ' if line.at_least else ''}{line.factor:.1f}"
        table.add_row(
            line.system, line.bug, _time(line.one, budget_ns), _runs(line.one), _time(line.other, budget_ns),
            _runs(line.other), factor,
        )  # fmt: skip
    return table


def compare_lines(value: dict[str, Any]) -> list[str]:
    """What it came to, in sentences."""
    (one, other), (first, second) = value["strategies"], value["found"]
    each = f"within {value['budget_s']} s each"
    lines = [f"{one} found {first} of {value['total']} planted bugs, {other} {second}, {each}"]
    if value["median_factor"] is not None:
        lines.append(f"median factor by which {one} was sooner, misses censored: {value['median_factor']}")
    told = [f"above {value['budget_s']}" if s is None else str(s) for s in value["median_find_s"]]
    lines.append(f"median time to find: {told[0]} s and {told[1]} s")
    return lines


def _overall(times: Sequence[Ns | None]) -> float | None:
    """The median over bugs, a miss counting as the longest; None where it is one."""
    ordered = sorted((ns is None, ns or 0) for ns in times)
    missed, ns = ordered[(len(ordered) - 1) // 2] if ordered else (True, 0)
    return None if missed else _seconds(ns)


def _object(line: Compared) -> dict[str, Any]:
    return {
        "system": line.system,
        "bug": line.bug,
        "find_s": [None if one.ns is None else _seconds(one.ns) for one in (line.one, line.other)],
        "runs": [line.one.runs, line.other.runs],
        "found": [line.one.found, line.other.found],
        "sittings": [line.one.sittings, line.other.sittings],
        "factor": None if line.factor is None else round(line.factor, 2),
        "at_least": line.at_least,
    }


def _time(one: Median, budget_ns: Ns) -> str:
    return f"> {budget_ns // SECOND}" if one.ns is None else f"{one.ns / SECOND:.1f}"


def _runs(one: Median) -> str:
    return "" if one.runs is None else str(one.runs)


def _seconds(ns: Ns) -> float:
    return round(ns / SECOND, 2)
