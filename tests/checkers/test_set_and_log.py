"""Sets and logs: brute force agrees, and each planted anomaly is called by its name."""

from __future__ import annotations

import random  # noqa: TID251 - test data, drawn from a seed that is told

import pytest

from dethrone.checkers.log_reads import LogReads
from dethrone.checkers.set_reads import SetReads
from dethrone.harness.core.operations import ModelOptions
from tests.checkers.seen_oracles import MANY, linearizable, log_step, operations, random_ops, seeds, set_step

STALE = ModelOptions(stale_reads=True)


def kinds(model, ops, options=None, **changes):
    seen = model.see(operations(ops, **changes), options or ModelOptions())
    assert all(1 <= len(one.places) <= 8 for one in seen.anomalies)
    return {one.kind for one in seen.anomalies}


KEYS = ("process", "f", "value", "result", "invoked", "returned", "status")


def op(*values):
    return dict(zip(KEYS, values, strict=True))


def add(value, invoked, returned, status="ok", process=0):
    return op(process, "add", value, None, invoked, None if status == "info" else returned, status)


def append(value, invoked, returned, status="ok", *, process=0, index=None):
    return op(process, "append", value, index, invoked, None if status == "info" else returned, status)


def read(values, invoked, returned, process=1):
    return op(process, "read", None, values, invoked, returned, "ok")


def poll(pairs, invoked, returned, process=1, status="ok"):
    return op(process, "poll", None, pairs, invoked, None if status == "info" else returned, status)


def test_a_lost_value_is_missing_from_later_reads_however_many_values_they_show():
    ops = [append(1, 0, 1), append(2, 2, 3), append(3, 4, 5), read([1], 6, 7), read([1, 3], 8, 9)]
    lost, *_ = [one.sentence for one in LogReads().see(operations(ops), ModelOptions()).anomalies if one.kind == "lost"]
    assert "2 had been acknowledged" in lost
    assert lost.endswith("shows only 1 values without it; no later read shows it.")


def test_values_that_a_read_showed_are_lost_only_if_no_later_read_shows_all_of_them():
    ops = [append(number, 0, None, "info", process=number) for number in (1, 2, 3)]
    ops += [read([1, 2, 3], 1, 2), read([1], 3, 4), read([1, 2], 5, 6)]

    def sentences(*more):
        return [one.sentence for one in LogReads().see(operations([*ops, *more]), ModelOptions()).anomalies]

    assert [one.rpartition("; ")[2] for one in sentences() if one.startswith("lost")] == [
        "no later read shows all of them."
    ]
    later = sentences(read([1, 2, 3], 7, 8))
    assert later
    assert all(one.startswith("stale") and one.endswith("a later one shows all of them.") for one in later)


@pytest.mark.parametrize(("model", "write"), [(SetReads(), add), (LogReads(), append)])
def test_where_reads_may_be_old_only_those_at_the_end_are_evidence(model, write):
    ops = [write(1, 0, 1), read([1], 2, 3), write(2, 4, 5)]
    seen = model.see(operations(ops), STALE)
    assert not seen.judged
    assert "only those at the end count: none was asked" in seen.nothing
    assert model.see(operations([*ops, read([1, 2], 6, 7)]), STALE).judged


# --- brute force ------------------------------------------------------------------------------------------------


def _choose(write, values):
    def choose(rng, process):
        del process
        if rng.random() < 0.55:
            return {"f": write, "value": values(rng)}
        return {"f": "read", "value": None}

    return choose


def _answer(wild):
    def answer(rng):
        def told(state, op):
            if op["f"] != "read":
                return None
            values = list(state)
            if rng.random() < wild and values:
                change = rng.randrange(3)
                if change == 0:
                    values.pop(rng.randrange(len(values)))
                elif change == 1:
                    rng.shuffle(values)
                else:
                    values.append(rng.choice((*values, 99)))
            return values

        return told

    return answer


@pytest.mark.parametrize("block", range(4))
def test_a_set_is_passed_exactly_if_it_is_linearizable(block):
    outcomes = set()
    for seed in seeds(block):
        rng = random.Random(seed)
        ops = random_ops(
            rng,
            frozenset(),
            set_step,
            _choose("add", lambda rng: rng.randrange(6)),
            many=rng.randint(2, 8),
            answer=_answer(rng.choice((0, 0, 0.3)))(rng),
        )
        right = linearizable(ops, frozenset(), set_step)
        outcomes.add(right)
        assert (not kinds(SetReads(), ops)) == right, (seed, ops)
    assert MANY < 100 or outcomes == {True, False}


@pytest.mark.parametrize("block", range(4))
def test_a_log_is_passed_exactly_if_it_is_linearizable(block):
    outcomes = set()
    for seed in seeds(block):
        rng = random.Random(seed)
        numbers = iter(range(100))
        ops = random_ops(
            rng,
            (),
            log_step,
            _choose("append", lambda _: next(numbers)),  # noqa: B023 - used within this round only
            many=rng.randint(2, 8),
            answer=_answer(rng.choice((0, 0, 0.3)))(rng),
        )
        right = linearizable(ops, (), log_step)
        outcomes.add(right)
        assert (not kinds(LogReads(), ops)) == right, (seed, ops)
    assert MANY < 100 or outcomes == {True, False}


# --- planted: sets ----------------------------------------------------------------------------------------------

SETS = {
    "lost": [add(1, 0, 1), add(2, 2, 3), read([2], 4, 5)],
    "stale": [add(1, 0, 1), read([], 2, 3), read([1], 4, 5)],
    "diverged": [add(1, 0, 9), add(2, 1, 8, process=2), read([1], 3, 6), read([2], 4, 7, process=3)],
    "phantom": [add(1, 0, 1), read([1, 2], 2, 3)],
    "duplicate": [add(1, 0, 1), read([1, 1], 2, 3)],
}
SETS_GOOD = {
    "a read beside an add may lack it": [add(1, 0, 3), read([], 1, 2), read([1], 4, 5)],
    "an unknown add may be there": [add(1, 0, 0, "info"), read([1], 2, 3)],
    "or not": [add(1, 0, 0, "info"), read([], 2, 3)],
    "an element added twice is there once": [add(1, 0, 1), add(1, 2, 3), read([1], 4, 5)],
    "a failed add that was tried again": [add(1, 0, 1, "fail"), add(1, 2, 3), read([1], 4, 5)],
}


@pytest.mark.parametrize("kind", SETS)
def test_each_anomaly_of_a_set_has_its_name(kind):
    assert kinds(SetReads(), SETS[kind]) == {kind}


@pytest.mark.parametrize("name", SETS_GOOD)
def test_near_misses_of_a_set_pass(name):
    assert kinds(SetReads(), SETS_GOOD[name]) == set()


def test_a_failed_add_that_shows_up_is_a_phantom():
    assert kinds(SetReads(), [add(1, 0, 1, "fail"), read([1], 2, 3)]) == {"phantom"}


def test_an_element_read_before_it_was_asked_for_is_a_phantom():
    assert kinds(SetReads(), [read([1], 0, 1), add(1, 2, 3)]) == {"phantom"}


def test_only_the_order_of_two_adds_tells_that_a_read_is_stale():
    ops = [read([2], 0, 9), add(1, 1, 2), add(2, 3, 4, process=2)]
    assert kinds(SetReads(), ops) == {"stale"}


def test_where_reads_may_be_old_only_the_last_ones_tell_that_something_is_lost():
    old = [add(1, 0, 1), add(2, 2, 3), read([2], 4, 5), read([1, 2], 6, 7)]
    gone = [add(1, 0, 1), add(2, 2, 3), read([2], 4, 5), read([2], 6, 7)]
    assert kinds(SetReads(), old, STALE) == set()
    assert kinds(SetReads(), gone, STALE) == {"lost"}


def test_a_set_that_nobody_read_is_unknown():
    verdict = SetReads().judge(operations([add(1, 0, 1)]), ModelOptions())
    assert (verdict.outcome, "not exercised" in verdict.reason) == ("unknown", True)


def test_doubts_of_the_file_keep_a_verdict_from_pass_but_not_from_fail():
    good = SetReads().judge(operations([add(1, 0, 1), read([1], 2, 3)], doubts=("cut off",)), ModelOptions())
    bad = SetReads().judge(operations(SETS["lost"], doubts=("cut off",)), ModelOptions())
    assert (good.outcome, good.reason, bad.outcome) == ("unknown", "cut off", "fail")


def test_a_read_that_tells_no_list_is_a_doubt():
    verdict = SetReads().judge(operations([add(1, 0, 1), read(7, 2, 3), read([1], 4, 5)]), ModelOptions())
    assert verdict.outcome == "unknown"


# --- planted: logs ----------------------------------------------------------------------------------------------

LOGS = {
    "lost": [append(1, 0, 1), append(2, 2, 3), read([1], 4, 5)],
    "stale": [append(1, 0, 1), read([], 2, 3), read([1], 4, 5)],
    "duplicate": [append(1, 0, 1), read([1, 1], 2, 3)],
    "reordered": [append(1, 0, 1), append(2, 2, 3), read([2, 1], 4, 5)],
    "diverged": [append(1, 0, 8), append(2, 1, 9, process=2), read([1, 2], 3, 6), read([2], 4, 7, process=3)],
    "phantom": [append(1, 0, 1), read([1, 7], 2, 3)],
    "gap": [
        append(1, 0, 1, index=0),
        append(2, 2, 3, index=1),
        append(3, 4, 5, index=2),
        poll([[0, 1], [1, 2], [2, 3]], 6, 7, process=1),
        poll([[0, 1]], 8, 9, process=2),
        poll([[2, 3]], 10, 11, process=2),
    ],
}
LOGS_GOOD = {
    "an unknown append may stand anywhere": [append(1, 0, 0, "info"), append(2, 2, 3, process=2), read([2, 1], 4, 5)],
    "two appends at once in any order": [append(1, 0, 3), append(2, 1, 2, process=2), read([2, 1], 4, 5)],
    "indices that nobody knows are no gap": [
        append(1, 0, 1, index=0),
        append(2, 2, 3, index=5),
        poll([[0, 1], [5, 2]], 6, 7),
    ],
    "a reader that was set back reads again": [
        append(1, 0, 1, index=0),
        poll([[0, 1]], 2, 3),
        op(1, "seek", 0, None, 4, 5, "ok"),
        poll([[0, 1]], 6, 7),
    ],
    "after an unknown poll a reader may be anywhere": [
        append(1, 0, 1, index=0),
        append(2, 2, 3, index=1),
        append(3, 4, 5, index=2),
        poll([[0, 1]], 6, 7),
        poll(None, 8, 0, status="info"),
        poll([[2, 3]], 10, 11),
        poll([[1, 2]], 12, 13, process=4),
    ],
}


@pytest.mark.parametrize("kind", LOGS)
def test_each_anomaly_of_a_log_has_its_name(kind):
    assert kinds(LogReads(), LOGS[kind]) == {kind}


@pytest.mark.parametrize("name", LOGS_GOOD)
def test_near_misses_of_a_log_pass(name):
    assert kinds(LogReads(), LOGS_GOOD[name]) == set()


def test_two_values_at_one_index_have_diverged():
    ops = [append(1, 0, 1, index=4), append(2, 2, 3, index=4)]
    assert "diverged" in kinds(LogReads(), ops)


def test_a_value_at_two_indices_is_a_duplicate():
    ops = [append(1, 0, 1, index=4), poll([[5, 1]], 2, 3)]
    assert kinds(LogReads(), ops) == {"duplicate"}


def test_indices_that_fall_in_real_time_are_reordered():
    ops = [append(1, 0, 1, index=4), append(2, 2, 3, index=3), poll([[3, 2], [4, 1]], 4, 5)]
    assert kinds(LogReads(), ops) == {"reordered"}


def test_a_reader_that_goes_back_is_reordered():
    ops = [append(1, 0, 1, index=0), append(2, 2, 3, index=1), poll([[0, 1], [1, 2]], 4, 5), poll([[0, 1]], 6, 7)]
    assert kinds(LogReads(), ops) == {"reordered"}


def test_what_every_reader_passes_by_is_lost():
    ops = [
        append(1, 0, 1, index=0),
        append(2, 2, 3, index=1),
        append(3, 4, 5, index=2),
        poll([[0, 1], [2, 3]], 6, 7),
    ]
    assert "lost" in kinds(LogReads(), ops)


def test_what_no_reader_came_to_is_not_lost():
    ops = [append(1, 0, 1, index=0), append(2, 2, 3, index=1), poll([[0, 1]], 6, 7)]
    assert kinds(LogReads(), ops) == set()


def test_old_reads_of_a_log_are_counted_where_they_are_allowed():
    seen = LogReads().see(operations(LOGS["stale"]), STALE)
    assert (list(seen.anomalies), [one.kind for one in seen.tolerated]) == ([], ["stale"])


def test_the_order_of_appends_is_judged_even_where_reads_may_be_old():
    assert kinds(LogReads(), LOGS["reordered"], STALE) == {"reordered"}


def test_values_that_were_appended_twice_are_a_doubt():
    ops = [append(1, 0, 1), append(1, 2, 3), read([1, 1], 4, 5)]
    verdict = LogReads().judge(operations(ops), ModelOptions())
    assert verdict.outcome == "unknown"
