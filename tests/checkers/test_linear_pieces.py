"""Registers that are judged piece by piece: the same verdicts as on the whole, in memory that does not grow."""

from __future__ import annotations

import os
import random  # noqa: TID251 - test data, drawn from a seed that is an argument

import msgspec
import pytest

from dethrone.checkers import linear_pieces
from dethrone.checkers.linear_models import KV, _row
from dethrone.checkers.linear_pieces import cut_of
from dethrone.checkers.linearizability.decide import decide
from dethrone.checkers.models import model
from dethrone.checkers.models.ops import encode
from dethrone.harness.core.operations import NEVER, ModelOptions, Operation
from tests.checkers import linear_random

HISTORIES = int(os.environ.get("DETHRONE_LINEAR_HISTORIES", "300"))


def operation(f, value, call, ret=None, *, result=None, key="x", status="ok"):
    known = ret is not None
    return Operation(
        process=0,
        f=f,
        value=value,
        result=result,
        status=status if known else "info",
        invoked=call,
        returned=ret if known else NEVER,
        key=key,
    )


def drawn(seed, most):
    """Operations of a random history, in the order of their calls, with places instead of times."""
    rng = random.Random(seed)
    rows = linear_random.rows("kv", rng, most=most)
    moments = sorted(
        [(row["call"], 0, at) for at, row in enumerate(rows)]
        + [(row["ret"], 1, at) for at, row in enumerate(rows) if row["ret"] is not None]
    )
    place = {(at, is_return): number for number, (_, is_return, at) in enumerate(moments)}
    made = [
        operation(
            row["f"],
            row["value"],
            place[at, 0],
            place[at, 1] if row["ret"] is not None and row["status"] != "info" else None,
            result=row["output"],
            key=row["key"],
            status=row["status"],
        )
        for at, row in enumerate(rows)
    ]
    return sorted(made, key=lambda op: op.invoked)


@pytest.fixture
def few(monkeypatch):
    """Registers are cut as soon as two operations wait; how often they were."""
    monkeypatch.setattr(linear_pieces, "OPERATIONS_WAITING", 2)
    cuts = []

    def counted(*args, **named):
        cut = cut_of(*args, **named)
        cuts.append(cut is not None)
        return cut

    monkeypatch.setattr(linear_pieces, "cut_of", counted)
    return cuts


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("most", [12, 60])
def test_random_histories_in_pieces_get_the_verdicts_that_they_get_whole(strict, most, few):
    options = ModelOptions(strict_cas=strict)
    bad = 0
    for seed in range(HISTORIES):
        rows = drawn(f"{most}-{seed}", most)
        whole = decide(encode(list(map(_row, rows))), model("kv", strict_cas=strict))
        seen = KV.found_in(rows, options)
        assert len(seen.anomalies) == len(whole.violations), seed
        assert seen.evidence.get("bad_objects", 0) == whole.bad_objects, seed
        assert (seen.judged, seen.evidence["objects"]) == (len(rows), whole.objects), seed
        assert {one.data["key"] for one in seen.anomalies} == {one.key for one in whole.violations}, seed
        for one in seen.anomalies:
            assert all(op in rows for op in one.proof), "as it was, not as a piece begins"
        bad += whole.bad_objects
    assert bad > HISTORIES // 10
    assert sum(few) > HISTORIES // 4, "nothing was cut"


def test_an_operation_alone_ends_a_piece_and_begins_the_next_as_a_write():
    rows = [operation("put", 1, 0, 1), operation("get", None, 2, 3, result=1), operation("put", 2, 4, 6)]
    cut = cut_of(rows, now=5, initial=None)
    assert cut.first == rows[:2]
    assert cut.later == [msgspec.structs.replace(rows[1], f="write", value=1, result=None), rows[2]]
    assert cut_of(cut.later, now=5, initial=None) is None
    assert cut_of(cut.later, now=7, initial=None).first == cut.later


@pytest.mark.parametrize(
    ("shown", "first", "unseen"),
    [
        pytest.param(9, [0, 1, 2, 3], [], id="seen: it took effect there"),
        pytest.param(1, [0, 2, 3], [1], id="not seen: it may take effect later"),
        pytest.param(7, None, None, id="seen, but two may have written it"),
    ],
)
def test_an_operation_of_unknown_outcome_goes_to_the_piece_in_which_it_took_effect(shown, first, unseen):
    value = 1 if shown == 7 else 9
    rows = [
        operation("put", 1, 0, 1),
        operation("put", value, 2),
        operation("get", None, 3, 4, result=1 if shown == 7 else shown),
        operation("put", 3, 5, 6),
    ]
    cut = cut_of(rows, now=7, initial=None)
    if first is None:
        assert cut is None
        return
    assert cut.first == [rows[at] for at in first]
    assert cut.unseen == [rows[at] for at in unseen]
    assert [op.invoked for op in cut.later] == sorted([5, *(rows[at].invoked for at in unseen)])


def test_equal_numbers_are_one_register_and_one_value_in_pieces_too(few):
    rows = [operation("put", 1, 2 * n, 2 * n + 1, key=1 if n % 2 else 1.0) for n in range(9)]
    rows += [operation("put", 5.0, 18), operation("get", None, 19, 20, result=5, key="x")]
    seen = KV.found_in(rows, ModelOptions())
    assert (seen.evidence["objects"], list(seen.anomalies)) == (2, [])
    assert any(few)


def test_a_violation_across_pieces_names_the_operation_that_the_piece_begins_with(few):
    rows = [operation("put", n, 2 * n, 2 * n + 1) for n in range(8)]
    rows.append(operation("get", None, 16, 17, result=2))
    (one,) = KV.found_in(rows, ModelOptions()).anomalies
    assert {op.invoked for op in one.proof} & {16}
    assert any(few)


def test_of_many_violated_registers_a_few_are_proven_and_all_are_counted(few):
    rows = []
    for n in range(30):
        for f, value in (("put", 1), ("put", 2), ("get", 1)):
            at = 2 * len(rows)
            asked, told = (None, value) if f == "get" else (value, None)
            rows.append(operation(f, asked, at, at + 1, result=told, key=f"k{n}"))
    seen = KV.found_in(rows, ModelOptions())
    assert (len(seen.anomalies), seen.evidence["bad_objects"], seen.evidence["objects"]) == (20, 30, 30)
    assert any(few)


def test_memory_does_not_grow_with_the_history_of_a_register_that_is_read_alone(monkeypatch):
    most = []
    original = linear_pieces.Pieces._look

    def looked(self, now):
        most.append(self._count)
        original(self, now)
        assert self._count < 10

    monkeypatch.setattr(linear_pieces.Pieces, "_look", looked)
    monkeypatch.setattr(linear_pieces, "OPERATIONS_WAITING", 500)
    rows = (operation("put", n, 2 * n, 2 * n + 1, key=f"k{n % 3}") for n in range(20_000))
    seen = KV.found_in(rows, ModelOptions())
    assert (seen.judged, seen.evidence["objects"], list(seen.anomalies)) == (20_000, 3, [])
    assert max(most) == 500
    assert len(most) > 30


def test_a_register_without_a_moment_to_cut_at_is_undecided_beyond_the_bound_and_the_others_are_judged(monkeypatch):
    monkeypatch.setattr(linear_pieces, "OPERATIONS_WAITING", 50)
    hot = [operation("put", n, 4 * n, 4 * n + 6, key="hot") for n in range(200)]
    calm = [operation("put", n, 4 * n + 1, 4 * n + 3, key="calm") for n in range(200)]
    stale = [operation("get", None, 900, 901, key="calm", result=3)]
    rows = sorted([*hot, *calm], key=lambda op: op.invoked)
    found = KV.found_in(rows, ModelOptions(), waiting_bytes_max=20_000)
    (doubt,) = found.doubts
    assert doubt == (
        "out of memory (0.02 MB; --memory raises the limit): 40 returns wait for a moment at which one operation was"
        " alone (key 'hot')"
    )
    assert not found.anomalies
    assert len(KV.found_in([*rows, *stale], ModelOptions(), waiting_bytes_max=20_000).anomalies) == 1
