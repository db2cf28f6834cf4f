"""A margin: rows out of runs, a search that is resumed, and one in simulation with its own kinds of doses."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.engine.margin import margin
from dethrone.harness.engine.margin.dose_search import Answer, Ask, Search
from dethrone.harness.engine.margin.doses import KINDS, kind_of, schedule_of
from dethrone.harness.engine.margin.margin import (
    FAULTS_MIN,
    LEADER_LOST,
    MarginRow,
    Question,
    faults_a_run,
    read_margin,
    row_of,
    search,
)
from dethrone.harness.engine.run.judgement import Judgement, RunResult
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions

OPTIONS = RunOptions(system="raft", nodes=3, backend="sim", seed=1)


def question(**changes):
    asked = {"least": 50 * MS, "most": 2 * SECOND, "precision": 100, "confidence_percent": 80}
    base = Question(
        fault="pause", breaks=LEADER_LOST, victims="leader", hold_ns=SECOND, per_run=10, search=Search(**asked)
    )
    return msgspec.structs.replace(base, **changes)


def result(*verdicts, trouble=()):
    judged = Judgement(outcome="unknown", reason="", verdicts=verdicts)
    return RunResult(run_dir=None, seed=7, plan=None, judgement=judged, trouble=trouble, interrupted=False, exit_code=2)


def figures(*fates):
    rows = [{"fault": k, "kind": "pause", "fate": fate, "why": f"{k}, and a stall"} for k, fate in enumerate(fates)]
    return Verdict(
        checker="failover", version="3", kind="metric", outcome="n/a", reason="r", metrics={"leader_under": rows}
    )


def judged(outcome, *excused):
    findings = tuple(Finding(sentence="x", certificate=(), excused=one) for one in excused)
    return Verdict(checker="log", version="1", kind="safety", outcome=outcome, reason="r", findings=findings)


def counts(row):
    return row.broke, row.held, row.spoiled


def test_each_fault_of_a_run_is_a_trial_and_what_was_not_in_force_is_spoiled():
    row = row_of(result(figures("lost", "kept", "kept", "noise", "unknown")), LEADER_LOST, dose=5, times=7)
    assert counts(row) == (1, 2, 4)
    assert row.why == {"noise": 1, "a stall": 1, "the fault was not certainly in force": 2}


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (judged("pass"), (0, 1, 0)),
        (judged("fail", None), (1, 0, 0)),
        (judged("pass", "clocks"), (1, 0, 0)),
        (judged("unknown"), (0, 0, 1)),
        (judged("n/a"), (0, 0, 1)),
    ],
)
def test_of_a_checker_a_run_is_one_trial_and_an_unknown_is_neither(verdict, expected):
    assert counts(row_of(result(verdict), "log", dose=5, times=7)) == expected


def test_a_run_in_trouble_counts_for_nothing():
    row = row_of(result(figures("lost"), trouble=("a host is gone\nand more",)), LEADER_LOST, dose=5, times=2)
    assert counts(row) == (0, 0, 2)
    assert row.why["trouble: a host is gone"] == 1


class Threshold:
    """Runs of a system that loses its leader from this dose on; counts them."""

    def __init__(self, at):
        self.at = at
        self.runs = 0
        self.ends_after = None

    def __call__(self, options, listener, *, checkers):
        assert set(checkers) == {"failover"}
        self.runs += 1
        dose = int(options.schedule.stem.partition("-")[0])
        fate = "lost" if dose >= self.at else "kept"
        done = result(figures(*[fate] * int(options.schedule.stem.partition("-")[2])))
        return msgspec.structs.replace(done, seed=options.seed, interrupted=self.runs == self.ends_after)


def find(out, **changes):
    return search(OPTIONS, question(**changes), out, Silence(), version="1", on_row=lambda _: None)


def test_a_search_that_was_interrupted_continues_from_its_rows_to_the_same_answer(tmp_path, monkeypatch):
    runs = Threshold(300 * MS)
    monkeypatch.setattr(margin, "run", runs)
    whole = find(tmp_path / "whole")
    assert whole.answer.lo < 300 * MS <= whole.answer.hi
    needed, runs.runs, runs.ends_after = runs.runs, 0, 3
    assert find(tmp_path / "cut").answer is None
    again = find(tmp_path / "cut")
    assert again.answer == whole.answer
    assert runs.runs == needed + 1  # the interrupted one has no row
    assert read_margin(tmp_path / "cut").answer == whole.answer
    assert [row.seed for row in again.rows] == [row.seed for row in whole.rows]


def test_a_run_gives_a_dose_more_often_where_trials_were_spoiled_and_never_more_than_asked():
    spoiled = [MarginRow(dose=5, seed=1, broke=3, held=1, spoiled=15)]
    assert faults_a_run(Ask(5, 2), spoiled, question()) == 8
    assert faults_a_run(Ask(5, 9), spoiled, question()) == 10
    assert faults_a_run(Ask(7, 1), spoiled, question()) == FAULTS_MIN
    assert faults_a_run(Ask(5, 2), spoiled, question(breaks="log")) == 10


def test_another_question_does_not_mix_with_these_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(margin, "run", Threshold(300 * MS))
    find(tmp_path)
    with pytest.raises(ConfigError, match="victims was leader, now follower"):
        find(tmp_path, victims="follower")


def test_two_searches_do_not_add_rows_to_one_directory(tmp_path, monkeypatch):
    def second(*_args, **_more):
        find(tmp_path)

    monkeypatch.setattr(margin, "run", second)
    with pytest.raises(ConfigError, match="another margin is using this directory"):
        find(tmp_path)
    assert (tmp_path / margin.ROWS).read_bytes() == b""


def test_runs_that_show_nothing_end_the_search_without_an_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(margin, "run", lambda options, listener, *, checkers: result(figures("noise")))
    found = find(tmp_path)
    assert found.answer is None
    assert "showed nothing" in found.why
    assert len(found.rows) == margin.IDLE_MAX


def test_an_unknown_dose_or_property_is_named_with_the_nearest_one(tmp_path):
    with pytest.raises(ConfigError, match=r"link\.delay"):
        find(tmp_path, fault="link.dely")
    with pytest.raises(ConfigError, match="leader-lost"):
        find(tmp_path, breaks="leader-lots")


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_every_dose_of_every_kind_is_a_fault_that_its_kind_accepts_and_reads_back(name, data):
    kind = kind_of(name)
    dose = data.draw(st.integers(kind.least, kind.most))
    for step in schedule_of(kind, dose, times=2, victims="leader", hold_ns=SECOND).steps:
        registry.load(registry.FAULTS, kind.fault).check(step.faults[0], nodes=3)
    if kind.percent:
        assert kind.read(kind.show(dose)) == dose
    with pytest.raises(ConfigError):
        kind.read("much")


@pytest.mark.slow
def test_in_simulation_a_leader_of_raft_is_lost_by_pauses_of_about_its_election_timeout(tmp_path):
    found = find(tmp_path)
    assert isinstance(found.answer, Answer)
    assert 50 * MS <= found.answer.lo < found.answer.hi <= 600 * MS
