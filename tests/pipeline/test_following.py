"""A follower tells of each finding once: whatever lands twice, breaks it off, or cannot be read."""

from __future__ import annotations

import contextlib
import json
import shutil

import msgspec
import nights
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from harness.cli.main import main
from harness.core import store
from harness.engine.judge import load_checkers
from harness.pipeline import checking, following, ingest, journal, judging, layout, tables, upkeep
from harness.pipeline.corpus import open_corpus
from harness.pipeline.journal import Finding, Raised
from harness.pipeline.known import Known
from harness.pipeline.places import LocalPlace

FEW = ("one-leader-per-term", "leader-has-majority")


def few():
    return {name: checker for name, checker in load_checkers().items() if name in FEW}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The jobs of a wave are judged in this process: what Spark does with them is tested elsewhere."""

    def wave(self, jobs, progress):
        for job in jobs:
            yield judging.judge_job(lambda job=job: self.place.open(job.path), job, self.checkers)

    monkeypatch.setattr(checking.Work, "wave", wave)


class Followed:
    """A corpus beside a directory of runs, and what a stream would tell a follower of both."""

    def __init__(self, base, night):
        self.url = str(base / "corpus")
        self.runs = night
        self.corpus = open_corpus(self.url, make=True)
        self.home = following.home(self.corpus)

    def follow(self, *, known=(), again=1):
        """One follower from its start to its end; what it told. ``again``: how often everything lands."""
        heard = []
        with journal.opened(self.home) as opened:
            follower = following.Follower(self.corpus, None, opened, heard.append, known=known, loader=few)
            for _ in range(again):
                ended = [path.parent for path in sorted(self.runs.rglob(store.RUN))]
                follower.landed(ended, *(self.paths(table) for table in (layout.RUNS, layout.FINDINGS)))
            follower.look_again()
        return heard

    def paths(self, table):
        return [entry.path for entry in self.corpus.place.files(table.name)]

    def raised(self):
        lines = (self.home / journal.NAME).read_bytes().splitlines()
        found = [msgspec.json.decode(line, type=journal.Line) for line in lines]
        return [line.news for line in found if isinstance(line, Raised)]


@pytest.fixture
def followed(tmp_path, night):
    return Followed(tmp_path, night)


def test_a_run_that_ends_is_added_judged_and_told_of_once(followed, sims):
    first = followed.follow(again=3)
    (news,) = first
    assert (news.run, news.checker, news.known) == ("raft-c", "leader-has-majority", "")
    assert [event["seq"] for event in news.events] == list(news.certificate)
    faults = [one for one in sims["bug"].history if type(one).__name__ == "FaultEvent" and one.phase == "begin"]
    before = [one.kind for one in faults if one.outcome != "skipped" and one.seq < max(news.certificate)]
    assert news.fault == (before[-1] if before else "")
    assert {row["run"] for row in followed.corpus.runs("run")} == {"raft-a", "raft-b", "raft-c"}
    assert followed.corpus.verdicts().num_rows == 3 * (len(FEW) + 1)
    upkeep.compact(followed.corpus, now_ns=5)
    assert followed.follow() == []
    assert followed.corpus.verdicts().num_rows == 3 * (len(FEW) + 1)


def test_a_lost_checkpoint_and_an_emptied_corpus_repeat_nothing(followed):
    assert len(followed.follow()) == 1
    for table in ("runs", "verdicts", "findings", "events"):
        shutil.rmtree(followed.corpus.place.root / table)
    assert followed.follow() == []
    assert followed.corpus.findings().num_rows == 1


class Killed(BaseException):
    """Nothing of ours catches it."""


def effects(monkeypatch, *, at, after):
    """The follower dies at effect number ``at`` (a file that appears or goes, a line of the journal)."""
    counter = iter(range(10**6))

    def dying(do):
        def done(*args, **kwargs):
            dies = next(counter) == at
            if dies and not after:
                raise Killed
            result = do(*args, **kwargs)
            if dies:
                raise Killed
            return result

        return done

    for name in ("create", "delete"):
        monkeypatch.setattr(LocalPlace, name, dying(getattr(LocalPlace, name)))
    monkeypatch.setattr(journal.Journal, "record", dying(journal.Journal.record))
    return counter


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_follower_that_dies_at_any_step_loses_and_repeats_nothing(tmp_path, night, after):
    shutil.rmtree(night / "b")
    (night / "a" / store.HISTORY).unlink()  # half written: it is waited for, and told of as it is
    steps = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "_changed_ns", lambda _directory: 0)
        for at in range(100):
            followed = Followed(tmp_path / f"{at}", night)
            with pytest.MonkeyPatch.context() as dying:
                counter = effects(dying, at=at, after=after)
                with contextlib.suppress(Killed):
                    followed.follow()
                if next(counter) <= at:
                    break
                steps += 1
            followed.follow()
            told = sorted((type(one).__name__, getattr(one, "run", "")) for one in followed.raised())
            assert told == [("Bad", ""), ("Finding", "raft-c")], at
            assert followed.corpus.findings().num_rows == 1
            assert followed.corpus.verdicts().num_rows == len(FEW) + 1
            assert followed.follow() == []
    assert steps > 8


def test_what_was_there_before_anybody_followed_is_no_news_and_what_others_find_is(followed, sims):
    corpus = followed.corpus
    list(ingest.add(corpus, ingest.find_runs([followed.runs]), now_ns=1))
    work = checking.Work(None, corpus.place, few(), few)
    versions = {name: checker.version for name, checker in few().items()} | {judging.HISTORY: judging.HISTORY_VERSION}

    def judged_by_others():
        rows = corpus.runs(*judging.RUN_COLUMNS)
        checking.write(corpus, list(work.wave(judging.jobs_of(rows, corpus.verdicts().to_pylist(), versions), None)))

    judged_by_others()
    assert followed.follow() == []
    bug = sims["bug"]
    nights.store_run(followed.runs / "d", bug.history, bug.plan, run="raft-d")
    list(ingest.add(corpus, [followed.runs / "d"], now_ns=2))
    judged_by_others()
    (news,) = followed.follow()
    assert news.run == "raft-d"


def test_what_is_known_is_told_as_known(followed):
    entry = Known(system="raft", metric="fail/leader-has-majority", why="planted")
    (news,) = followed.follow(known=(entry,))
    assert news.known == "planted"
    assert followed.follow() == []


def test_what_cannot_be_read_is_told_once_and_stops_nothing(followed, monkeypatch):
    monkeypatch.setattr(following, "_changed_ns", lambda _directory: 0)
    (followed.runs / "a" / store.HISTORY).unlink()
    nights.change(followed.runs / "b" / store.PLAN, schema=99)
    place = followed.corpus.place
    place.create("runs/torn.parquet", tables.encode_rows(layout.RUNS.schema().empty_table())[:-9])
    newer = layout.FINDINGS.schema().with_metadata({b"dethrone.table": b"findings 99"})
    place.create("findings/newer.parquet", tables.encode_rows(newer.empty_table()))
    heard = followed.follow(again=2)
    bad = {one.where.split(" in ")[0].rpartition("/")[2]: one.why for one in heard if not isinstance(one, Finding)}
    assert set(bad) == {"a", "b", "torn.parquet", "newer.parquet"}
    assert "half written" in bad["a"]
    assert "schema 99" in bad["b"]
    assert "cannot read the table 'runs'" in bad["torn.parquet"]
    assert "schema 99" in bad["newer.parquet"]
    assert [one.run for one in heard if isinstance(one, Finding)] == ["raft-c"]
    assert len(heard) == 5
    assert followed.follow() == []


def test_events_that_were_cut_off_are_told_and_their_run_is_not_called_judged(followed):
    list(ingest.add(followed.corpus, [followed.runs / "deep" / "c"], now_ns=1))
    (row,) = followed.corpus.runs()
    events = followed.corpus.place.root / row["path"]
    events.write_bytes(events.read_bytes()[:-100])
    shutil.rmtree(followed.runs / "deep")
    (bad,) = followed.follow(again=2)
    assert bad.where == "run raft-c"
    assert "the events cannot be read" in bad.why
    assert not any(row["settled"] for row in followed.corpus.verdicts().to_pylist() if row["run"] == "raft-c")
    assert followed.follow() == []


def test_a_run_that_is_still_copied_is_waited_for(followed, monkeypatch):
    directory = followed.runs / "deep" / "c"
    whole = (directory / store.HISTORY).read_bytes()
    (directory / store.HISTORY).write_bytes(whole[:-200])
    monkeypatch.setattr(following, "_changed_ns", lambda _directory: 2**62)
    assert followed.follow() == []
    (directory / store.HISTORY).write_bytes(whole)
    assert [one.run for one in followed.follow()] == ["raft-c"]
    assert all(row["complete"] for row in followed.corpus.runs())


@pytest.mark.spark
def test_the_stream_brings_what_lands_and_a_second_one_brings_nothing_new(spark, tmp_path, night, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        following.Follower.__init__, "__kwdefaults__", {"known": (), "loader": few, "now_ns": lambda: 1}
    )
    words = ["corpus", "follow", "night", "--once", "--json", "--on-finding", "cat >> heard"]
    last = shutil.move(night / "deep", tmp_path / "deep [1]")
    first = CliRunner().invoke(main, words)
    assert (first.exit_code, json.loads(first.stdout)["raised"]) == (0, 0)
    shutil.move(last, night / "deep [1]")
    second = CliRunner().invoke(main, words)
    told, end = map(json.loads, second.stdout.splitlines())
    assert (told["event"], told["run"], told["again"]) == ("finding", "raft-c", False)
    assert (end["event"], end["exit_code"], end["raised"], second.exit_code) == ("end", 1, 1, 1)
    assert json.loads((tmp_path / "heard").read_text()) == told
    assert pq.read_table(tmp_path / "corpus" / "findings").num_rows == 1
    upkeep.compact(open_corpus("corpus"), now_ns=7)
    third = CliRunner().invoke(main, words)
    assert (third.exit_code, json.loads(third.stdout)["runs"]) == (0, 0)
    assert json.loads((tmp_path / "heard").read_text()) == told
