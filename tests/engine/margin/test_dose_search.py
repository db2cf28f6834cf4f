"""The search for a dose: against simulated thresholds with noise, and from rows in any order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from dethrone.harness.engine.margin.dose_search import Answer, Ask, Search, Trials, decided, next_step
from dethrone.harness.engine.margin.evidence import evidence, more_than_half, throws_needed

SECONDS = Search(least=10, most=10_000)


def play(search, chance, *, seed, spoils=0.0, asks_max=400):
    """Search a system that breaks at a dose with this chance; the answer and all rows."""
    rng, rows = Rng(seed), []

    def happens(share):
        return rng.between(0, 10**6 - 1) < share * 10**6

    for _ in range(asks_max):
        step = next_step(rows, search)
        if isinstance(step, Answer):
            return step, rows
        for _ in range(step.trials):
            spoiled = happens(spoils)
            broke = not spoiled and happens(chance(step.dose))
            rows.append(Trials(step.dose, int(broke), int(not broke and not spoiled), int(spoiled)))
    raise AssertionError("the search does not end")


@given(st.integers(11, 9_999), st.integers(0, 2**32), st.floats(0, 0.5))
def test_a_sharp_threshold_is_bracketed_as_narrowly_as_asked_whatever_is_spoiled(threshold, seed, spoils):
    search = Search(least=10, most=10_000, spoiled_max=10**6)
    answer, rows = play(search, lambda dose: float(dose >= threshold), seed=seed, spoils=spoils)
    assert answer.why == ""
    assert (answer.lo or 0) < threshold <= answer.hi
    assert answer.lo is None or answer.hi * 100 <= answer.lo * 125 or answer.hi - answer.lo <= 1
    assert len({row.dose for row in rows}) <= search.doses_max


@given(st.integers(2, 99), st.integers(0, 2**32))
def test_a_share_is_searched_by_differences(threshold, seed):
    search = Search(least=1, most=100, scale="difference", precision=5)
    answer, _ = play(search, lambda dose: float(dose >= threshold), seed=seed)
    assert answer.lo < threshold <= answer.hi
    assert answer.hi - answer.lo <= 5


def test_a_blurred_threshold_lies_in_the_bracket_as_often_as_the_confidence_says():
    def chance(dose):
        return 1 / (1 + (700 / dose) ** 6)

    wrong = 0
    for seed in range(120):
        answer, _ = play(SECONDS, chance, seed=seed)
        wrong += not (answer.lo or 0) <= 700 <= (answer.hi or 10**9)
    assert wrong <= 12  # 6 are expected at most; more than 12 of 120 has a chance below 1 %


def test_what_never_breaks_and_what_always_breaks_are_answers_at_the_ends():
    never, rows = play(SECONDS, lambda _: 0.0, seed=1)
    assert never == Answer(lo=10_000, hi=None)
    assert {row.dose for row in rows} == {10_000}
    always, _ = play(SECONDS, lambda _: 1.0, seed=1)
    assert always == Answer(lo=None, hi=10)


def test_a_dose_that_breaks_half_the_time_stays_undecided_inside_the_bracket():
    answer, _ = play(SECONDS, lambda dose: 0.5 if 300 <= dose <= 400 else float(dose > 400), seed=3)
    assert answer.undecided
    assert answer.lo < 300 <= answer.undecided[0] <= 400 < answer.hi


def test_a_smaller_dose_that_breaks_where_a_larger_one_holds_is_said_and_not_averaged():
    answer, _ = play(SECONDS, lambda dose: float(dose < 100), seed=1)
    assert answer == Answer(lo=10_000, hi=None)  # the largest dose holds: nothing below it is looked at
    rows = [Trials(10_000, broke=20), Trials(300, broke=20), Trials(900, held=20)]
    assert "no single margin" in next_step(rows, SECONDS).why


def test_a_dose_that_spoils_every_trial_ends_the_search_and_is_never_counted():
    answer, rows = play(SECONDS, lambda _: 1.0, seed=1, spoils=1.0)
    assert "spoiled" in answer.why
    assert (answer.lo, answer.hi) == (None, None)
    assert sum(row.spoiled for row in rows) >= SECONDS.spoiled_max


@given(st.integers(11, 9_999), st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_search_resumes_from_its_rows_in_any_order(threshold, cut, shuffler):
    _, rows = play(SECONDS, lambda dose: float(dose >= threshold), seed=1)
    part = rows[: cut % (len(rows) + 1)]
    shuffled = list(part)
    shuffler.shuffle(shuffled)
    assert next_step(shuffled, SECONDS) == next_step(part, SECONDS)


@given(st.integers(0, 30), st.integers(0, 30))
def test_evidence_is_never_on_both_sides_and_a_fair_coin_shows_none_on_average(heads, tails):
    throws = heads + tails
    sides = (more_than_half(heads, throws, error=0.05), more_than_half(tails, throws, error=0.05))
    assert not all(sides)
    step = (evidence(heads + 1, throws + 1) + evidence(heads, throws + 1)) / 2
    assert step == evidence(heads, throws)  # a martingale under a fair coin: Ville's inequality holds


@settings(deadline=None)
@given(st.integers(0, 8), st.integers(0, 8))
def test_as_many_trials_are_asked_for_as_may_settle_it_and_no_fewer(broke, held):
    one = Trials(500, broke, held)
    if decided(one, SECONDS) != "open":
        return
    more = throws_needed(broke, held, error=SECONDS.error, most=30)
    for fewer in range(1, more):
        assert decided(Trials(500, broke + fewer, held), SECONDS) in {"open", "undecided"}
        assert decided(Trials(500, broke, held + fewer), SECONDS) in {"open", "undecided"}
    asked = min(more, SECONDS.trials_max - broke - held)
    assert next_step([Trials(10_000, broke=40), one], SECONDS) == Ask(500, asked)


def test_a_range_that_is_none_is_refused():
    for least, most in ((0, 5), (5, 5), (9, 5)):
        with pytest.raises(ValueError, match="smallest dose"):
            Search(least=least, most=most)
