"""Lists that are judged on columns, against the same lists judged operation by operation."""

from __future__ import annotations

import random  # noqa: TID251 - test data, drawn from a seed that is told

import msgspec
import pytest

from dethrone.checkers import calm_lists as module
from dethrone.checkers.acknowledged_survives import CHECKER as SURVIVES
from dethrone.checkers.calm_lists import calm_lists
from dethrone.checkers.log_reads import LogReads
from dethrone.harness.core.events import SCHEMA, Begin, End, Invoke, Mark, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.shown import Recorder
from tests.checkers.histories import plan, promise

CLIENTS = 3


def ops_of(rng, trouble):
    """Events of clients that append to two lists and read them, now and then not as they should.

    ``trouble``: the probability that an answer is spoiled.
    """
    events = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1",), seed=1)]
    lists, recorder, number = {"a": [], "b": []}, Recorder("list"), 0
    busy = {}
    steps = rng.randint(4, 40)
    for step in range(10**6):
        if step >= steps and not busy:
            break
        if step == steps // 2:
            events.append(Mark(seq=len(events), t=step, name="final"))
        client = rng.randrange(CLIENTS)
        if client in busy:
            op, f, key, value, answer = busy.pop(client)
            if f == "append" and answer is None:
                answer = (rng.choice(("ok", "ok", "fail", "info")), _take_effect(rng, lists[key], value, late=True))
            status, shown = answer if answer is not None else ("ok", list(lists[key]))
            if f == "read":
                shown = recorder.record(key, _spoiled(rng, shown, trouble, number)) if status == "ok" else None
            elif status != "ok":
                shown = None
            events.append(Return(seq=len(events), t=step, op=op, status=status, value=shown, node="n1"))
        elif step < steps:
            key, f = rng.choice("ab"), rng.choice(("append", "read"))
            value = rng.choice((number, number, max(0, number - 1))) if rng.random() < trouble else number
            number += 1
            asked = [key, value] if f == "append" else key
            answer = None
            if f == "append" and rng.random() < 0.7:
                answer = ("ok", _take_effect(rng, lists[key], value, late=rng.random() < trouble))
            elif f == "read" and rng.random() < 0.5:
                answer = ("ok", list(lists[key]))
            op = len(events)
            events.append(Invoke(seq=op, t=step, op=op, process=client, f=f, value=asked, target="n1"))
            busy[client] = (op, f, key, value, answer)
            if rng.random() < 0.02:
                del busy[client]  # it never returns
    events.append(End(seq=len(events), t=10**6, count=len(events), digest="", reason="complete"))
    return [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in events]


def _take_effect(rng, values, value, *, late):
    """Append, now and then at another place; returns what a system may answer."""
    if late and rng.random() < 0.5:
        return None
    at = rng.randrange(len(values) + 1) if late and rng.random() < 0.3 else len(values)
    values.insert(at, value)
    return rng.choice((None, {"index": at + 1, "term": 1}, at + 1))


def _spoiled(rng, shown, trouble, number):
    """``number``: what is appended next."""
    if rng.random() >= trouble or not shown:
        return shown
    changed = list(shown)
    match rng.randrange(5):
        case 0:
            changed.pop(rng.randrange(len(changed)))
        case 1:
            changed.append(rng.choice(changed))
        case 2:
            changed.append(1000)
        case 3:
            changed.append(number)
        case _:
            rng.shuffle(changed)
    return changed


def judged(checker, events, **promised):
    given = promise(**promised)
    verdict = checker.check(History(events), given, plan(given=given))
    return msgspec.to_builtins(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [0.0, 0.05, 0.3])
def test_verdicts_are_those_of_looking_at_each_operation(monkeypatch, trouble):
    fast, calm = {}, 0
    for seed in range(120):
        events = ops_of(random.Random(seed), trouble)
        for checker in (LogReads(), SURVIVES):
            for fresh in (True, False):
                fast[seed, checker.name, fresh] = judged(checker, events, linearizable_reads=fresh)
        calm += len(calm_lists(History(events)).lists)
    assert calm > 40
    monkeypatch.setattr(module, "_calm", lambda *_: None)
    outcomes = set()
    for seed in range(120):
        events = ops_of(random.Random(seed), trouble)
        assert not calm_lists(History(events)).lists
        for checker in (LogReads(), SURVIVES):
            for fresh in (True, False):
                slow = judged(checker, events, linearizable_reads=fresh)
                assert fast[seed, checker.name, fresh] == slow, (seed, checker.name, fresh)
                outcomes.add(slow["outcome"])
    assert {"pass", "fail"} <= outcomes


def played(*steps):
    """Operations one after another: ``("append", value)``, or ``("read", values)``; of another list with its name."""
    recorder, events = Recorder("list"), [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1",), seed=1)]
    for f, value, *name in steps:
        op, key = len(events), name[0] if name else "k"
        asked, told = (key, recorder.record(key, value)) if f == "read" else ([key, value], None)
        events.append(Invoke(seq=op, t=op, op=op, process=0, f=f, value=asked, target="n1"))
        events.append(Return(seq=op + 1, t=op + 1, op=op, status="ok", value=told, node="n1"))
    events.append(End(seq=len(events), t=99, count=len(events), digest="", reason="complete"))
    return History(events)


def test_a_list_that_is_not_calm_leaves_the_others_calm():
    history = played(("append", 1, "a"), ("read", [1], "a"), ("append", 1, "b"), ("read", [], "b"))
    found = calm_lists(history)
    assert [(one.appends, one.reads) for one in found.lists] == [(1, 1)]
    assert found.others is not None
    assert found.others.tolist() == [False, False, True, True]
    verdict = judged(LogReads(), list(history))
    assert verdict["outcome"] == "fail"
    assert verdict["evidence"]["logs"] == 2


@pytest.mark.parametrize(
    "steps",
    [
        (("append", 1), ("read", [1, 2]), ("append", 2), ("read", [1, 2])),
        (("append", 1), ("append", 2), ("read", [2, 1])),
        (("append", 1), ("append", 2), ("append", 2), ("read", [1, 2])),
        (("append", 1), ("append", 2), ("read", [1])),
        (("append", 1), ("read", [1, 1])),
        (("append", 1), ("read", [7])),
    ],
    ids=["read before it is asked for", "reordered", "appended twice", "lost", "shown twice", "never appended"],
)
def test_a_list_with_something_unusual_is_not_calm(steps):
    assert not calm_lists(played(*steps)).lists


def test_a_list_with_nothing_unusual_is_calm():
    (one,) = calm_lists(played(("append", 1), ("read", [1]), ("append", 2), ("read", [1, 2]))).lists
    assert (one.appends, one.acknowledged, one.reads, one.tested) == (2, 2, 2, 2)
