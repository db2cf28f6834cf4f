"""Two strategies compared, in two measures: medians of sittings, misses censored where they gave up."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.exam.exam import Found
from dethrone.harness.engine.exam.exam_tasks import ExamRow
from tests.twins.compared import compare_lines, compare_object, compare_table, compared

BUDGET = 60 * SECOND
TIMES = 50
"""Simulated seconds that a second of core is worth here."""


def row(bug, strategy, seconds, *, sitting=0, trouble="", shown_s=None, gave_up_s=None):
    """One sitting; ``seconds`` None: not found. ``shown_s``, ``gave_up_s``: in simulated time, where that matters."""
    spent = BUDGET if seconds is None else round(seconds * SECOND)
    by = "" if seconds is None else "log-matching"
    shown = None if seconds is None else round(shown_s * SECOND) if shown_s is not None else TIMES * spent
    found = Found(
        system="raft",
        bug=bug,
        says="",
        caught_by=("log-matching",),
        by=by,
        runs=3,
        spent_ns=spent,
        simulated_ns=TIMES * spent + SECOND if gave_up_s is None else round(gave_up_s * SECOND),
        found_at_ns=shown,
        trouble=trouble,
    )
    return ExamRow(strategy=strategy, first_seed=sitting, found=found)


def both(*rows):
    return compared(rows, one="triggered", other="random-twin", budget_ns=BUDGET)


def lines(*rows):
    return both(*rows).core


def simulated(*rows):
    return both(*rows).simulated


def test_a_factor_is_the_others_median_through_the_first_ones():
    rows = [row("a", "triggered", s, sitting=n) for n, s in enumerate((1, 2, 30))]
    rows += [row("a", "random-twin", s, sitting=n) for n, s in enumerate((8, 20, None))]
    (line,) = lines(*rows)
    assert (line.one.ns, line.other.ns) == (2 * SECOND, 20 * SECOND)
    assert (line.factor, line.bound) == (10.0, "")


def test_a_miss_counts_as_the_budget_and_makes_the_factor_a_lower_bound():
    (line,) = lines(row("a", "triggered", 2), row("a", "random-twin", None))
    assert line.other.ns is None
    assert (line.factor, line.bound) == (30.0, "≥")


def test_where_the_first_one_missed_the_factor_is_an_upper_bound():
    (line,) = lines(row("a", "triggered", None), row("a", "random-twin", 3))
    assert (line.factor, line.bound) == (0.05, "≤")


def test_where_both_missed_nothing_is_known():
    (line,) = lines(row("a", "triggered", None), row("a", "random-twin", None))
    assert (line.factor, line.bound) == (None, "")


def test_in_simulated_time_the_moment_within_the_run_counts():
    (line,) = simulated(row("a", "triggered", 2, shown_s=6.5), row("a", "random-twin", 2, shown_s=65))
    assert line.factor == 10.0
    assert lines(row("a", "triggered", 2, shown_s=6.5), row("a", "random-twin", 2, shown_s=65))[0].factor == 1.0


def test_in_simulated_time_a_miss_is_censored_where_the_sitting_gave_up():
    (line,) = simulated(row("a", "triggered", 2, shown_s=10), row("a", "random-twin", None, gave_up_s=700))
    assert (line.factor, line.bound) == (70.0, "≥")


def test_a_sitting_that_gave_up_early_leaves_the_median_to_those_that_went_on():
    times = [(None, 10), (3, None), (4, None)]
    rows = [row("a", "triggered", s, sitting=n, shown_s=20 * (s or 0), gave_up_s=g) for n, (s, g) in enumerate(times)]
    (line,) = simulated(*rows, row("a", "random-twin", 1))
    assert line.one.ns == 60 * SECOND  # of the two that were left after 10 s, one had found it


def test_a_row_that_tells_no_moment_counts_with_the_whole_run():
    old = row("a", "triggered", 2, gave_up_s=130)
    old = ExamRow(
        strategy=old.strategy, first_seed=0, found=old.found.__class__(**{**_fields(old.found), "found_at_ns": None})
    )
    (line,) = simulated(old, row("a", "random-twin", 2, shown_s=65))
    assert (line.one.ns, line.factor) == (130 * SECOND, 0.5)


def _fields(found):
    return {name: getattr(found, name) for name in found.__struct_fields__}


@pytest.mark.parametrize("times", [(1, None), (1, None, None), (None, 1, 2, None)])
def test_half_of_the_sittings_without_a_find_leave_no_median(times):
    rows = [row("a", "triggered", s, sitting=n) for n, s in enumerate(times)]
    for (line,) in (lines(*rows, row("a", "random-twin", 1)), simulated(*rows, row("a", "random-twin", 1))):
        assert line.one.ns is None


def test_trouble_is_no_answer_and_a_bug_with_one_strategy_only_is_left_out():
    rows = [row("a", "triggered", 1), row("a", "random-twin", None, trouble="it broke"), row("b", "triggered", 1)]
    assert lines(*rows) == simulated(*rows) == ()


def test_the_whole_is_told_by_medians_over_bugs():
    rows = [row(bug, "triggered", s) for bug, s in (("a", 1), ("b", 2), ("c", None))]
    rows += [row(bug, "random-twin", s) for bug, s in (("a", 3), ("b", None), ("c", None))]
    value = compare_object(both(*rows))
    assert value["found"] == [2, 1]
    assert value["total"] == 3
    assert value["median_find_s"] == [2.0, None]
    assert (value["median_factor"], value["factors"], value["at_least_5"], value["below_1"]) == (3.0, 2, 1, 0)
    assert value["simulated"]["median_find_s"] == [100.0, None]
    assert value["simulated"]["median_factor"] == 3.0
    told = compare_lines(value)
    assert told[0] == "triggered found 2 of 3 planted bugs, random-twin 1, within 60.0 s of one core each"
    assert told[1].startswith("simulated time to find: median 100.0 s and later than any sitting; median factor")
    out = io.StringIO()
    Console(file=out, width=200).print(compare_table(both(*rows)))
    assert "≥ 30.0" in out.getvalue()
    assert "> 60" in out.getvalue()


def test_a_bug_that_only_the_other_found_counts_against_the_first():
    rows = [
        row("a", "triggered", None),
        row("a", "random-twin", 3),
        row("b", "triggered", 1),
        row("b", "random-twin", 3),
    ]
    value = compare_object(both(*rows))
    assert (value["median_factor"], value["below_1"]) == (0.1, 1)


def test_nothing_compared_is_told_without_figures():
    value = compare_object(both())
    assert value["median_factor"] is None
    assert value["median_find_s"] == [None, None]
    assert len(compare_lines(value)) == 1
