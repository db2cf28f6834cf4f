"""Statistics of the trends, against formulas written down naively."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, isclose, isnan

import numpy as np
import scipy.stats  # noqa: F401 - so that no test pays for its import
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.pipeline import survival

rows = st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 6)), min_size=1, max_size=25)


def times_of(rows):
    return survival.Times(
        ns=np.array([ns for ns, _, _ in rows], np.int64),
        censored=np.array([cut for _, cut, _ in rows], np.bool_),
        run=np.array([run for _, _, run in rows], np.int64),
    )


def share_left(rows, at):
    """The Kaplan–Meier product in fractions."""
    left = Fraction(1)
    for moment in sorted({ns for ns, cut, _ in rows if not cut and ns <= at}):
        at_risk = sum(ns >= moment for ns, _, _ in rows)
        left *= 1 - Fraction(sum(ns == moment and not cut for ns, cut, _ in rows), at_risk)
    return left


@settings(deadline=None)
@given(rows)
def test_the_curve_is_the_product_of_what_is_left_at_each_moment(rows):
    found = survival.curve(times_of(rows))
    for ns, share, low, high in zip(found.ns, found.share, found.low, found.high, strict=True):
        assert isclose(share, share_left(rows, ns), abs_tol=1e-9)
        assert isnan(low) or isnan(high) or low - 1e-9 <= share <= high + 1e-9


@settings(deadline=None)
@given(rows)
def test_the_median_is_the_first_moment_by_which_half_is_reached(rows):
    halves = [ns for ns in sorted({ns for ns, _, _ in rows}) if share_left(rows, ns) <= Fraction(1, 2)]
    assert survival.median(times_of(rows)) == (halves[0] if halves else None)


@settings(deadline=None)
@given(rows)
def test_scores_of_one_side_are_observed_minus_expected(rows):
    times = times_of(rows)
    side = times.run % 2 == 0
    observed = sum(not cut and mine for (_, cut, _), mine in zip(rows, side, strict=True))
    expected = Fraction(0)
    for moment in {ns for ns, cut, _ in rows if not cut}:
        at_risk = [mine for (ns, _, _), mine in zip(rows, side, strict=True) if ns >= moment]
        reached = sum(ns == moment and not cut for ns, cut, _ in rows)
        expected += Fraction(reached * int(sum(at_risk)), len(at_risk))
    found = survival.scores(times.ns, times.censored)
    assert isclose(found[side].sum(), observed - expected, abs_tol=1e-9)
    assert isclose(found.sum(), 0, abs_tol=1e-9)


@settings(deadline=None)
@given(rows)
def test_the_variance_is_that_of_all_ways_to_deal_runs_to_the_sides(rows):
    times = times_of(rows)
    numbers = sorted(set(times.run.tolist()))
    side = times.run < numbers[len(numbers) // 2]
    found = survival.log_rank(times, side, np.zeros(len(times), np.int64))
    here = len(numbers) // 2
    if min(here, len(numbers) - here) < 2:
        assert found is None
        return
    score = survival.scores(times.ns, times.censored)
    dealt = [-sum(score[np.isin(times.run, hand)]) for hand in combinations(numbers, here)]
    deviation = (sum(one**2 for one in dealt) / len(dealt)) ** 0.5
    excess = -score[side].sum()
    assert isclose(found.z * deviation, excess, abs_tol=1e-6)
    assert (found.runs, found.against) == (here, len(numbers) - here)
    assert isclose(found.p_slower + found.p_faster, 1, abs_tol=1e-9)


def test_longer_times_are_slower_and_times_that_never_end_are_slowest():
    short = [(10 + run % 3, False, run) for run in range(12)]
    long = [(20 + run % 3, False, run) for run in range(12, 24)]
    never = [(50, True, run) for run in range(12, 24)]
    for other in (long, never):
        times = times_of(short + other)
        found = survival.log_rank(times, times.run >= 12, np.zeros(len(times), np.int64))
        assert found.p_slower < 0.001
        assert found.p_faster > 0.999


def test_what_differs_between_setups_is_no_difference():
    fast = [(10 + run % 3, False, run) for run in range(20)]
    slow = [(100 + run % 3, False, run) for run in range(20, 40)]
    times = times_of(fast + slow)
    stratum = (times.run >= 20).astype(np.int64)
    mostly_slow = np.isin(times.run, [0, 1, *range(20, 38)])
    assert survival.log_rank(times, mostly_slow, np.zeros(40, np.int64)).p_slower < 1e-4
    assert survival.log_rank(times, mostly_slow, stratum).p_slower > 0.05
    assert survival.log_rank(times, times.run >= 20, stratum) is None


def test_a_run_with_many_times_counts_as_one_run():
    # Twenty times that are one accident: by times this would be certain, by runs it is next to nothing.
    usual = [(10 + run % 5, False, run) for run in range(20)]
    accident = [(30, False, 20)] * 20 + [(10 + run % 5, False, run) for run in range(21, 30)]
    times = times_of(usual + accident)
    assert survival.log_rank(times, times.run >= 20, np.zeros(len(times), np.int64)).p_slower > 0.01


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_rates_are_compared_by_counting_all_tables(hits, misses, before, not_before):
    of, of_before = hits + misses, before + not_before
    found = survival.more_often(hits, of, before, of_before)
    if not of or not of_before:
        assert found == 1
        return
    everything = hits + before
    ways = [comb(of, k) * comb(of_before, everything - k) for k in range(everything + 1)]
    assert isclose(found, sum(ways[hits:]) / sum(ways), rel_tol=1e-6)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=10))
def test_corrected_values_are_never_smaller_and_keep_their_order(values):
    found = survival.holm(values)
    assert all(after >= before for after, before in zip(found, values, strict=True))
    assert [after for _, after in sorted(zip(values, found, strict=True))] == sorted(found)
    if values:
        assert min(found) == min(1, min(values) * len(values))


def test_the_interval_of_a_median_holds_it_and_comes_again_with_its_seed():
    rng = np.random.default_rng(7)
    times = survival.Times(rng.integers(100, 900, 300), rng.random(300) < 0.2, np.arange(300) // 5)
    found = survival.bootstrap_median(times, seed=1)
    assert found.low <= found.at <= found.high
    assert found == survival.bootstrap_median(times, seed=1)
    alone = survival.bootstrap_median(times.where(times.run == 0), seed=1)
    assert (alone.low, alone.high) == (None, None)
    cut = survival.Times(times.ns, np.ones(300, np.bool_), times.run)
    assert survival.bootstrap_median(cut, seed=1) == survival.Interval(None, None, None)


def test_intervals_of_medians_hold_the_true_one_nearly_as_often_as_they_say():
    rng = np.random.default_rng(11)
    held = 0
    for draw in range(200):
        ns = (rng.exponential(1000, 120) + 1).astype(np.int64)
        found = survival.bootstrap_median(survival.Times(ns, np.zeros(120, np.bool_), np.arange(120)), seed=draw)
        held += found.low <= 1000 * np.log(2) + 1 <= found.high
    assert 180 <= held <= 199
