"""Generators made of generators, driven in virtual time without any thread."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.harness.engine.run.op_pacing import OpPump
from dethrone.workloads.combinators import (
    Changed,
    Choice,
    Cycle,
    Delay,
    EachProcess,
    FlipFlop,
    Forever,
    Kept,
    Limit,
    Ops,
    PerKey,
    Phases,
    Reserve,
    Sleep,
    Soonest,
    Stagger,
    TimeLimit,
    Until,
)

VIEW = ClusterView(nodes=("n1",), leader="n1", roles={}, terms={}, state=healthy_cluster(("n1",)))


def op(f="a", value=None):
    return OpPlan(f=f, value=value, target="n1")


def ops(f, number):
    return Ops([op(f, at) for at in range(number)])


def forever(f="a"):
    return Forever(lambda _: op(f))


class Told:
    """Endless; remembers what it was told to have returned."""

    def __init__(self, f="a"):
        self.f, self.heard, self.made = f, [], []

    def next(self, process, _now, _view):
        self.made.append((process, len(self.made)))
        return op(self.f, len(self.made) - 1)

    def returned(self, process, plan, _result):
        self.heard.append((process, plan.value))


def drive(generator, *, processes=3, for_ms=1000, took_ms=7, status=lambda _plan: "ok"):
    """What the engine's own pump makes of it: (ms, thread, plan) of each operation; and whether all was over."""
    pump, out, running = OpPump(processes=processes, rate_per_s=0), [], []
    pump.use(generator)
    for now in range(0, for_ms * MS, MS):
        for entry in [entry for entry in running if entry[0] <= now]:
            running.remove(entry)
            pump.returned(Return(seq=0, t=now, op=entry[1], status=status(entry[2]), node="n1"))
        for number, _, thread, plan in pump.due(now, VIEW):
            out.append((now // MS, thread, plan))
            running.append((now + took_ms * MS, number, plan))
    return out, pump.exhausted


def words(out):
    return [plan.f for _, _, plan in out]


def test_phases_do_not_overlap_even_where_operations_take_their_time():
    out, over = drive(Phases([ops("a", 4), Sleep(50 * MS), ops("b", 3)], processes=3), took_ms=20)
    assert (words(out), over) == (["a"] * 4 + ["b"] * 3, True)
    assert min(at for at, _, plan in out if plan.f == "b") >= max(at for at, _, plan in out if plan.f == "a") + 70


def test_phases_of_reserved_processes_wait_for_those_only():
    phases = Phases([ops("a", 2), ops("b", 2)], processes=5, askers=2)
    out, _ = drive(Reserve([(2, phases)], forever("rest"), processes=5), processes=5, status=lambda _: "info")
    assert [f for f in words(out) if f != "rest"] == ["a", "a", "b", "b"]
    assert {thread for _, thread, plan in out if plan.f != "rest"} <= {0, 1}


def test_a_time_limit_counts_from_the_first_question_and_wakes_nobody_later():
    out, over = drive(Phases([Sleep(100 * MS), TimeLimit(50 * MS, forever()), ops("b", 1)], processes=3))
    times = [at for at, _, plan in out if plan.f == "a"]
    assert (min(times) >= 100, max(times) < 165, words(out)[-1], over) == (True, True, "b", True)
    assert TimeLimit(10, Sleep(SECOND)).next(0, 5, VIEW) == 15


def test_limit_counts_operations_over_all_processes():
    out, over = drive(Limit(5, forever()))
    assert (len(out), over) == (5, True)


def test_until_ends_with_the_return_that_was_waited_for():
    seen = count()
    out, over = drive(Until(lambda plan, result: result.status == "ok" and next(seen) == 3, forever()), processes=1)
    assert (len(out), over) == (4, True)


def test_stagger_is_the_mean_and_no_metronome_and_delay_is_one():
    out, _ = drive(Stagger(Rng(1), 10 * MS, forever()), processes=10, for_ms=5000, took_ms=1)
    gaps = [b[0] - a[0] for a, b in pairwise(out)]
    assert 9 < sum(gaps) / len(gaps) < 12
    assert len(set(gaps)) > 10
    out, _ = drive(Delay(10 * MS, forever()), processes=10, for_ms=500, took_ms=1)
    assert {b[0] - a[0] for a, b in pairwise(out)} == {10}


def test_a_cycle_begins_anew_and_an_empty_one_ends():
    assert words(drive(Cycle(lambda: Ops([op("a"), op("b")]), times=2), processes=1)[0]) == ["a", "b", "a", "b"]
    assert drive(Cycle(lambda: Ops([])))[1]


@given(st.integers(0, 2**64 - 1))
def test_a_choice_is_by_weight_and_goes_on_with_what_is_left(seed):
    out, over = drive(Choice(Rng(seed), [(1, ops("a", 20)), (3, ops("b", 60))]), for_ms=400)
    assert (Counter(words(out)), over) == ({"a": 20, "b": 60}, True)


def test_weights_are_kept():
    out, _ = drive(Choice(Rng(1), [(1, forever("a")), (3, forever("b"))]), for_ms=6000)
    assert 0.2 < words(out).count("a") / len(out) < 0.3


def test_the_soonest_is_asked_and_the_earliest_moment_told():
    late, early = Sleep(90), Sleep(40)
    assert Soonest([late, early]).next(0, 0, VIEW) == 40
    assert Soonest([late, ops("a", 1)]).next(0, 1, VIEW) == op("a", 0)
    assert Soonest([]).next(0, 0, VIEW) is None


def test_flip_flop_takes_turns_and_ends_with_the_shortest():
    assert words(drive(FlipFlop([forever("a"), ops("b", 2)]), processes=1)[0]) == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize("status", ["ok", "info"])
def test_reserved_processes_do_only_what_they_are_reserved_for_whatever_their_numbers_become(status):
    parts = Reserve([(1, forever("a")), (2, forever("b"))], forever("c"), processes=5)
    out, _ = drive(parts, processes=5, status=lambda _: status)
    assert {(thread, plan.f) for _, thread, plan in out} == {(0, "a"), (1, "b"), (2, "b"), (3, "c"), (4, "c")}
    with pytest.raises(ConfigError, match="reserved"):
        Reserve([(3, forever())], forever(), processes=2)


def test_each_process_has_its_own():
    out, over = drive(EachProcess(lambda who: ops(f"p{who}", who + 1), processes=3), status=lambda _: "info")
    assert (Counter(words(out)), over) == ({"p0": 1, "p1": 2, "p2": 3}, True)
    assert all(plan.f == f"p{thread}" for _, thread, plan in out)


@pytest.mark.parametrize("status", ["ok", "info"])
def test_groups_work_on_one_key_at_a_time_and_share_the_keys(status):
    keys = [f"k{number}" for number in range(6)]
    out, over = drive(PerKey(keys, lambda key: ops(key, 5), group=2, processes=5), processes=5, status=lambda _: status)
    assert (Counter(words(out)), over) == (dict.fromkeys(keys, 5), True)
    for key in keys:
        assert len({thread // 2 for _, thread, plan in out if plan.f == key}) == 1
    for group in (0, 1):
        mine = [plan.f for _, thread, plan in out if thread // 2 == group]
        assert len(mine) > 5
        assert sum(a != b for a, b in pairwise(mine)) == len(set(mine)) - 1
    assert all(thread < 4 for _, thread, _ in out)


def test_a_changed_operation_returns_as_it_was_made():
    inner = Told()
    out, _ = drive(Changed(lambda plan: op("x", [plan.value, "k"]), inner), for_ms=50, processes=1)
    assert [plan.value for _, _, plan in out][:2] == [[0, "k"], [1, "k"]]
    assert inner.heard[:2] == [(0, 0), (0, 1)]


def test_what_is_not_kept_is_dropped_and_told_as_failed():
    inner = Told()
    out, _ = drive(Kept(lambda plan: plan.value % 3 == 0, inner), for_ms=40, processes=1)
    assert [plan.value for _, _, plan in out][:3] == [0, 3, 6]
    assert [value for _, value in inner.heard][:5] == [0, 1, 2, 3, 4]
    assert isinstance(Kept(lambda _: False, forever()).next(0, 5, VIEW), int)


def test_every_return_goes_to_the_part_that_made_the_operation_and_to_nobody_else():
    a, b = Told("a"), Told("b")
    parts = Stagger(Rng(2), MS, Limit(60, Choice(Rng(3), [(1, a), (1, b)])))
    out, over = drive(parts, processes=4, status=lambda plan: "info" if plan.value % 2 else "ok")
    assert over
    for part in (a, b):
        assert sorted(value for _, value in part.heard) == list(range(len(part.made)))
        assert sorted(plan.value for _, _, plan in out if plan.f == part.f) == list(range(len(part.made)))


def test_a_return_of_an_earlier_phase_is_passed_to_nobody():
    inner = Told()
    Limit(5, inner).returned(0, op(), Return(seq=0, t=0, op=0, status="ok"))
    assert inner.heard == []


@given(st.integers(0, 2**64 - 1))
def test_the_same_seed_gives_the_same_operations_at_the_same_times(seed):
    def made():
        rng = Rng(seed)
        mixed = Choice(rng.stream("mix"), [(1, forever("a")), (2, forever("b"))])
        limited = TimeLimit(60 * MS, Stagger(rng.stream("pace"), 3 * MS, mixed))
        return drive(Phases([limited, ops("end", 2)], processes=3), for_ms=150)

    assert made() == made()
