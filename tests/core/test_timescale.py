"""One factor for a whole run: promises, schedules, and the rule that finds it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.calibration import (
    Measured,
    choose,
    joined,
    needed,
    pooled,
    quantile,
    restless,
    too_slow,
    words,
)
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.promise import Promise, noise_limit_ns
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.core.timescale import SCALES, longer, longer_promise, schedule_at

PROMISE = Promise(
    system="x",
    profile="x",
    source="a test",
    election_timeout_ns=300 * MS,
    heartbeat_ns=50 * MS,
    leader_bound_ns=3 * SECOND,
    later_gap_ns=4 * SECOND,
    step_down_ns=500 * MS,
    converge_ns=None,
    drift_ppm_max=100,
)

SCHEDULE = Schedule(
    seed=1,
    strategy="random",
    health_bound_ns=2 * SECOND,
    steps=(
        Step(
            faults=(
                PlannedFault(kind="partition", victims="leader", hold_ns=4 * SECOND, delay_ns=SECOND, name="cut"),
                PlannedFault(
                    kind="kill",
                    victims="actor",
                    hold_ns=SECOND,
                    when=OnEvent(event="elected", within_ns=2 * SECOND, after="cut"),
                    until=OnEvent(event="elected", within_ns=3 * SECOND),
                ),
                PlannedFault(kind="pause", victims="leader", hold_ns=SECOND, when=AfterFault(fault="cut")),
            ),
            gap_ns=5 * SECOND,
            when=OnEvent(event="elected", within_ns=7 * SECOND),
        ),
    ),
)


def test_every_duration_of_a_promise_moves_by_the_scale_and_nothing_else_does():
    slow = longer_promise(PROMISE, 1.5)
    changed = {
        field: (getattr(PROMISE, field), getattr(slow, field))
        for field in PROMISE.__struct_fields__
        if getattr(PROMISE, field) != getattr(slow, field)
    }
    durations = {f for f in PROMISE.__struct_fields__ if f.endswith("_ns") and getattr(PROMISE, f) is not None}
    assert set(changed) == durations
    assert all(new == old * 3 // 2 for old, new in changed.values())


def test_every_duration_of_a_schedule_moves_by_the_scale():
    slow = schedule_at(SCHEDULE, 2)
    step, (cut, kill, pause) = slow.steps[0], slow.steps[0].faults
    assert (step.gap_ns, step.when.within_ns, slow.health_bound_ns) == (10 * SECOND, 14 * SECOND, 4 * SECOND)
    assert (cut.hold_ns, cut.delay_ns, kill.hold_ns, pause.hold_ns) == (8 * SECOND, 2 * SECOND, 2 * SECOND, 2 * SECOND)
    assert (kill.when.within_ns, kill.until.within_ns) == (4 * SECOND, 6 * SECOND)
    assert pause.when == AfterFault(fault="cut")


@given(st.sampled_from(SCALES), st.sampled_from(SCALES))
def test_a_stored_schedule_is_not_slowed_down_twice(first, second):
    stored = msgspec.json.decode(msgspec.json.encode(schedule_at(SCHEDULE, first)), type=Schedule)
    assert schedule_at(stored, first) == stored
    assert schedule_at(stored, second) == schedule_at(SCHEDULE, second)


def test_a_schedule_without_a_scale_is_at_1_and_one_with_a_senseless_scale_cannot_be_read():
    plain = msgspec.to_builtins(SCHEDULE)
    del plain["time_scale"]
    assert msgspec.convert(plain, Schedule).time_scale == 1
    with pytest.raises(msgspec.ValidationError, match="time_scale"):
        msgspec.convert({**plain, "time_scale": -1.0}, Schedule)


def test_the_scale_of_1_changes_nothing():
    assert longer_promise(PROMISE, 1) is PROMISE
    assert schedule_at(SCHEDULE, 1) is SCHEDULE
    assert longer(7, 1) == 7


# --- the rule -----------------------------------------------------------------------------------------------------


def measured(*, wakeup: int = MS, sync: int = 2 * MS, trip: int = MS, stalls_ms: tuple[int, ...] = ()) -> Measured:
    """Ten seconds; the stalls come at regular intervals."""
    every = 10 * SECOND // max(1, len(stalls_ms))
    return Measured(
        wakeups_ns=(wakeup,) * 1500,
        syncs_ns=(sync,) * 200,
        trips_ns=(trip,) * 300,
        stalls_ns=tuple((at * every, length * MS) for at, length in enumerate(stalls_ms)),
        watched_ns=10 * SECOND,
    )


def test_a_quiet_machine_needs_no_scale():
    assert choose(needed(measured(), PROMISE)) == 1
    assert not restless(measured(), PROMISE)


@pytest.mark.parametrize(
    ("stalls_ms", "scale"),
    [
        ((37,) * 9, 1),  # with the headroom just no noise
        ((310,), 1),  # (310 + 300) ms of 10 s
        ((310,) * 2, 1),  # 12 %, and more at every other scale up to the cap
        ((290,) * 4, 8),  # 24 % at 1; only at 8 it is no stretch, with the headroom
        ((310,) * 10, None),
        ((60,) * 3, 2),  # 11 % at 1; at 1.5 more than 56 ms count and a round has 450 ms; at 2 none
        ((100,) * 9, 3),
        ((5000,), None),
    ],
)
def test_at_most_a_tenth_of_the_time_may_be_charged_to_noise(stalls_ms, scale):
    assert choose(needed(measured(stalls_ms=stalls_ms), PROMISE)) == scale


def test_stalls_of_several_hosts_at_one_time_are_charged_once():
    once = measured(stalls_ms=(310,))
    assert needed(pooled([once] * 5), PROMISE) == needed(once, PROMISE) == 1


def test_a_stall_of_a_later_window_is_as_much_later():
    windows = [measured(stalls_ms=(60,)), measured(), measured(stalls_ms=(70, 80))]
    whole = joined(windows)
    assert whole.watched_ns == 30 * SECOND
    assert [at // SECOND for at, _ in whole.stalls_ns] == [0, 20, 25]
    assert len(whole.wakeups_ns) == 4500


def test_a_machine_with_stalls_of_half_the_limit_is_restless():
    assert restless(measured(stalls_ms=(26,)), PROMISE)
    assert not restless(measured(stalls_ms=(25,)), PROMISE)


def test_slow_timers_ride_out_a_longer_stall():
    slow = msgspec.structs.replace(PROMISE, election_timeout_ns=2 * SECOND, noise_max_ns=noise_limit_ns(2 * SECOND))
    assert choose(needed(measured(stalls_ms=(140,) * 20), slow)) == 1
    assert choose(needed(measured(stalls_ms=(140,) * 20), PROMISE)) == 4


@given(st.integers(0, 100 * SECOND))
def test_the_limit_of_noise_is_a_sixth_of_the_timeout_within_50_and_200_ms(timeout_ns):
    assert noise_limit_ns(timeout_ns) == min(200 * MS, max(50 * MS, timeout_ns // 6))


def test_a_heartbeat_must_be_answered_in_a_quarter_of_the_election_timeout():
    assert choose(needed(measured(sync=30 * MS, trip=10 * MS), PROMISE)) == 1  # 1 + 60 + 10 ms of 75
    assert choose(needed(measured(sync=40 * MS, trip=10 * MS), PROMISE)) == 1.5
    assert choose(needed(measured(trip=200 * MS), PROMISE)) == 3


@given(st.lists(st.integers(0, SECOND), max_size=50), st.lists(st.integers(0, SECOND), max_size=50))
def test_a_measurement_that_is_slower_nowhere_needs_no_larger_scale(wakeups, syncs):
    quick = Measured(wakeups_ns=wakeups, syncs_ns=syncs)
    slow = Measured(wakeups_ns=[2 * one for one in wakeups], syncs_ns=[one + MS for one in syncs])
    assert needed(quick, PROMISE) <= needed(slow, PROMISE)


@given(st.floats(0, 20))
def test_a_chosen_scale_is_enough_and_the_one_before_it_is_not(factor):
    scale = choose(factor)
    if scale is None:
        assert factor > SCALES[-1]
    else:
        assert scale >= factor
        assert all(other < factor for other in SCALES if other < scale)


def test_a_quantile_is_a_value_that_was_measured():
    assert quantile([], 999) == 0
    assert quantile([5], 990) == 5
    assert quantile(list(range(1, 1001)), 999) == 999
    assert quantile(list(range(1, 1001)), 990) == 990


def test_windows_are_pooled_and_what_could_not_be_measured_is_said_once():
    whole = pooled([measured(), Measured(lost=2, unreadable=("n1: sync: no room",))] * 2)
    assert (len(whole.syncs_ns), whole.lost, whole.unreadable) == (400, 4, ("n1: sync: no room",))
    figures = whole.figures()
    assert (figures["syncs"], figures["sync_p99_ns"], figures["unreadable"]) == (400, 2 * MS, ["n1: sync: no room"])


def test_a_machine_that_is_too_slow_is_told_by_how_much_and_what_to_do():
    sentence = too_slow(9.3, measured(stalls_ms=(465,) * 10).figures())
    assert "machine too slow" in sentence
    assert "9.3 times" in sentence
    assert "--time-scale 1" in sentence
    assert words({}) == "no measurements"
