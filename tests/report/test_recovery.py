"""Recoveries after heals, as figures: the network's time and the protocol's."""

from __future__ import annotations

from dethrone.harness.core.clock import MS
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import recovery


def judged(*rows):
    verdict = Verdict(
        checker="failover", version="2", kind="metric", outcome="n/a", reason="figures", metrics={"recoveries": rows}
    )
    return Judgement(outcome="pass", reason="", verdicts=(verdict,))


def row(network, leader, write, *, led=False, censored=False):
    return {
        "network_ns": network * MS,
        "leader_ns": [leader * MS, censored],
        "write_ns": [write * MS, censored],
        "led": led,
    }


def test_only_cuts_that_left_no_leader_had_something_to_recover():
    rows = [row(5, 100, 150), row(7, 300, 350), row(9, 200, 250), row(900, 1, 2, led=True)]
    count, figures = recovery.summary(judged(*rows))
    assert count == 3
    assert {stage: figure.median for stage, figure in figures.items()} == {
        "network": 7 * MS,
        "leader": 200 * MS,
        "write": 250 * MS,
    }
    assert recovery.lines(judged(row(1, 1, 1, led=True))) == []
    assert recovery.lines(None) == []


def test_a_time_that_is_censored_never_counts_as_a_fast_one():
    _, figures = recovery.summary(judged(row(5, 10, 10, censored=True), row(5, 100, 150)))
    assert figures["leader"].censored == 1
    assert figures["leader"].median == 100 * MS
    assert "1 not before the next change" in recovery.lines(judged(row(5, 10, 10, censored=True)))[2]
