"""What comparisons of nights read from a corpus."""

from __future__ import annotations

import pytest

from dethrone.harness.core.events import FaultEvent, Traced
from dethrone.harness.pipeline import gathering, ingest
from dethrone.harness.pipeline.corpus import open_corpus

NIGHTS = frozenset({"2026-11-20", "2026-11-21"})


@pytest.fixture
def corpus(tmp_path, night):
    made = open_corpus(str(tmp_path / "corpus"), make=True)
    assert {row.answer for row in ingest.add(made, ingest.find_runs([night]), now_ns=1)} == {"stored"}
    return made


def test_runs_of_planted_variants_are_left_out_unless_asked_for(corpus):
    assert {row["run"] for row in gathering.select(corpus, system="", variants=False)} == {"raft-a", "raft-b"}
    assert len(gathering.select(corpus, system="", variants=True)) == 3
    assert gathering.select(corpus, system="etcd", variants=True) == []


def test_runs_of_one_plan_and_version_are_the_same_and_tell_their_knobs(corpus):
    a, b, c = (gathering.run_of(row, frozenset()) for row in gathering.select(corpus, system="raft", variants=True))
    assert a.same == b.same != c.same
    assert a.setup == b.setup != c.setup
    assert "knobs.election_timeout_min_ms" in a.attributes
    assert a.attributes["versions.dethrone"] == "0.1.0"


def test_failovers_that_noise_touched_are_known_by_run_and_fault():
    said = [
        {"run": "a", "checker": "failover", "metrics": '{"noisy_faults": [2, 5]}'},
        {"run": "b", "checker": "failover", "metrics": '{"older": []}'},
        {"run": "c", "checker": "failover", "metrics": None},
        {"run": "d", "checker": "coverage", "metrics": '{"noisy_faults": [1]}'},
    ]
    assert gathering.noisy_faults(said) == {("a", 2), ("a", 5)}


@pytest.mark.spark
def test_facts_are_those_of_the_histories(spark, corpus, sims):
    from dethrone.harness.pipeline import checking

    checking.check(corpus, spark, checking.Asked(checkers=("leader-has-majority",)), lambda *_: None)
    rows = gathering.select(corpus, system="", variants=True)
    found = gathering.gather(corpus, spark, rows, times_of=NIGHTS)
    history = sims["honest"].history
    phase, expected, began = "start", [], []
    for event in history.events:
        if type(event) is Traced and event.name in gathering.PHASES:
            phase = gathering.PHASES[event.name]
        if type(event) is FaultEvent and event.phase == "begin" and event.outcome != "skipped":
            began.append(event.kind)
            if event.outcome == "installed":
                roles = sorted({role.lower() for role in event.roles.values()} or {"nobody"})
                expected += [(event.fault, event.kind, phase, role) for role in roles]
    mine = [(one.fault, one.kind, one.phase, one.role) for one in found.covered if one.run == "raft-a"]
    assert mine == expected != []
    assert found.facts.runs["raft-a"].faults == frozenset(began)
    assert {one.stage for one in found.facts.samples} == {"detect", "elect", "write"}
    by_run = {one.run: one for one in found.facts.judged}
    assert {run: one.outcome for run, one in by_run.items()} == {"raft-a": "pass", "raft-b": "pass", "raft-c": "fail"}
    proof = next(row for row in corpus.findings().to_pylist() if not row["excused"])
    bug = sims["bug"].history
    last = max(proof["certificate"])
    before = [
        event.kind
        for event in bug.of(FaultEvent)
        if event.phase == "begin" and event.outcome != "skipped" and event.seq < last
    ]
    assert by_run["raft-c"].fault == (before[-1] if before else "any")
    assert by_run["raft-c"].at_ns == bug.at(last).t
    # Of nights that are not asked about only runs with a violation are read.
    fewer = gathering.gather(corpus, spark, rows, times_of=frozenset())
    assert {one.run for one in fewer.facts.samples} <= {"raft-c"}
