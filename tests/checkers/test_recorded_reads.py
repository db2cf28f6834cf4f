"""Reads that are recorded by what is new in them are judged as those that are recorded whole."""

from __future__ import annotations

import random  # noqa: TID251 - test data, drawn from a seed that is told

import msgspec
import pytest

from dethrone.checkers.acknowledged_survives import CHECKER as SURVIVES
from dethrone.checkers.log_reads import LogReads
from dethrone.checkers.set_reads import SetReads
from dethrone.harness.core.events import SCHEMA, Begin, End, Invoke, Mark, Return
from dethrone.harness.core.foreign.writing import jepsen_edn
from dethrone.harness.core.history import History
from dethrone.harness.core.shown import Recorder, key_of
from tests.checkers.histories import plan, promise
from tests.checkers.seen_oracles import log_step, random_ops, set_step
from tests.checkers.test_set_and_log import _answer, _choose


def history_of(ops, write):
    """These operations as a run of ours, on one key."""
    events = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1",), seed=1), Mark(seq=1, t=0, name="final")]
    moments = sorted(
        [(op["invoked"], "invoke", number) for number, op in enumerate(ops)]
        + [(op["returned"], "return", number) for number, op in enumerate(ops) if op["returned"] is not None]
    )
    for at, kind, number in moments:
        op = ops[number]
        common = {"seq": len(events), "t": at, "op": number}
        if kind == "invoke":
            value = ["k", op["value"]] if op["f"] == write else "k"
            events.append(Invoke(**common, process=op["process"], f=op["f"], value=value, target="n1"))
        else:
            events.append(Return(**common, status=op["status"], value=op["result"], node="n1"))
    events.append(End(seq=len(events), t=10**6, count=len(events), digest="", reason="complete"))
    return History(events)


def recorded(history, shape):
    """The same with each read recorded by what is new."""
    recorder, asked, out = Recorder(shape), {}, []
    for event in history:
        if type(event) is Invoke:
            asked[event.op] = event
        new = event
        if type(event) is Return and asked[event.op].f == "read":
            value = recorder.record(key_of(asked[event.op]), event.value)
            new = msgspec.structs.replace(event, value=msgspec.json.decode(msgspec.json.encode(value)))
        out.append(new)
    return History(out)


def judged(checker, history):
    given = promise()
    verdict = checker.check(history, given, plan(given=given))
    findings = [(one.sentence, one.certificate, one.data.get("anomaly")) for one in verdict.findings]
    return verdict.outcome, verdict.reason, findings, verdict.evidence, verdict.metrics


KINDS = {
    "list": ("append", (), log_step, (LogReads(), SURVIVES)),
    "set": ("add", frozenset(), set_step, (SetReads(),)),
}


@pytest.mark.parametrize("block", range(3))
@pytest.mark.parametrize("shape", KINDS)
def test_the_verdicts_are_the_same_finding_by_finding(block, shape):
    write, start, step, checkers = KINDS[shape]
    outcomes = set()
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        numbers = iter(range(100))
        ops = random_ops(
            rng,
            start,
            step,
            _choose(write, lambda _: next(numbers)),  # noqa: B023 - used within this round only
            many=rng.randint(2, 14),
            answer=_answer(rng.choice((0, 0.1, 0.4)))(rng),
        )
        whole = history_of(ops, write)
        short = recorded(whole, shape)
        for checker in checkers:
            before, after = judged(checker, whole), judged(checker, short)
            assert before == after, (seed, ops)
            outcomes.add(before[0])
        if shape == "list":
            assert list(jepsen_edn(whole)) == list(jepsen_edn(short))
    assert {"pass", "fail"} <= outcomes


def test_a_record_that_does_not_fit_is_unknown_and_never_a_pass():
    ops = [
        {"process": 0, "f": "append", "value": 1, "result": None, "invoked": 0, "returned": 1, "status": "ok"},
        {"process": 0, "f": "read", "value": None, "result": [1], "invoked": 2, "returned": 3, "status": "ok"},
    ]
    short = recorded(history_of(ops, "append"), "list")
    assert judged(LogReads(), short)[0] == "pass"
    events = [
        msgspec.structs.replace(event, value={**event.value, "hash": "0" * 16})
        if type(event) is Return and isinstance(event.value, dict)
        else event
        for event in short
    ]
    for checker in (LogReads(), SURVIVES):
        outcome, reason, *_ = judged(checker, History(events))
        assert outcome == "unknown"
        assert "does not fit its hash" in reason
