"""Schedules that are run several times: how often they fail, and how long they get."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.engine.replay import failure_rate
from dethrone.harness.engine.replay.failure_rate import LIMIT_MIN_NS, Rate, confirmed, fails_often, room_for, seed_of
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import WARMUP_NS

EMPTY = Schedule(seed=1, strategy="none", steps=())


def result(*, failed=(), trouble=(), interrupted=False):
    verdicts = [SimpleNamespace(checker=name, outcome="fail") for name in failed]
    return SimpleNamespace(judgement=SimpleNamespace(verdicts=verdicts), trouble=trouble, interrupted=interrupted)


@pytest.fixture
def runs(monkeypatch):
    """Runs that come out as a list says; what they were asked for."""
    asked = []

    def play(*outcomes):
        left = list(outcomes)

        def run(options, listener, *, checkers):
            asked.append((options, set(checkers)))
            return left.pop(0)

        monkeypatch.setattr(failure_rate, "run", run)
        return asked

    return play


WANTED = ("one-vote-per-term",)
HIT = result(failed=WANTED)
MISS = result(failed=("log-matching",))


def ask(backend="docker", **more):
    return fails_often(RunOptions(system="raft", backend=backend, seed=7), EMPTY, WANTED, **more)


def test_the_asking_ends_as_soon_as_it_is_decided(runs):
    asked = runs(HIT, MISS, HIT)
    assert ask(need=2, of=5) == (True, Rate(2, 3))
    assert len(asked) == 3
    assert all(checkers == set(WANTED) and options.stop_at_first_failure for options, checkers in asked)


def test_what_can_no_longer_fail_often_enough_is_given_up(runs):
    runs(MISS, MISS)
    assert ask(need=2, of=3) == (False, Rate(0, 2))


def test_a_rate_is_of_all_runs_and_trouble_is_told_apart(runs):
    runs(HIT, result(trouble=("a host was lost",)), MISS)
    verdict, rate = ask(need=1, of=3, all_of_them=True)
    assert verdict
    assert rate == Rate(1, 3, 1)
    assert str(rate) == "1 of 3 (1 in trouble)"


def test_the_user_s_wish_to_stop_is_no_answer(runs):
    runs(result(interrupted=True))
    with pytest.raises(KeyboardInterrupt):
        ask(need=1, of=3)


def test_real_runs_keep_their_seed_and_simulated_ones_take_the_next():
    assert [seed_of(RunOptions(system="raft", backend="docker", seed=7), number) for number in range(3)] == [7, 7, 7]
    assert [seed_of(RunOptions(system="raft", backend="sim", seed=7), number) for number in range(3)] == [7, 8, 9]


def sized(gap_s):
    return Schedule(seed=1, strategy="none", steps=(Step(faults=(), gap_ns=gap_s * SECOND),))


def test_what_was_lucky_once_is_not_kept_but_what_fails_again_is():
    rates = {9: Rate(3, 3), 5: Rate(2, 3), 2: Rate(1, 3), 1: Rate(0, 3)}
    asked = []

    def rate_of(schedule):
        asked.append(schedule.steps[0].gap_ns // SECOND)
        return rates[asked[-1]]

    schedule, rate = confirmed([sized(gap) for gap in (9, 5, 2, 1)], rate_of, need=2)
    assert (schedule, rate) == (sized(5), Rate(2, 3))
    assert asked == [1, 2, 5]


def test_if_nothing_smaller_fails_again_the_whole_one_is_left_with_its_rate():
    schedule, rate = confirmed([sized(9), sized(5)], lambda _: Rate(0, 3), need=1)
    assert (schedule, rate) == (sized(9), Rate(0, 3))
    assert confirmed([sized(9)], lambda _: Rate(1, 3), need=1) == (sized(9), Rate(1, 3))


def test_a_schedule_gets_the_time_that_it_may_take_and_never_more_than_the_run_had():
    first = PlannedFault(kind="partition", victims="leader", hold_ns=2 * SECOND, name="cut")
    then = PlannedFault(
        kind="kill",
        victims="actor",
        hold_ns=SECOND,
        delay_ns=500 * MS,
        when=OnEvent(event="elected", within_ns=4 * SECOND, after="cut"),
    )
    schedule = Schedule(seed=1, strategy="none", steps=(Step(faults=(first, then), gap_ns=SECOND),) * 2)
    assert room_for(schedule, at_most=60 * SECOND) == WARMUP_NS + 2 * (5500 * MS + SECOND)
    assert room_for(schedule, at_most=10 * SECOND) == 10 * SECOND
    assert room_for(EMPTY, at_most=60 * SECOND) == WARMUP_NS + LIMIT_MIN_NS
