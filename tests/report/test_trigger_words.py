"""Triggers in words: what a fault waits for and what became of it, wherever faults are shown."""

from __future__ import annotations

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, RealisedTrigger
from dethrone.harness.report.terminal import triggers_line
from dethrone.harness.report.trigger_words import hold_words, trigger_line, when_words
from dethrone.harness.report.words import sentence


def fault(**more):
    return PlannedFault(kind="kill", victims="actor", hold_ns=2 * SECOND, **more)


def test_a_planned_trigger_is_told_with_all_that_it_asks_for():
    trigger = OnEvent(event="elected", within_ns=1, count=2, by="follower", where={"term": 3}, after="base")
    assert (
        when_words(fault(when=trigger, delay_ns=20 * MS)) == "on elected (no. 2) term=3 by follower after base + 20 ms"
    )
    assert when_words(fault(when=AfterFault(fault="base"))) == "after base"
    assert when_words(fault(delay_ns=SECOND)) == "1 s"
    assert hold_words(fault(until=OnEvent(event="healed", within_ns=1))) == "2 s, or until healed"
    assert hold_words(fault()) == "2 s"


def evidence(**more):
    return {"trigger": msgspec.to_builtins(RealisedTrigger(event="elected", **more))}


def test_what_became_of_a_trigger_is_told():
    hit = evidence(outcome="hit", actor="n2", term=3, latency_ns=4 * MS)
    assert trigger_line(hit) == "on elected of n2 in term 3, after 4 ms"
    assert trigger_line(evidence(outcome="miss")) == "elected was missed"
    assert trigger_line({}) == ""
    assert trigger_line({"trigger": "?"}) == ""


def test_a_faults_sentence_says_what_triggered_it():
    event = FaultEvent(
        seq=1,
        t=2,
        fault=0,
        step=0,
        kind="kill",
        phase="begin",
        span=Span(1, 2),
        victims=("n2",),
        outcome="installed",
        evidence=evidence(outcome="hit", actor="n2", latency_ns=4 * MS),
    )
    assert sentence(event) == "kill of n2 · on elected of n2, after 4 ms: in force"


def test_a_runs_triggers_are_one_line():
    figures = {"hits": 12, "misses": 2, "latency_us": {"median": 6875, "max": 43927}}
    assert triggers_line(figures) == "12 hit, 2 missed, in force after 6.88 ms (median), 43.9 ms (longest)"
    assert triggers_line({"hits": 0, "misses": 1}) == "0 hit, 1 missed"
