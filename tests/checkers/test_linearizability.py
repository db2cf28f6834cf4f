"""The linearizability engines: against the definition on random histories, and on histories told one by one."""

from __future__ import annotations

import os
import random  # noqa: TID251 - a fresh seed each time, printed
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.checkers.linearizability import decide as door
from dethrone.checkers.linearizability.answer import Budget
from dethrone.checkers.linearizability.decide import decide
from dethrone.checkers.models import model
from dethrone.checkers.models.ops import Op, encode
from dethrone.harness.core.errors import ConfigError, HistoryError
from tests.checkers.linear_differential import MODELS, difference, run

HISTORIES = int(os.environ.get("DETHRONE_LINEAR_HISTORIES", "300"))


def told(*ops, sets=False):
    """("write 1", call, ret) …: ``-`` in front: unknown, ``!``: failed; ``read 1`` answers 1."""
    rows = []
    for number, (text, call, ret) in enumerate(ops):
        status = {"-": "info", "!": "fail"}.get(text[0], "ok")
        f, *words = text.lstrip("-!").split()
        values = [None if word == "nil" else word if not word.isdigit() else int(word) for word in words]
        asked = f in ("write", "enqueue", "add", "remove", "cas", "contains")
        value = (values if f == "cas" else values[0]) if asked else None
        output = values if sets and f == "read" else values[-1] if values and not asked else None
        if f in ("contains", "remove", "add") and len(values) > 1:
            output = values[1] == "yes"
        rows.append(Op(f=f, process=number, value=value, output=output, call=call, ret=ret, status=status))
    return encode(rows, sets=sets)


def outcome(name, *ops, **options):
    return decide(told(*ops, sets=name == "set"), model(name, **options)).outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_engine_says_what_the_definition_says(name):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"python tests/checkers/linear_differential.py --seed {seed} --histories {HISTORIES} {name}")
    wrong, tally = run(name, HISTORIES, seed)
    assert not wrong
    if HISTORIES >= 200:
        assert tally["linearizable"] > HISTORIES // 20
        assert tally["not"] > HISTORIES // 20


@st.composite
def registers(draw):
    """A few operations on one register, anything goes."""
    value = st.sampled_from([None, 1, 2, 3])
    rows = []
    for _ in range(draw(st.integers(1, 7))):
        f = draw(st.sampled_from(["read", "write", "cas"]))
        status = draw(st.sampled_from(["ok", "ok", "ok", "info", "fail"]))
        call = draw(st.integers(0, 12))
        rows.append(
            {
                "f": f,
                "key": "k",
                "value": draw(value) if f == "write" else [draw(value), draw(value)] if f == "cas" else None,
                "output": draw(value) if f == "read" and status == "ok" else None,
                "call": call,
                "ret": None if status == "info" and draw(st.booleans()) else call + draw(st.integers(0, 6)),
                "status": status,
            }
        )
    return rows


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(registers(), st.booleans(), st.sampled_from([None, 1]))
def test_registers_that_do_anything_are_judged_by_the_definition(rows, strict, initial):
    assert difference("cas-register", rows, strict=strict, initial=initial, tally=Counter()) == ""


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        (
            "register",
            [("write 1", 0, 1), ("write 2", 2, 3), ("read 1", 4, 5)],
            [("write 1", 0, 1), ("write 2", 2, 4), ("read 1", 3, 5)],
        ),
        ("register", [("read 7", 0, 1)], [("-write 7", 0, None), ("read 7", 2, 3)]),
        ("register", [("!write 1", 0, 1), ("read 1", 2, 3)], [("-write 1", 0, 1), ("read 1", 2, 3), ("read 1", 4, 5)]),
        (
            "register",
            [("-write 1", 0, None), ("write 2", 1, 2), ("read 1", 3, 4), ("read 2", 5, 6)],
            [("-write 1", 0, None), ("write 2", 1, 2), ("read 2", 3, 4), ("read 1", 5, 6)],
        ),
        (
            "cas-register",
            [("write 1", 0, 1), ("cas 1 2", 2, 3), ("cas 1 3", 4, 5)],
            [("write 1", 0, 1), ("cas 1 2", 2, 3), ("cas 2 3", 4, 5), ("read 3", 6, 7)],
        ),
        (
            "mutex",
            [("acquire", 0, 1), ("acquire", 2, 3)],
            [("acquire", 0, 1), ("-release", 2, None), ("acquire", 3, 4)],
        ),
        (
            "fifo-queue",
            [("enqueue 1", 0, 1), ("enqueue 2", 2, 3), ("dequeue 2", 4, 5), ("dequeue 1", 6, 7)],
            [("enqueue 1", 0, 2), ("enqueue 2", 1, 3), ("dequeue 2", 4, 5), ("dequeue 1", 6, 7)],
        ),
        (
            "fifo-queue",
            [("enqueue 1", 0, 1), ("dequeue", 2, 3), ("dequeue 1", 4, 5)],
            [("enqueue 1", 0, 3), ("dequeue", 1, 2), ("dequeue 1", 4, 5)],
        ),
        (
            "fifo-queue",
            [("enqueue 1", 0, 1), ("enqueue 2", 2, 3), ("dequeue 2", 4, 5), ("-dequeue", 6, None)],
            [("enqueue 1", 0, 1), ("enqueue 2", 2, 3), ("-dequeue", 4, None), ("dequeue 2", 5, 6)],
        ),
        (
            "set",
            [("add 1", 0, 1), ("add 2", 2, 3), ("read 2", 4, 5)],
            [("add 1", 0, 5), ("add 2", 2, 3), ("read 2", 4, 5), ("read 2 1", 6, 7)],
        ),
        (
            "set",
            [("read 1", 0, 3), ("read 2", 1, 2), ("add 1", 0, 3), ("add 2", 0, 3)],
            [("add 1", 0, 3), ("read 1", 1, 2)],
        ),
        (
            "set",
            [("add 1", 0, 1), ("remove 1 yes", 2, 3), ("contains 1 yes", 4, 5)],
            [("add 1", 0, 1), ("remove 1 yes", 2, 4), ("contains 1 yes", 3, 5)],
        ),
    ],
)
def test_a_shortest_bad_history_fails_and_its_near_miss_passes(name, bad, good):
    assert (outcome(name, *bad), outcome(name, *good)) == ("fail", "pass")


def test_a_failed_cas_says_something_only_if_asked_to():
    ops = [("write 1", 0, 1), ("!cas 1 2", 2, 3)]
    assert outcome("cas-register", *ops) == "pass"
    assert outcome("cas-register", *ops, strict_cas=True) == "fail"


def test_an_unset_register_reads_nil_or_what_it_began_with():
    assert outcome("register", ("read nil", 0, 1)) == "pass"
    assert outcome("register", ("read nil", 0, 1), initial=5) == "fail"
    assert outcome("register", ("read 5", 0, 1), initial=5) == "pass"


def test_numbers_are_equal_as_numbers_and_nothing_else_is():
    rows = [Op(f="write", value=1, call=0, ret=1), Op(f="read", output=1.0, call=2, ret=3)]
    assert decide(encode(rows), model("register")).outcome == "pass"
    rows[1] = Op(f="read", output=True, call=2, ret=3)
    assert decide(encode(rows), model("register")).outcome == "fail"
    rows[1] = Op(f="read", output="1", call=2, ret=3)
    assert decide(encode(rows), model("register")).outcome == "fail"


def test_operations_at_one_moment_overlap():
    assert outcome("register", ("write 1", 0, 5), ("read nil", 5, 6)) == "pass"
    assert outcome("register", ("write 1", 0, 5), ("read nil", 6, 7)) == "fail"


def test_a_proof_names_the_two_clusters_and_no_more():
    ops = told(
        *[(f"write {k}", 10 * k, 10 * k + 2) for k in range(1, 50)],
        *[(f"read {k}", 10 * k + 3, 10 * k + 5) for k in range(1, 50)],
        ("read 20", 303, 305),
    )
    answer = decide(ops, model("register"))
    (violation,) = answer.violations
    assert answer.outcome == "fail"
    assert len(violation.ops) <= 4
    assert {"first", "second"} <= {bar.role for bar in violation.bars}
    assert "20" in violation.sentence
    assert len(violation.zones) == 2


def test_a_proof_of_the_search_is_short_and_says_where_it_is_stuck():
    ops = told(
        *[(f"write {k % 5 + 1}", 10 * k, 10 * k + 2) for k in range(200)],
        *[(f"read {k % 5 + 1}", 10 * k + 3, 10 * k + 5) for k in range(200)],
        ("read 2", 1504, 1505),
    )
    answer = decide(ops, model("cas-register"))
    (violation,) = answer.violations
    assert answer.engines == {"zones": 0, "search": 1}
    assert len(violation.ops) <= 5
    assert violation.states == ("1",)
    assert [bar.label for bar in violation.bars if bar.role == "stuck"] == ["read → 2"]


def crowd(count):
    """So many open writes and compare-and-sets at once that nothing can be known."""
    pairs = [(a, b) for a in range(1, 9) for b in range(1, 9) if a != b]
    return [(f"cas {a} {b}", k, 1000 + k) for k, (a, b) in enumerate(pairs[:count])]


def test_a_search_out_of_time_says_how_far_it_came():
    clock = iter(range(1_000_000))
    ops = told(("write 1", 0, 1), *crowd(50))
    answer = decide(ops, model("cas-register"), budget=Budget(time_ns=3), elapsed=lambda: next(clock))
    assert answer.outcome == "unknown"
    (undecided,) = answer.undecided
    assert undecided.reason == "out of time"
    assert undecided.returns_done < undecided.returns


def test_a_search_out_of_memory_says_so():
    ops = told(("write 1", 0, 1), *crowd(50), ("read nil", 3000, 3001))
    answer = decide(ops, model("cas-register"), budget=Budget(memory_bytes=1 << 20))
    assert answer.outcome == "unknown"
    assert answer.undecided[0].reason == "out of memory"


def test_one_bad_key_among_many_is_named_and_the_others_are_judged():
    rows = [Op(f="write", key=f"k{k}", value=k, call=4 * k, ret=4 * k + 1) for k in range(100)]
    rows += [Op(f="read", key=f"k{k}", output=k if k != 7 else None, call=1000 + k, ret=2000 + k) for k in range(100)]
    answer = decide(encode(rows), model("kv"))
    assert answer.outcome == "fail"
    assert answer.objects == 100
    assert answer.bad_objects == 1
    assert [violation.key for violation in answer.violations] == ["k7"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Op(f="jump", call=0, ret=1), "unknown kind: 'jump'"),
        (Op(f="read", call=3, ret=1), "returned (1) before it was called (3)"),
        (Op(f="read", call=3), "is ok but has no return"),
        (Op(f="cas", value=3, call=0, ret=1), "needs [expected, new]"),
        (Op(f="enqueue", call=0, ret=1), "enqueues nothing"),
        (Op(f="contains", value=1, output=3, call=0, ret=1), "neither true nor false"),
        (Op(f="txn", value=[["x", 1, 2]], call=0, ret=1), "not [r | w, key, value]"),
    ],
)
def test_an_operation_without_sense_is_an_error_with_its_number(row, words):
    with pytest.raises(HistoryError) as error:
        encode([Op(f="read", call=0, ret=1), row])
    assert words in str(error.value)
    assert "operation 1" in str(error.value)


def test_an_operation_that_the_model_does_not_have_is_an_error():
    with pytest.raises(HistoryError, match="a register does not have"):
        decide(told(("write 1", 0, 1), ("cas 1 2", 2, 3)), model("register"))


def test_a_model_that_does_not_exist_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="fifo-queue"):
        model("fifo")
    with pytest.raises(ConfigError, match="nothing to be strict about"):
        model("register", strict_cas=True)


def test_an_empty_history_passes_and_says_that_it_is_empty():
    answer = decide(encode([]), model("kv"))
    assert (answer.outcome, answer.operations, answer.objects) == ("pass", 0, 0)
    assert door.VIOLATIONS_MAX == 20
