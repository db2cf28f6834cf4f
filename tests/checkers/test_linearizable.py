"""The checker linearizable on runs: excuses, budgets, groups, malformed operations. Its stories: `stories`."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers.linearizable import CHECKER
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.operations import of_history
from tests.checkers.histories import Tale, plan, promise


def check(tale, **changes):
    history = tale.end()
    given = plan(given=promise(**changes), workload="register")
    return CHECKER.check(history, given.promise, given)


def test_a_fault_beyond_the_promise_excuses_what_comes_after_it():
    tale = Tale().did("put", ["r0", 1])
    tale.kill("n1")
    tale.did("put", ["r0", 2]).did("get", "r0", 1)
    verdict = check(tale, tolerates={"partition": None})
    assert (verdict.outcome, bool(verdict.findings[0].excused)) == ("pass", True)
    assert check(tale).outcome == "fail"


def contended(writers):
    """Many writes of one value at once, and cas that were refused: nothing but a search decides it."""
    tale = Tale()
    calls = [tale.invoke("put", ["r0", number % 3], process=number) for number in range(writers)]
    calls += [
        tale.invoke("cas", ["r0", number % 3, (number + 1) % 3], process=50 + number) for number in range(writers)
    ]
    for number, op in enumerate(calls):
        tale.back(op, "ok", None if number < writers else number % 2 == 0)
    return tale.did("get", "r0", 1).did("get", "r0", 2)


def test_what_is_too_much_for_the_budget_is_unknown_and_says_how_far_it_came():
    options = CHECKER.options(promise())
    operations = of_history(contended(9).end(), CHECKER.functions()).each(CHECKER.keyed)
    small = CHECKER.see(operations, msgspec.structs.replace(options, memory_bytes_max=1))
    assert small.anomalies == []
    assert "returns were explained" in small.doubts[0]
    assert CHECKER.see(operations, options).doubts == []
    told = CHECKER.within(1_000).check(contended(9).end(), promise(), plan()).reason
    assert "out of memory (0.001 MB; --memory raises the limit): " in told


def test_one_key_in_two_groups_is_two_registers():
    tale = Tale()
    for group, f, asked, told in (("a", "put", ["r", 1], None), ("b", "get", "r", None), ("a", "get", "r", 1)):
        tale.add(Invoke, op=tale.ops, process=0, f=f, value=asked, target="n1", group=group)
        tale.wait(1).add(Return, op=tale.ops, status="ok", value=told, group=group)
        tale.wait(1).ops += 1
    verdict = check(tale)
    assert (verdict.outcome, verdict.evidence["objects"]) == ("pass", 2)


def test_an_operation_that_names_no_register_is_doubt():
    verdict = check(Tale().did("put", ["r", 1]).did("get", "r", 1).did("put", [3, 1]))
    assert (verdict.outcome, "names no register" in verdict.reason) == ("unknown", True)


def test_writes_alone_or_reads_alone_are_not_enough():
    assert check(Tale().did("put", ["r", 1])).outcome == "unknown"
    assert check(Tale().did("get", "r")).outcome == "unknown"


json_like: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    max_leaves=5,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "get", "cas"]),
            json_like,
            json_like,
            st.sampled_from(["ok", "fail", "info", "lost"]),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_whatever_clients_say_there_is_a_verdict(steps, fresh):
    tale = Tale()
    for f, value, told, status in steps:
        tale.did(f, value, told, status=status)
    assert check(tale, linearizable_reads=fresh).outcome in {"pass", "fail", "unknown", "n/a"}


def test_of_a_long_chain_of_swaps_the_two_that_found_one_value_are_named_and_stand_in_the_certificate():
    tale = Tale().did("put", ["r0", 1])
    for value in range(1, 12):
        tale.did("cas", ["r0", value, value + 1], told=True)
    before = tale.ops
    tale.did("cas", ["r0", 12, 20], told=True).did("cas", ["r0", 12, 30], told=True)
    (found,) = check(tale).findings
    assert found.sentence == "Two compare-and-set of 'r0' both found 12, which was written once."
    asked = [event.op for event in tale.end().of(Invoke) if event.seq in found.certificate]
    assert {before, before + 1} <= set(asked)
    assert [bar["label"] for bar in found.data["bars"] if bar["role"] == "stuck"] == ["cas 12 → 20", "cas 12 → 30"]
