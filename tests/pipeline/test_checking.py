"""The corpus is judged by the checkers of a single run, once, and trouble with one run harms no other."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import End, Traced
from dethrone.harness.engine.run.judge import judge, load_checkers
from dethrone.harness.pipeline import across, checking, ingest, upkeep
from dethrone.harness.pipeline.checking import Asked, check, standing
from dethrone.harness.pipeline.corpus import open_corpus
from dethrone.harness.pipeline.judging import HISTORY, jobs_of
from tests.pipeline import nights

pytestmark = pytest.mark.spark

FEW = ("one-leader-per-term", "leader-has-majority", "leader-when-owed")


def quiet(done, total):
    pass


@pytest.fixture
def corpus(tmp_path, night):
    made = open_corpus(str(tmp_path / "corpus"), make=True)
    assert all(row.answer == "stored" for row in ingest.add(made, ingest.find_runs([night]), now_ns=1))
    return made


def rows_of(corpus):
    return {(row["run"], row["checker"]): row for row in corpus.verdicts().to_pylist()}


def few():
    """A loader for workers: three checkers of ours. Nested functions travel by value."""

    def loader():
        from dethrone.harness.engine.run.judge import load_checkers

        names = ("one-leader-per-term", "leader-has-majority", "leader-when-owed")
        return {name: checker for name, checker in load_checkers().items() if name in names}

    return loader


def with_one_changed(how, version="2"):
    """That loader, with ``one-leader-per-term`` replaced by one that does ``how`` on runs of a planted bug."""

    def loader():
        import os

        from dethrone.harness.core.verdict import Verdict
        from dethrone.harness.engine.run.judge import load_checkers

        class Changed:
            name = "one-leader-per-term"
            kind = "safety"
            needs = frozenset()

            def check(self, history, promise, plan):
                if plan.variant and how == "raise":
                    raise ZeroDivisionError("by design")
                if plan.variant and how == "die":
                    os._exit(7)
                return Verdict(checker=self.name, version=version, kind="safety", outcome="pass", reason="changed")

        changed = Changed()
        changed.version = version
        names = ("one-leader-per-term", "leader-has-majority", "leader-when-owed")
        known = {name: checker for name, checker in load_checkers().items() if name in names}
        return {**known, changed.name: changed}

    return loader


def test_verdicts_and_findings_are_those_of_a_single_run(spark, corpus, sims):
    done = check(corpus, spark, Asked(), quiet)
    stored = rows_of(corpus)
    checkers = load_checkers()
    for run, name in (("raft-a", "honest"), ("raft-c", "bug")):
        alone = judge(sims[name].history, sims[name].plan, checkers)
        told = {
            checker: (row["version"], row["kind"], row["outcome"], row["reason"])
            for (of, checker), row in stored.items()
            if of == run and checker not in (HISTORY, across.NAME)
        }
        assert told == {one.checker: (one.version, one.kind, one.outcome, one.reason) for one in alone.verdicts}
        assert {one.run: one.outcome for one in done.runs}[run] == alone.outcome
    found = corpus.findings().to_pylist()
    alone = judge(sims["bug"].history, sims["bug"].plan, checkers)
    sentences = [finding.sentence for verdict in alone.verdicts for finding in verdict.findings]
    assert sentences
    assert sorted(row["sentence"] for row in found) == sorted(sentences)
    assert all(len(row["events"].splitlines()) == len(row["certificate"]) for row in found)
    assert (done.judged_runs, done.judged) == (3, 3 * (len(checkers) + 1))

    twins = {run: stored[run, across.NAME]["reason"] for run in ("raft-a", "raft-b")}
    assert set(twins.values()) == {"2 runs of this plan and version have the same bytes"}
    assert ("raft-c", across.NAME) not in stored

    files = corpus.place.files("verdicts")
    again = check(corpus, spark, Asked(), quiet)
    assert (again.judged, again.runs) == (0, done.runs)
    assert corpus.place.files("verdicts") == files


def test_only_what_is_stale_is_judged_again_and_nothing_else_is_lost(spark, corpus):
    check(corpus, spark, Asked(checkers=FEW), quiet, loader=few())
    before = rows_of(corpus)
    assert len(before) == 9
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=with_one_changed("say"))
    after = rows_of(corpus)
    assert (done.judged, done.judged_runs) == (3, 3)
    assert {key for key in after if after[key] != before[key]} == {
        (run, "one-leader-per-term") for run in ("raft-a", "raft-b", "raft-c")
    }
    upkeep.compact(corpus, now_ns=10)
    assert rows_of(corpus) == after


def test_a_checker_that_raises_is_unknown_there_and_nowhere_else(spark, corpus):
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=with_one_changed("raise"))
    rows = rows_of(corpus)
    row = rows["raft-c", "one-leader-per-term"]
    assert row["outcome"] == "unknown"
    assert "ZeroDivisionError: by design" in row["reason"]
    assert rows["raft-c", "leader-has-majority"]["outcome"] == "fail"
    assert {run.run: run.outcome for run in done.runs} == {"raft-a": "pass", "raft-b": "pass", "raft-c": "fail"}


def test_a_worker_that_dies_costs_its_run_a_verdict_and_is_tried_again(spark, corpus):
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=with_one_changed("die"))
    outcomes = {run.run: (run.outcome, run.settled) for run in done.runs}
    assert outcomes == {"raft-a": ("pass", True), "raft-b": ("pass", True), "raft-c": ("unknown", False)}
    assert "the worker died" in rows_of(corpus)["raft-c", "one-leader-per-term"]["reason"]
    again = check(corpus, spark, Asked(checkers=FEW), quiet, loader=with_one_changed("say"))
    assert (again.judged_runs, again.judged) == (1, 3)
    assert {run.run: run.outcome for run in again.runs}["raft-c"] == "fail"


def test_events_cut_off_are_unknown_and_the_others_are_judged(spark, corpus, tmp_path):
    paths = {row["run"]: tmp_path / "corpus" / row["path"] for row in corpus.runs()}
    whole = paths["raft-b"].read_bytes()
    paths["raft-b"].write_bytes(whole[: len(whole) // 2])
    paths["raft-c"].unlink()
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=few())
    outcomes = {run.run: (run.outcome, run.settled) for run in done.runs}
    assert outcomes == {"raft-a": ("pass", True), "raft-b": ("unknown", False), "raft-c": ("unknown", False)}
    paths["raft-b"].write_bytes(whole)
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=few())
    assert {run.run: run.outcome for run in done.runs}["raft-b"] == "pass"


def test_a_history_without_its_end_never_passes(spark, tmp_path, sims):
    honest = sims["honest"]
    nights.store_run(tmp_path / "k", honest.history, honest.plan, run="raft-k", end=False)
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    list(ingest.add(corpus, [tmp_path / "k"], now_ns=1))
    [run] = check(corpus, spark, Asked(), quiet).runs
    assert (run.outcome, run.checker) == ("unknown", HISTORY)
    assert "no end record" in run.reason


def test_a_part_of_the_corpus_can_be_asked_for(spark, corpus):
    done = check(corpus, spark, Asked(since="2026-11-21", system="raft", checkers=FEW[:1]), quiet, loader=few())
    assert [run.run for run in done.runs] == ["raft-c"]
    assert list(rows_of(corpus)) == [("raft-c", FEW[0])]
    assert check(corpus, spark, Asked(system="nacos", checkers=FEW[:1]), quiet, loader=few()).runs == ()
    with pytest.raises(ConfigError, match="did you mean 'one-leader-per-term'"):
        check(corpus, spark, Asked(checkers=("one-leader-per-trem",)), quiet)


def test_waves_give_the_same_answers_as_one(spark, corpus, monkeypatch):
    check(corpus, spark, Asked(checkers=FEW), quiet, loader=few())
    once = {key: (row["outcome"], row["reason"]) for key, row in rows_of(corpus).items()}
    monkeypatch.setattr(checking, "WAVE", 2)
    seen = []
    asked = Asked(checkers=FEW, again=True)
    done = check(corpus, spark, asked, lambda done, total: seen.append((done, total)), loader=few())
    assert done.judged_runs == 3
    assert {key: (row["outcome"], row["reason"]) for key, row in rows_of(corpus).items()} == once
    assert seen[-1] == (3, 3)


def test_runs_go_out_largest_first_and_only_with_what_is_stale():
    runs = [
        {"run": run, "date": "d", "system": "s", "path": "p", "content": "c", "plan": "", "bytes": size}
        for run, size in (("small", 1), ("large", 9), ("done", 5))
    ]
    fresh = {"version": "1", "content": "c", "settled": True}
    known = [
        {"run": "done", "checker": "x", **fresh},
        {"run": "done", "checker": "y", **fresh},
        {"run": "large", "checker": "x", **fresh},
        {"run": "small", "checker": "x", **fresh, "version": "0"},
        {"run": "small", "checker": "y", **fresh, "content": "other"},
    ]
    jobs = jobs_of(runs, known, {"x": "1", "y": "1"})
    assert [(job.run, job.checkers) for job in jobs] == [("large", ("y",)), ("small", ("x", "y"))]
    assert [job.run for job in jobs_of(runs, known, {"x": "1"}, again=True)] == ["large", "done", "small"]


SMALL = 20


def test_one_long_run_among_many_short_ones_is_begun_first_and_harms_none(spark, tmp_path, monkeypatch):
    """Pruned: ten million events among a thousand small runs are `bench_corpus.py --runs 1000 --large 10000000`."""
    short, long = nights.simulated(7, seconds=8), nights.simulated(8, seconds=200)
    assert len(long.history) > 10 * len(short.history)
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    first = nights.store_run(tmp_path / "night" / "0", short.history, short.plan, run="raft-x0")
    for number in range(1, SMALL):
        shutil.copytree(first, tmp_path / "night" / f"{number}")
        nights.change(tmp_path / "night" / f"{number}" / "run.json", run_id=f"raft-x{number}")
    nights.store_run(tmp_path / "night" / "long", long.history, long.plan, run="raft-long")
    list(ingest.add(corpus, ingest.find_runs([tmp_path / "night"]), now_ns=1))
    monkeypatch.setattr(checking, "WAVE", 16)
    waves = []
    wave = checking.Work.wave

    def seen(self, jobs, progress):
        waves.append([job.run for job in jobs])
        return wave(self, jobs, progress)

    monkeypatch.setattr(checking.Work, "wave", seen)
    done = check(corpus, spark, Asked(checkers=FEW), quiet, loader=few())
    assert [len(names) for names in waves] == [16, 5]
    assert waves[0][0] == "raft-long"
    assert (done.judged_runs, done.judged) == (SMALL + 1, (SMALL + 1) * len(FEW))
    assert {run.settled for run in done.runs} == {True}
    stored = rows_of(corpus)
    for run, told in (("raft-long", long), ("raft-x7", short)):
        alone = judge(told.history, told.plan, few()())
        assert {one.checker: one.outcome for one in alone.verdicts} == {
            name: stored[run, name]["outcome"] for name in FEW
        }


@pytest.mark.parametrize(
    ("outcomes", "whole", "told"),
    [
        (("pass:safety", "pass:liveness"), True, "pass"),
        (("pass:safety", "n/a:liveness"), True, "unknown"),
        (("pass:safety", "n/a:liveness"), False, "pass"),
        (("pass:safety", "unknown:liveness"), True, "unknown"),
        (("unknown:metric", "fail:safety"), True, "fail"),
        (("n/a:safety",), False, "n/a"),
    ],
)
def test_a_run_stands_as_its_verdicts_merge(outcomes, whole, told):
    rows = [
        {"outcome": outcome, "kind": kind, "checker": "x", "reason": ""}
        for outcome, _, kind in (word.partition(":") for word in outcomes)
    ]
    assert standing(rows, whole=whole)[0] == told


def test_runs_of_one_plan_that_differ_are_told_with_their_first_difference(spark, corpus, night, sims):
    honest = sims["honest"]
    events = [event for event in honest.history if type(event) is not End]
    at = next(event.seq for event in events if type(event) is Traced and event.seq > 100)
    events[at] = msgspec.structs.replace(events[at], term=events[at].term + 1)
    nights.store_run(night / "other", events, honest.plan, run="raft-z")
    list(ingest.add(corpus, [night / "other"], now_ns=2))
    [group] = across.groups_of(corpus.runs(*across.COLUMNS))
    assert [run["run"] for run in group.runs] == ["raft-a", "raft-b", "raft-z"]
    found = across.compare(spark, corpus.place, [group])[group.key]
    assert found.seq == at
    assert set(found.told) == {"raft-a", "raft-z"}  # raft-b is a twin of raft-a
    rows = across.rows_for([group], {group.key: found})
    assert {row["reason"] for row in rows} == {f"3 runs of this plan and version differ, first at event {at}"}
    assert {row["outcome"] for row in rows} == {"n/a"}
