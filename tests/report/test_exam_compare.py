"""Two strategies compared: medians of sittings, misses censored at the budget."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.core.clock import SECOND
from harness.engine.exam import Found
from harness.engine.exam_jobs import Row
from harness.report.exam_compare import compare_lines, compare_object, compare_table, compared

BUDGET = 60 * SECOND


def row(bug, strategy, seconds, *, sitting=0, trouble=""):
    """One sitting; ``seconds`` None: not found."""
    spent = BUDGET if seconds is None else round(seconds * SECOND)
    by = "" if seconds is None else "log-matching"
    found = Found(
        system="raft", bug=bug, says="", caught_by=("log-matching",), by=by, runs=3, spent_ns=spent, trouble=trouble
    )
    return Row(strategy=strategy, first_seed=sitting, found=found)


def lines(*rows):
    return compared(rows, one="triggered", other="random-twin", budget_ns=BUDGET)


def test_a_factor_is_the_others_median_through_the_first_ones():
    rows = [row("a", "triggered", s, sitting=n) for n, s in enumerate((1, 2, 30))]
    rows += [row("a", "random-twin", s, sitting=n) for n, s in enumerate((8, 20, None))]
    (line,) = lines(*rows)
    assert (line.one.ns, line.other.ns) == (2 * SECOND, 20 * SECOND)
    assert (line.factor, line.at_least) == (10.0, False)


def test_a_miss_counts_as_the_budget_and_makes_the_factor_a_lower_bound():
    (line,) = lines(row("a", "triggered", 2), row("a", "random-twin", None))
    assert line.other.ns is None
    assert (line.factor, line.at_least) == (30.0, True)


def test_where_the_first_one_missed_nothing_is_known():
    (line,) = lines(row("a", "triggered", None), row("a", "random-twin", 3))
    assert line.factor is None


@pytest.mark.parametrize("times", [(1, None), (1, None, None), (None, 1, 2, None)])
def test_half_of_the_sittings_without_a_find_leave_no_median(times):
    rows = [row("a", "triggered", s, sitting=n) for n, s in enumerate(times)]
    (line,) = lines(*rows, row("a", "random-twin", 1))
    assert line.one.ns is None


def test_trouble_is_no_answer_and_a_bug_with_one_strategy_only_is_left_out():
    rows = [row("a", "triggered", 1), row("a", "random-twin", None, trouble="it broke"), row("b", "triggered", 1)]
    assert lines(*rows) == []


def test_the_whole_is_told_by_medians_over_bugs():
    rows = [row(bug, "triggered", s) for bug, s in (("a", 1), ("b", 2), ("c", None))]
    rows += [row(bug, "random-twin", s) for bug, s in (("a", 3), ("b", None), ("c", None))]
    value = compare_object(lines(*rows), one="triggered", other="random-twin", budget_ns=BUDGET)
    assert value["found"] == [2, 1]
    assert value["total"] == 3
    assert value["median_find_s"] == [2.0, None]
    assert value["median_factor"] == 3.0
    assert compare_lines(value)[0] == "triggered found 2 of 3 planted bugs, random-twin 1, within 60.0 s each"
    out = io.StringIO()
    table = compare_table(lines(*rows), one="triggered", other="random-twin", budget_ns=BUDGET)
    Console(file=out, width=200).print(table)
    assert "≥ 30.0" in out.getvalue()
    assert "> 60" in out.getvalue()


def test_nothing_compared_is_told_without_figures():
    value = compare_object([], one="triggered", other="random-twin", budget_ns=BUDGET)
    assert value["median_factor"] is None
    assert value["median_find_s"] == [None, None]
