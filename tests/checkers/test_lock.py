"""Locks: certain holds against a definition tried moment by moment; each planted anomaly by its name."""

from __future__ import annotations

import random  # noqa: TID251 - test data, drawn from a seed that is told

import msgspec
import pytest

from dethrone.checkers.lock_holds import LockHolds
from dethrone.harness.core.clock import MS
from dethrone.harness.core.operations import ModelOptions
from tests.checkers.seen_oracles import MANY, operations, seeds, timed

KEYS = ("process", "f", "value", "result", "invoked", "returned", "status")


def op(f, process, invoked, returned, *rest, value=None):
    result, status = (*rest, *(None, "ok")[len(rest) :])
    returned = None if status == "info" else returned
    return dict(zip(KEYS, (process, f, value, result, invoked, returned, status), strict=True))


def acquire(*args, **named):
    return op("acquire", *args, **named)


def release(*args, **named):
    return op("release", *args, **named)


def kinds(ops, **options):
    return {one.kind for one in LockHolds().see(operations(ops), ModelOptions(**options)).anomalies}


PLANTED = {
    "overlap": [acquire(0, 0, 1), acquire(1, 2, 3)],
    "token": [acquire(0, 0, 1, 5), release(0, 2, 3), acquire(1, 4, 5, 4)],
    "fencing": [acquire(0, 0, 1, 5), op("use", 0, 2, 3, value=5), op("use", 1, 4, 5, value=4)],
    "not-held": [release(0, 0, 1), acquire(0, 2, 3)],
}
GOOD = {
    "one after the other": [acquire(0, 0, 1), release(0, 2, 3), acquire(1, 4, 5)],
    "a release on its way may have freed it": [acquire(0, 0, 1), release(0, 2, 9), acquire(1, 3, 4)],
    "a release that nobody answered may have freed it": [
        acquire(0, 0, 1),
        release(0, 2, 0, None, "info"),
        acquire(1, 3, 4),
    ],
    "an unknown acquire holds possibly, not certainly": [acquire(0, 0, 0, None, "info"), acquire(1, 1, 2)],
    "a failed acquire holds nothing": [acquire(0, 0, 1), acquire(1, 2, 3, None, "fail")],
    "a failed release ends nothing, and nothing else happens": [acquire(0, 0, 1), release(0, 2, 3, None, "fail")],
    "tokens asked for at the same time may come in any order": [
        acquire(0, 0, 8, 6),
        release(1, 1, 3, None, "info"),
        acquire(1, 4, 5, 7, value=["a"]),
        release(1, 6, 7, value=["a"]),
    ],
    "a release beside the question for the lock": [release(0, 0, 5, value=["a"]), acquire(1, 1, 4, value=["a"])],
    "a lower token was used before": [op("use", 0, 0, 1, value=4), op("use", 1, 2, 3, value=5)],
    "a lower token was refused": [op("use", 0, 0, 1, value=5), op("use", 1, 2, 3, None, "fail", value=4)],
}


@pytest.mark.parametrize("kind", PLANTED)
def test_each_anomaly_has_its_name(kind):
    assert kinds(PLANTED[kind]) == {kind}


@pytest.mark.parametrize("name", GOOD)
def test_near_misses_pass(name):
    assert kinds(GOOD[name]) == set()


def test_two_owners_that_were_told_one_token():
    assert kinds([acquire(0, 0, 3, 5), release(0, 4, 5), acquire(1, 1, 8, 5), release(1, 9, 10)]) == {"token"}


def test_who_was_superseded_cannot_renew():
    ops = [acquire(0, 0, 1, 5), release(0, 2, 3), acquire(1, 4, 5, 6), release(1, 6, 7), op("renew", 0, 8, 9, 5)]
    assert kinds(ops) == {"token"}


def lease(process, invoked_ms, returned_ms, ttl_ms, token=None):
    return acquire(process, invoked_ms * MS, returned_ms * MS, token, value=[f"c{process}", ttl_ms])


def test_a_lease_is_counted_from_the_question():
    assert kinds([lease(0, 0, 5, 20), lease(1, 21, 22, 20)]) == set()
    assert kinds([lease(0, 0, 5, 20), lease(1, 18, 19, 20)]) == {"overlap"}


def test_clocks_that_may_drift_shorten_a_lease():
    ops = [lease(0, 0, 5, 20), lease(1, 18, 19, 20)]
    assert kinds(ops, drift_ppm_max=100_000) == set()
    assert kinds(ops, drift_ppm_max=10_000) == {"overlap"}


def test_a_lease_without_times_is_never_certain():
    rows = operations([lease(0, 0, 5, 20), lease(1, 7, 8, 20)])
    blind = rows.each(lambda row: msgspec.structs.replace(row, invoked_ns=-1, returned_ns=-1))
    verdict = LockHolds().judge(blind, ModelOptions())
    assert (verdict.outcome, "certainly held" in verdict.reason) == ("unknown", True)


def test_an_acquire_that_failed_while_nobody_can_have_held_is_counted():
    seen = LockHolds().see(
        operations([acquire(0, 0, 1, None, "fail"), acquire(0, 2, 3), acquire(1, 4, 5, None, "fail")]), ModelOptions()
    )
    assert seen.metrics == {"refused_while_free": 1}


@pytest.mark.parametrize("value", [["a", "b"], ["a", -1], ["a", True], 7, {"a": 1}])
def test_what_cannot_be_understood_is_a_doubt(value):
    verdict = LockHolds().judge(operations([acquire(0, 0, 1), acquire(1, 2, 3, value=value)]), ModelOptions())
    assert verdict.outcome == "unknown"


# --- the definition, moment by moment ---------------------------------------------------------------------------


def certainly_holds(ops, owner, at) -> bool:
    """Whether the owner holds at this moment whatever became of all that is unknown."""
    mine = [op for op in ops if op["value"][0] == owner and op["status"] != "fail"]
    for ask in mine:
        if ask["f"] == "release" or ask["status"] != "ok" or ask["returned"] > at:
            continue
        others = [
            one for one in mine if one["invoked"] < at and (one["returned"] is None or one["returned"] > ask["invoked"])
        ]
        if any(one["f"] == "release" for one in others):
            continue
        ends = [max(ask["invoked"], one["invoked"]) + one["value"][1] for one in others if len(one["value"]) > 1]
        if all(at < end for end in ends):
            return True
    return False


def random_locks(rng):
    ops, free = [], [0.0] * 3
    for _ in range(rng.randint(2, 7)):
        process = rng.randrange(3)
        begin = free[process] + rng.random()
        end = begin + rng.random() * 2
        free[process] = end
        f = rng.choice(("acquire", "acquire", "renew", "release"))
        owner = rng.choice("ab") if rng.random() < 0.2 else "abc"[process]
        value = [owner] if f == "release" or rng.random() < 0.5 else [owner, rng.randint(0, 12)]
        status = rng.choice(("ok", "ok", "ok", "info", "fail"))
        ops.append(
            {
                "process": process,
                "f": f,
                "value": value,
                "result": None,
                "status": status,
                "begin": begin,
                "end": end,
            }
        )
    return timed(ops)


@pytest.mark.parametrize("block", range(4))
def test_holds_overlap_exactly_if_two_owners_certainly_hold_at_some_moment(block):
    outcomes = set()
    for seed in seeds(block):
        ops = random_locks(random.Random(seed))
        last = max(op["invoked"] for op in ops) + 20
        wrong = any(sum(certainly_holds(ops, owner, at + 0.5) for owner in "abc") > 1 for at in range(last))
        outcomes.add(wrong)
        rows = operations(ops)
        timed_rows = rows.each(
            lambda row: msgspec.structs.replace(
                row,
                invoked_ns=row.invoked * MS,
                returned_ns=-1 if row.returned_ns < 0 else row.returned * MS,
            )
        )
        found = {one.kind for one in LockHolds().see(timed_rows, ModelOptions()).anomalies}
        assert ("overlap" in found) == wrong, (seed, ops)
    assert MANY < 100 or outcomes == {True, False}
