"""Shrinking: what is left fails, and without any part of it would not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.engine.replay.shrinker import GAP_MIN_NS, HOLD_MIN_NS, ddmin, shrink


def fault(kind, **more):
    return PlannedFault(kind=kind, **{"victims": "leader", "hold_ns": 4 * SECOND, **more})


def schedule(*steps):
    return Schedule(seed=1, strategy="t", steps=tuple(Step(faults=s, gap_ns=SECOND) for s in steps), obligations=("x",))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.sets(st.integers(0, 30), max_size=4))
def test_ddmin_keeps_exactly_what_is_needed(items, wanted):
    wanted &= set(items)
    left = ddmin(items, lambda part: wanted <= set(part))
    assert wanted <= set(left)
    if wanted:
        assert sorted(left) == sorted(wanted)


def test_the_two_steps_that_matter_are_left_of_twenty_five():
    many = schedule(*((fault(f"k{number}"),) for number in range(25)))
    asked = []

    def fails(candidate):
        asked.append(candidate)
        return {"k3", "k17"} <= set(candidate.kinds)

    shrunk = shrink(many, fails, tries_max=400)
    assert shrunk.schedule.kinds == ("k17", "k3")
    assert len(shrunk.schedule.steps) == 2
    assert shrunk.schedule.obligations == ()
    assert shrunk.tries == len(asked) < 120
    assert not shrunk.exhausted


def test_times_and_victims_shrink_as_far_as_it_still_fails():
    def fails(candidate):
        return any(f.kind == "kill" and f.hold_ns >= SECOND for step in candidate.steps for f in step.faults)

    whole = schedule((fault("kill", victims="follower:2", delay_ns=5), fault("pause")), (fault("clock"),))
    (step,) = shrink(whole, fails, tries_max=400).schedule.steps
    (left,) = step.faults
    assert (left.kind, left.victims, left.delay_ns) == ("kill", "follower", 0)
    assert SECOND <= left.hold_ns < 2 * SECOND
    assert step.gap_ns == GAP_MIN_NS
    assert left.hold_ns >= HOLD_MIN_NS


def test_a_fault_that_others_wait_for_is_not_taken_from_under_them():
    pair = (fault("partition", name="base"), fault("kill", when=AfterFault(fault="base")))

    def fails(candidate):
        return "kill" in candidate.kinds

    (step,) = shrink(schedule(pair), fails, tries_max=400).schedule.steps
    assert [one.kind for one in step.faults] == ["partition", "kill"]


def test_a_name_goes_once_nobody_speaks_of_it():
    pair = (fault("partition", name="base"), fault("kill", name="other", when=AfterFault(fault="base")))
    (step,) = shrink(schedule(pair), lambda c: {"kill", "partition"} <= set(c.kinds), tries_max=400).schedule.steps
    assert [one.name for one in step.faults] == ["base", ""]
    hit = (fault("partition", name="base"), fault("kill", victims="hit-by:base"))
    (step,) = shrink(schedule(hit), lambda c: {"kill", "partition"} <= set(c.kinds), tries_max=400).schedule.steps
    assert [one.name for one in step.faults] == ["base", ""]
    (step,) = shrink(schedule(hit), lambda c: "partition" in c.kinds, tries_max=400).schedule.steps
    assert [one.name for one in step.faults] == [""]


def test_a_fault_that_the_end_of_another_speaks_of_is_not_taken_from_under_it():
    until = OnEvent(event="elected", by="spared-by:base", within_ns=SECOND)
    pair = (fault("partition", name="base"), fault("kill", until=until))
    (step,) = shrink(schedule(pair), lambda c: "kill" in c.kinds, tries_max=400).schedule.steps
    assert [(one.kind, one.name) for one in step.faults] == [("partition", "base"), ("kill", "")]
    healed = OnEvent(event="healed", where={"fault": "base"}, within_ns=SECOND)
    apart = schedule((fault("partition", name="base"),), (fault("kill", until=healed),))
    steps = shrink(apart, lambda c: "kill" in c.kinds, tries_max=400).schedule.steps
    assert [one.name for step in steps for one in step.faults] == ["base", ""]


def test_times_are_rounded_where_it_still_fails():
    odd = fault(
        "kill", hold_ns=2_105_459_179, delay_ns=1_234_567, until=OnEvent(event="elected", within_ns=987_654_321)
    )
    (step,) = shrink(
        schedule((odd,)), lambda c: c.steps and c.steps[0].faults[0].delay_ns > 0, tries_max=99
    ).schedule.steps
    (left,) = step.faults
    assert (left.delay_ns, left.until.within_ns) == (1_300_000, 990_000_000)
    exact = shrink(schedule((odd,)), lambda c: c.steps and c.steps[0].faults[0].delay_ns == 1_234_567, tries_max=99)
    assert exact.schedule.steps[0].faults[0].delay_ns == 1_234_567


def test_a_failure_without_any_fault_is_told_as_such():
    assert shrink(schedule((fault("kill"),), (fault("pause"),)), lambda _: True, tries_max=400).schedule.steps == ()


def test_tries_are_bounded_and_it_is_said():
    many = schedule(*((fault(f"k{number}"),) for number in range(25)))
    shrunk = shrink(many, lambda candidate: {"k3", "k17"} <= set(candidate.kinds), tries_max=4)
    assert shrunk.exhausted
    assert shrunk.tries == 4
    assert {"k3", "k17"} <= set(shrunk.schedule.kinds)
