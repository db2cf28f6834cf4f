"""The compiled kernel of the search: the same answers as plain Python, with and without numba."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.checkers.linearizability import fast, kernel
from dethrone.checkers.linearizability import search as searching
from dethrone.checkers.linearizability.compact import compact
from dethrone.checkers.linearizability.decide import decide
from dethrone.checkers.linearizability.search import Bounds, Fits, GaveUp, Stuck, by_frontiers, search
from dethrone.checkers.models import model
from dethrone.checkers.models.ops import Op, encode
from tests.benchmarks.linear_histories import rows
from tests.checkers.linear_differential import drawn, encoded, frontiers

ROOT = Path(__file__).resolve().parents[2]


def history(n=300, *, clients=6, unknown=0.0, violation=False):
    made = rows("cas", n, clients=clients, unknown=unknown, violation=violation, seed=3)
    return encode([Op(**row) for row in made])


def compiled():
    pytest.importorskip("numba")
    return fast.load()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["register", "cas-register", "kv", "mutex", "set"]), st.booleans())
def test_kernel_and_plain_search_agree_on_any_small_history(number, name, narrow):
    made, strict, initial = drawn(name, "kernel", number)
    judged = model(name, strict_cas=strict, initial=initial)
    ops = encoded(name, made)
    groups = judged.groups(ops)
    for group in np.unique(groups):
        one = ops.take(groups == group)
        with frontiers(narrow=narrow):
            slow = by_frontiers(one, judged, Bounds())
            quick = fast.search(one, judged, Bounds(), engine=fast.plain)
        assert quick is None or type(quick) is type(slow)


@pytest.mark.slow
@pytest.mark.parametrize("violation", [False, True])
@pytest.mark.parametrize("unknown", [0.0, 0.05])
def test_compiled_and_plain_kernel_do_the_same_steps(violation, unknown):
    ops, judged = history(unknown=unknown, violation=violation), model("cas-register")
    quick = fast.search(ops, judged, Bounds(), engine=compiled())
    assert quick == fast.search(ops, judged, Bounds(), engine=fast.plain)
    assert isinstance(quick, Stuck if violation else Fits)


def test_a_violation_is_proven_by_the_same_return_with_and_without_the_kernel():
    ops, judged = history(violation=True), model("cas-register")
    quick, slow = fast.search(ops, judged, Bounds(), engine=fast.plain), by_frontiers(ops, judged, Bounds())
    assert isinstance(quick, Stuck)
    assert isinstance(slow, Stuck)
    assert (quick.row, quick.returns_done) == (slow.row, slow.returns_done)


def test_without_numba_the_answer_is_the_same():
    ops, judged = history(120, unknown=0.03, violation=True), model("cas-register")
    with (
        mock.patch.object(fast, "loaded", return_value=False),
        mock.patch.object(searching, "STEPS_TRIED", 1),
    ):
        with mock.patch.object(fast, "there", return_value=False):
            assert decide(ops, judged).outcome == "fail"
        with mock.patch.object(fast, "load", return_value=fast.plain):
            assert decide(ops, judged).outcome == "fail"


def test_the_kernel_stops_at_its_bounds_and_says_how_far_it_came():
    ops, judged = history(unknown=0.05), model("cas-register")
    assert fast.search(ops, judged, Bounds(memory_bytes=1), engine=fast.plain).reason == "out of memory"
    assert fast.search(ops, judged, Bounds(time_ns=0, elapsed=lambda: 1), engine=fast.plain).reason == "out of time"
    found = fast.search(ops, judged, Bounds(steps=50), engine=fast.plain)
    assert isinstance(found, GaveUp)
    assert (found.reason, found.returns_done < found.returns) == ("out of steps", True)


def test_too_many_open_at_once_is_left_to_the_plain_search():
    open_at_once = [Op(f="write", process=at, value=at % 3, call=at, ret=1000 + at) for at in range(kernel.SLOTS + 1)]
    ops, judged = encode(open_at_once), model("register")
    assert fast.search(ops, judged, Bounds(), engine=fast.plain) is None
    assert isinstance(search(ops, judged, Bounds()), Fits)


def test_unknown_operations_that_nobody_needs_are_left_out():
    made = [
        Op(f="write", process=0, value=1, call=0, ret=1),
        Op(f="write", process=1, value=2, call=2, status="info"),
        Op(f="write", process=2, value=3, call=3, status="info"),
        Op(f="read", process=0, output=2, call=4, ret=5),
    ]
    arrays = compact(encode(made), model("register"), (0,))
    assert arrays is not None
    assert arrays.rows.tolist() == [0, 1, 3]


def test_bits_are_counted():
    assert [kernel.bit_count(word) for word in (0, 1, 0b1011, (1 << 62) - 1)] == [0, 1, 3, 62]


def test_small_histories_are_judged_without_numba():
    program = (
        "import sys; from dethrone.checkers.linearizability.decide import decide; from dethrone.checkers.models import "
        "model; "
        "from dethrone.checkers.models.ops import Op, encode; "
        "made = [Op(f='cas', process=0, value=(at, at + 1), call=2 * at, ret=2 * at + 1) for at in range(500)]; "
        "print(decide(encode(made), model('cas-register', initial=0)).outcome, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["pass", "False"], done.stderr


def test_where_no_directory_can_keep_it_numba_compiles_it_all_the_same():
    numba = pytest.importorskip("numba")
    ops, judged = history(unknown=0.05), model("cas-register")

    def njit(*, cache=False, **options):  # compiling takes twenty seconds, and what is compiled is the same
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    with mock.patch.object(numba, "njit", njit):
        engine = fast.load.__wrapped__()
    assert fast.search(ops, judged, Bounds(), engine=engine) == fast.search(ops, judged, Bounds(), engine=fast.plain)


def test_room_for_configurations_grows_without_changing_the_answer():
    ops, judged = history(clients=12, violation=True), model("cas-register")
    wide = fast.search(ops, judged, Bounds(), engine=fast.plain)
    with mock.patch.object(fast, "ROWS_LEAST", 1):
        narrow = fast.search(ops, judged, Bounds(), engine=fast.plain)
    assert isinstance(wide, Stuck)
    assert (wide.row, wide.states, wide.returns_done) == (narrow.row, narrow.states, narrow.returns_done)


def test_an_old_answer_after_a_write_is_proven_by_the_two():
    made = [
        Op(f="write", process=0, value=1, call=0, ret=1),
        Op(f="write", process=1, value=1, call=2, ret=3),
        *(Op(f="read", process=2, output=1, call=4 + 2 * at, ret=5 + 2 * at) for at in range(5)),
        Op(f="write", process=1, value=2, call=20, ret=21),
        Op(f="read", process=0, output=1, call=22, ret=23),
        Op(f="write", process=1, value=2, call=24, ret=25),
    ]
    (violation,) = decide(encode(made), model("register")).violations
    assert violation.ops == (7, 8)


def test_an_old_answer_is_no_proof_where_somebody_may_have_written_it_again():
    made = [
        Op(f="write", process=0, value=1, call=0, ret=1),
        Op(f="write", process=1, value=1, call=2, status="info"),
        Op(f="write", process=2, value=2, call=4, ret=5),
        Op(f="read", process=0, output=1, call=6, ret=7),
    ]
    assert decide(encode(made), model("register")).outcome == "pass"
    again = [
        *made,
        Op(f="write", process=2, value=2, call=8, ret=9),
        Op(f="read", process=0, output=1, call=10, ret=11),
    ]
    (violation,) = decide(encode(again), model("register")).violations
    assert len(violation.ops) > 2
