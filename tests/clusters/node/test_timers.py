from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.timers import WALL_LOOK_NS, Timers
from dethrone.harness.core.clock import Clocks


def drain(timers, now):
    fired = []
    while (name := timers.pop_due(now)) is not None:
        fired.append(name)
    return fired


def test_timers_fire_in_the_order_in_which_they_fell_due():
    timers = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    timers.set("middle", 20)
    assert drain(timers, Clocks(9, 0)) == []
    assert drain(timers, Clocks(50, 0)) == ["early", "middle", "late"]


def test_a_replaced_or_cancelled_timer_never_fires():
    timers = Timers()
    timers.set("a", 10)
    timers.set("a", 100)
    timers.set("b", 10)
    timers.set("b", None)
    assert drain(timers, Clocks(50, 0)) == []
    assert drain(timers, Clocks(100, 0)) == ["a"]


def test_a_stepped_wall_clock_fires_wall_timers_and_bounds_the_sleep():
    timers = Timers()
    timers.set("w", 10**18, "wall")
    assert timers.sleep_ns(Clocks(0, 5)) == WALL_LOOK_NS
    assert drain(timers, Clocks(0, 10**18 + 1)) == ["w"]
    assert timers.sleep_ns(Clocks(0, 0)) is None


def test_moving_a_timer_to_the_other_clock_disarms_it_on_the_first():
    timers = Timers()
    timers.set("x", 10)
    timers.set("x", 1000, "wall")
    assert drain(timers, Clocks(500, 0)) == []
    assert drain(timers, Clocks(500, 1000)) == ["x"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 50))), max_size=300))
def test_timers_agree_with_a_dictionary(script):
    timers = Timers()
    model: dict[str, int] = {}
    for now, (name, at) in enumerate(script):
        timers.set(name, at)
        if at is None:
            model.pop(name, None)
        else:
            model[name] = at
        assert len(timers) == len(model)
        due = {each for each, moment in model.items() if moment <= now}
        fired = drain(timers, Clocks(now, 0))
        assert sorted(fired) == sorted(due)
        assert [model[each] for each in fired] == sorted(model[each] for each in fired)
        for each in due:
            del model[each]
        expected = max(0, min(model.values()) - now) if model else None
        assert timers.sleep_ns(Clocks(now, 0)) == expected
    assert len(timers._mono) <= 64 + 8 * 3 + 1
