"""Two strategies over the same planted bugs: how soon each finds them, as a table and as one JSON object.

The time to find a bug is that of one sitting: from its first seed until the bug was found. It has two measures:

    simulated   the clusters' time: all earlier runs, and the one that shows the bug up to the last event of the
                certificate. That is the wait of a user whose clusters are real
    core        time of one core of this machine: whole runs and their judging, so that what is found in the first run
                differs by little, however early in it that was

A sitting that did not find the bug is censored where it gave up: at the budget of core time, or at the simulated time
that this budget was worth. Several sittings are summed up by their median (Kaplan and Meier's, as they may be censored
at different times); where half of them or more were censored, all that is known is that the median is later. A factor
is the other strategy's median divided by the first one's: a lower bound where only the other's is censored, an upper
bound where only the first one's is, unknown where both are.

Guarantees: pure. Out of scope: running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from rich.table import Table

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.engine.exam.exam import Found
from dethrone.harness.engine.exam.exam_tasks import ExamRow

SCHEMA = 1
LEAST_NS: Ns = SECOND // 100
"""A shorter time counts as this: nothing is found in no time."""

MUCH = 5
"""Factors from here on are counted."""

Bound = Literal["", "≥", "≤"]
Reading = Callable[[Found], tuple[Ns, bool]]
"""How long a sitting took, and whether it found the bug then; if not, when it gave up."""


class Median(msgspec.Struct, frozen=True, kw_only=True):
    """Of some sittings. ``ns``, ``runs``: None where half of them or more did not find it: later than ``until_ns``."""

    found: int
    sittings: int
    ns: Ns | None
    runs: int | None
    until_ns: Ns


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One bug under both strategies, in one measure. ``factor``: None where unknown; ``bound``: which one it is."""

    system: str
    bug: str
    one: Median
    other: Median
    factor: float | None
    bound: Bound


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The same bugs in both measures, in the same order."""

    strategies: tuple[str, str]
    budget_ns: Ns
    core: tuple[Compared, ...]
    simulated: tuple[Compared, ...]


def compared(rows: Sequence[ExamRow], *, one: str, other: str, budget_ns: Ns) -> Comparison:
    """A line for each bug that both strategies were tried on, in the order of the rows."""

    def core(found: Found) -> tuple[Ns, bool]:
        return (found.find_ns, True) if found.by else (budget_ns, False)

    def simulated(found: Found) -> tuple[Ns, bool]:
        if found.by and found.found_at_ns is not None:
            return found.found_at_ns, True
        return found.simulated_ns, bool(found.by)  # rows of former versions do not tell when in the last run

    return Comparison(
        strategies=(one, other),
        budget_ns=budget_ns,
        core=tuple(_lines(rows, one, other, core)),
        simulated=tuple(_lines(rows, one, other, simulated)),
    )


def _lines(rows: Sequence[ExamRow], one: str, other: str, reading: Reading) -> Iterator[Compared]:
    for system, bug in dict.fromkeys((row.found.system, row.found.bug) for row in rows if row.found.caught_by):
        mine = [row for row in rows if (row.found.system, row.found.bug) == (system, bug) and not row.found.trouble]
        first = median([row.found for row in mine if row.strategy == one], reading)
        second = median([row.found for row in mine if row.strategy == other], reading)
        if not first.sittings or not second.sittings:
            continue
        factor, bound = _factor(first, second)
        yield Compared(system=system, bug=bug, one=first, other=second, factor=factor, bound=bound)


def median(sittings: Sequence[Found], reading: Reading) -> Median:
    """The first time by which at least half have found it, whoever gave up before counting as one of those left."""
    known = sorted((*reading(found), found.runs) for found in sittings)
    found = sum(by for _, by, _ in known)
    runs = sorted(runs for _, by, runs in known if by)
    told = 2 * found > len(known)
    at = _half(known) if told else None
    return Median(
        found=found,
        sittings=len(known),
        ns=at,
        runs=runs[(len(known) - 1) // 2] if at is not None else None,
        until_ns=max((ns for ns, _, _ in known), default=0),
    )


def _half(known: Sequence[tuple[Ns, bool, int]]) -> Ns | None:
    """Where Kaplan and Meier's curve comes down to one half. ``known``: in order."""
    left = 1.0
    for number, (ns, by, _) in enumerate(known):
        if by:
            left *= 1 - 1 / (len(known) - number)
        if left <= 0.5 + 1e-9:  # products of fractions are not exact
            return ns
    return None


def _factor(one: Median, other: Median) -> tuple[float | None, Bound]:
    if one.ns is None and other.ns is None:
        return None, ""
    bound: Bound = "≥" if other.ns is None else "≤" if one.ns is None else ""
    mine, theirs = (median.until_ns if median.ns is None else median.ns for median in (one, other))
    return max(theirs, LEAST_NS) / max(mine, LEAST_NS), bound


def compare_object(comparison: Comparison) -> dict[str, Any]:
    """JSON values. What stands beside ``simulated`` is in time of one core."""
    core, simulated = comparison.core, comparison.simulated
    in_order = zip(core, simulated, strict=True)
    return {
        "schema": SCHEMA,
        "command": "compare",
        "strategies": list(comparison.strategies),
        "budget_s": _seconds(comparison.budget_ns),
        "bugs": [{**_object(line), "simulated": _object(beside, named=False)} for line, beside in in_order],
        "found": [sum(line.one.ns is not None for line in core), sum(line.other.ns is not None for line in core)],
        "total": len(core),
        **_figures(core),
        "simulated": _figures(simulated),
    }


def _figures(lines: Sequence[Compared]) -> dict[str, Any]:
    """Over bugs. Bounds count as what they bound; bugs that neither found have no factor."""
    factors = sorted(line.factor for line in lines if line.factor is not None)
    middle = factors[(len(factors) - 1) // 2] if factors else None
    return {
        "median_find_s": [_overall([line.one.ns for line in lines]), _overall([line.other.ns for line in lines])],
        "median_factor": None if middle is None else round(middle, 1),
        "factors": len(factors),
        f"at_least_{MUCH}": sum(factor >= MUCH for factor in factors),
        "below_1": sum(factor < 1 for factor in factors),
    }


def compare_table(comparison: Comparison) -> Table:
    """A line a bug: simulated time first, then time of one core."""
    one, other = comparison.strategies
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = ("system", "bug", one, other, "factor", "found", "core s", "core s", "factor")
    for name in names:
        table.add_column(name, overflow="fold", justify="left" if name in {"system", "bug"} else "right")
    for line, beside in zip(comparison.simulated, comparison.core, strict=True):
        found = f"{line.one.found}/{line.one.sittings} {line.other.found}/{line.other.sittings}"
        table.add_row(
            line.system, line.bug, _time(line.one), _time(line.other), _factor_words(line), found,
            _time(beside.one), _time(beside.other), _factor_words(beside),
        )  # fmt: skip
    return table


def compare_lines(value: dict[str, Any]) -> list[str]:
    """What it came to, in sentences."""
    (one, other), (first, second) = value["strategies"], value["found"]
    each = f"within {value['budget_s']} s of one core each"
    lines = [f"{one} found {first} of {value['total']} planted bugs, {other} {second}, {each}"]
    for name, figures in (("simulated", value["simulated"]), ("core", value)):
        if figures["median_factor"] is None:
            continue
        told = ["later than any sitting" if s is None else f"{s} s" for s in figures["median_find_s"]]
        lines.append(
            f"{name} time to find: median {told[0]} and {told[1]}; median factor by which {one} was sooner, misses"
            f" censored: {figures['median_factor']} ({figures[f'at_least_{MUCH}']} of {figures['factors']} at least"
            f" {MUCH}, {figures['below_1']} below 1)"
        )
    return lines


def _overall(times: Sequence[Ns | None]) -> float | None:
    """The median over bugs, a miss counting as the longest; None where it is one."""
    ordered = sorted((ns is None, ns or 0) for ns in times)
    missed, ns = ordered[(len(ordered) - 1) // 2] if ordered else (True, 0)
    return None if missed else _seconds(ns)


def _object(line: Compared, *, named: bool = True) -> dict[str, Any]:
    both = (line.one, line.other)
    value = {
        "find_s": [None if one.ns is None else _seconds(one.ns) for one in both],
        "until_s": [_seconds(one.until_ns) for one in both],
        "factor": None if line.factor is None else round(line.factor, 2),
        "bound": line.bound,
    }
    if not named:
        return value
    return {
        "system": line.system,
        "bug": line.bug,
        **value,
        "runs": [one.runs for one in both],
        "found": [one.found for one in both],
        "sittings": [one.sittings for one in both],
    }


def _time(one: Median) -> str:
    return f"> {one.until_ns / SECOND:.0f}" if one.ns is None else f"{one.ns / SECOND:.1f}"


def _factor_words(line: Compared) -> str:
    return "" if line.factor is None else f"{line.bound}{' ' if line.bound else ''}{line.factor:.1f}"


def _seconds(ns: Ns) -> float:
    return round(ns / SECOND, 2)
