"""The corpus takes every run once, says what it does not take, and loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from dethrone.harness.core import parquet, store
from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.history_files import read_history
from dethrone.harness.pipeline import ingest, layout, places, tables, upkeep
from dethrone.harness.pipeline.corpus import Corpus, open_corpus
from dethrone.harness.pipeline.places import ArrowPlace, LocalPlace, place_of
from tests import stored
from tests.pipeline import nights

DAY = 86_400 * 10**9


@pytest.fixture(params=["local", "arrow"])
def corpus(tmp_path, request):
    if request.param == "local":
        return open_corpus(str(tmp_path / "corpus"), make=True)
    (tmp_path / "corpus").mkdir()
    return Corpus(ArrowPlace("mem://", pafs.LocalFileSystem(), str(tmp_path / "corpus")))


def add(corpus, *paths, now_ns=1):
    return list(ingest.add(corpus, ingest.find_runs(paths), now_ns=now_ns))


def answers(rows):
    return [row.answer for row in rows]


def quiet(done, total):
    pass


def test_a_run_is_stored_once_and_a_second_time_it_is_a_duplicate(corpus, night):
    assert answers(add(corpus, night)) == ["stored"] * 3
    files = corpus.place.files("")
    assert answers(add(corpus, night / "a", night)) == ["duplicate"] * 3
    assert corpus.place.files("") == files
    assert [row["run"] for row in corpus.runs("run")] == ["raft-a", "raft-b", "raft-c"]


def test_events_come_back_as_the_run_wrote_them(corpus, night):
    add(corpus, night / "a")
    [row] = corpus.runs()
    back = parquet.history_of(corpus.place.open(row["path"]), where=row["path"])
    written = read_history(night / "a" / store.HISTORY)
    assert back.events == written.events
    assert back.complete
    assert (row["events"], row["digest"], row["complete"]) == (len(written), written.end.digest, True)


def test_secrets_stay_in_the_run_and_do_not_come_into_the_corpus(corpus, night):
    for name, where in ((store.PLAN, "knobs"), (store.RUN, "options")):
        content = json.loads((night / "a" / name).read_bytes())
        content.setdefault(where, {})["sasl.password"] = "hush-hush"
        (night / "a" / name).write_text(json.dumps(content), encoding="utf-8")
    assert answers(add(corpus, night / "a")) == ["stored"]
    [row] = corpus.runs()
    assert json.loads(row["plan"])["knobs"]["sasl.password"] == "***"
    assert "hush-hush" not in row["plan"] + row["info"]


def test_partitions_are_by_date_in_utc_system_and_run(corpus, night):
    add(corpus, night)
    places = {row["run"]: row["path"].rpartition("/")[0] for row in corpus.runs()}
    assert places == {
        "raft-a": "events/date=2026-11-20/system=raft/run=raft-a",
        "raft-b": "events/date=2026-11-20/system=raft/run=raft-b",  # half past one at +05:00
        "raft-c": "events/date=2026-11-21/system=raft/run=raft-c",
    }


def test_the_same_run_with_other_bytes_is_a_conflict_and_the_first_one_stays(corpus, night, sims):
    add(corpus, night / "a")
    before = corpus.runs()
    bug = sims["bug"]
    other = nights.store_run(night / "z", bug.history, bug.plan, run="raft-a")
    [row] = add(corpus, other)
    assert row.answer == "conflict"
    assert "with other bytes" in row.why
    assert corpus.runs() == before


def test_another_plan_for_the_same_history_is_a_conflict_too(corpus, night):
    add(corpus, night / "a")
    nights.change(night / "a" / store.PLAN, time_limit_ns=1)
    assert answers(add(corpus, night / "a")) == ["conflict"]


@pytest.mark.parametrize("missing", [store.RUN, store.PLAN, store.HISTORY])
def test_a_run_half_written_is_refused_and_the_others_are_stored(corpus, night, missing):
    gone = night / "a" / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    rows = {row.directory.name: row for row in add(corpus, night)}
    assert Counter(row.answer for row in rows.values()) == {"refused": 1, "stored": 2}
    assert f"half written: there is no {missing}" in rows["a"].why


def aged(run):
    """A run of 0.2.0: all lines in a file, and columns beside it."""
    written = read_history(stored.older(run))
    parquet.write_parquet(written, run / store.COLUMNS)
    return written


def test_a_run_of_an_older_version_is_stored_with_its_own_columns(corpus, night):
    written = aged(night / "a")
    assert answers(add(corpus, night / "a")) == ["stored"]
    assert answers(add(corpus, night / "a")) == ["duplicate"]
    [row] = corpus.runs()
    assert parquet.history_of(corpus.place.open(row["path"]), where="").events == written.events
    assert row["bytes"] == (night / "a" / store.COLUMNS).stat().st_size


def test_a_truncated_parquet_file_is_made_anew_from_the_history(corpus, night):
    written = aged(night / "a")
    whole = (night / "a" / store.COLUMNS).read_bytes()
    (night / "a" / store.COLUMNS).write_bytes(whole[: len(whole) // 2])
    assert answers(add(corpus, night / "a")) == ["stored"]
    [row] = corpus.runs()
    back = parquet.history_of(corpus.place.open(row["path"]), where="")
    assert back.events == written.events
    assert upkeep.verify(corpus, progress=quiet).damage == ()


def test_a_parquet_file_of_another_run_is_not_believed(corpus, night):
    written = aged(night / "a")
    aged(night / "deep" / "c")
    (night / "deep" / "c" / store.COLUMNS).replace(night / "a" / store.COLUMNS)
    add(corpus, night / "a")
    [row] = corpus.runs()
    assert parquet.history_of(corpus.place.open(row["path"]), where="").events == written.events


def test_a_history_that_was_tampered_with_is_stored_with_its_damage(corpus, night):
    path = stored.older(night / "a")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:40] + lines[41:]))
    assert answers(add(corpus, night / "a")) == ["stored"]
    [row] = corpus.runs()
    assert not row["complete"]
    assert "reordered or missing" in parquet.history_of(corpus.place.open(row["path"]), where="").damage


def test_a_killed_run_is_stored_as_incomplete(corpus, night, sims):
    honest = sims["honest"]
    nights.store_run(night / "k", honest.history, honest.plan, run="raft-k", end=False)
    assert answers(add(corpus, night / "k")) == ["stored"]
    assert not corpus.runs()[0]["complete"]


@pytest.mark.parametrize("file", [store.RUN, store.PLAN])
def test_a_run_of_a_newer_schema_is_refused(corpus, night, file):
    nights.change(night / "a" / file, schema=99)
    [row] = add(corpus, night / "a")
    assert row.answer == "refused"
    assert "schema 99" in row.why
    assert "newer dethrone" in row.why


def test_a_history_of_a_newer_schema_is_refused(corpus, night):
    path = stored.older(night / "a")
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":99', 1))
    [row] = add(corpus, night / "a")
    assert row.answer == "refused"
    assert "schema 99" in row.why


@pytest.mark.parametrize("name", ["", "../up", "a/b", "12345", "nan", "a b", "x=y"])
def test_names_that_paths_or_readers_would_take_for_something_else_are_refused(corpus, night, name):
    nights.change(night / "a" / store.RUN, run_id=name)
    [row] = add(corpus, night / "a")
    assert row.answer == "refused"
    assert corpus.runs() == []


def test_what_a_crash_between_events_and_manifest_left_is_finished_by_adding_again(corpus, night):
    add(corpus, night / "a")
    [row] = corpus.runs()
    corpus.place.delete("runs/raft-a.parquet")  # as if it had never been written
    assert corpus.runs() == []
    assert [one.kind for one in upkeep.verify(corpus, progress=quiet).damage] == ["orphan"]
    assert answers(add(corpus, night / "a")) == ["stored"]
    assert corpus.runs()[0]["content"] == row["content"]
    assert upkeep.verify(corpus, progress=quiet).damage == ()


def test_a_torn_file_of_an_earlier_attempt_is_replaced(corpus, night, tmp_path):
    add(corpus, night / "a")
    path = tmp_path / "corpus" / corpus.runs()[0]["path"]
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    corpus.place.delete("runs/raft-a.parquet")
    assert answers(add(corpus, night / "a")) == ["stored"]
    assert path.read_bytes() == whole


def test_events_that_somebody_removed_are_put_back(corpus, night):
    add(corpus, night / "a")
    path = corpus.runs()[0]["path"]
    corpus.place.delete(path)
    assert [one.kind for one in upkeep.verify(corpus, progress=quiet).damage] == ["missing"]
    assert answers(add(corpus, night / "a", now_ns=2)) == ["stored"]
    assert upkeep.verify(corpus, progress=quiet).damage == ()


def test_killed_at_any_moment_an_addition_can_be_done_again(tmp_path, night):
    words = [
        sys.executable,
        "-P",
        "-m",
        "dethrone.harness.cli",
        "corpus",
        "add",
        str(night),
        "--corpus",
        str(tmp_path / "k"),
    ]
    for grace_s in (0.6, 1.2):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
    corpus = open_corpus(str(tmp_path / "k"), make=True)
    assert set(answers(add(corpus, night))) <= {"stored", "duplicate"}
    assert len(corpus.runs()) == 3
    upkeep.compact(corpus, now_ns=5)
    assert upkeep.verify(corpus, progress=quiet).damage == ()
    assert corpus.place.files("_staging") == []


def test_compaction_keeps_every_row(corpus, night):
    add(corpus, night)
    before = corpus.runs()
    done = upkeep.compact(corpus, now_ns=7)
    assert (done.before["runs"], done.after["runs"]) == (3, 2)  # one file a date
    assert corpus.runs() == before
    assert answers(add(corpus, night)) == ["duplicate"] * 3
    again = upkeep.compact(corpus, now_ns=8)
    assert (again.before["runs"], again.after["runs"]) == (2, 2)
    assert corpus.runs() == before


def test_leftovers_of_broken_additions_are_removed(tmp_path, night):
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    add(corpus, night / "a")
    corpus.place.create("_staging/abc", b"half")
    corpus.place.create("events/date=2026-01-01/system=raft/run=x/y.parquet", b"half")
    assert upkeep.compact(corpus, now_ns=7).leftovers == 2
    assert upkeep.verify(corpus, progress=quiet).damage == ()
    assert not (tmp_path / "corpus" / "events" / "date=2026-01-01").exists()


@pytest.mark.parametrize("moment", ["sync", "_name"])
def test_compaction_leaves_alone_what_somebody_is_staging(tmp_path, monkeypatch, moment):
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    corpus.place.create("_staging/left", b"half")
    swept, then = [], getattr(places, moment)

    def compact_now(*paths):
        if not swept:  # as a compaction in another process would, between two steps of a writer that holds no lock
            swept.append(upkeep.compact(open_corpus(str(tmp_path / "corpus")), now_ns=7).leftovers)
        return then(*paths)

    monkeypatch.setattr(places, moment, compact_now)
    assert corpus.place.create("verdicts/check-1.parquet", b"whole")
    assert (tmp_path / "corpus" / "verdicts" / "check-1.parquet").read_bytes() == b"whole"
    assert swept == [0]
    corpus.place.delete("verdicts/check-1.parquet")
    assert upkeep.compact(corpus, now_ns=8).leftovers == 1  # and once nobody stages, it goes


def test_a_directory_is_not_taken_away_from_under_a_file_that_is_put_there(tmp_path, monkeypatch):
    place = LocalPlace(tmp_path)
    place.create("verdicts/old.parquet", b"old")
    name = places._name

    def delete_first(staged, target):
        place.delete("verdicts/old.parquet")
        name(staged, target)

    monkeypatch.setattr(places, "_name", delete_first)
    assert place.create("verdicts/new.parquet", b"new")
    assert [entry.path for entry in place.files("verdicts")] == ["verdicts/new.parquet"]


@pytest.mark.parametrize("harm", ["cut", "swapped", "flipped"])
def test_verify_finds_damaged_events_and_names_the_run(corpus, night, tmp_path, harm):
    add(corpus, night)
    paths = {row["run"]: tmp_path / "corpus" / row["path"] for row in corpus.runs()}
    path = paths["raft-a"]
    whole = path.read_bytes()
    if harm == "cut":
        path.write_bytes(whole[:-9])
    elif harm == "swapped":
        path.write_bytes(paths["raft-c"].read_bytes())
    else:
        path.write_bytes(whole[:2000] + bytes(byte ^ 255 for byte in whole[2000:2400]) + whole[2400:])
    [one] = upkeep.verify(corpus, progress=quiet).damage
    assert (one.kind, one.run) == ("damaged", "raft-a")


def judged(corpus, run, outcome="pass", *, now_ns=1, date="2026-11-20"):
    row = {"run": run, "date": date, "checker": "one-leader-per-term", "outcome": outcome, "written_ns": now_ns}
    tables.append(corpus.place, layout.VERDICTS, tables.rows_of(layout.VERDICTS, [row]), name=f"{run}-{now_ns}")


def test_pruning_removes_old_events_of_judged_runs_and_nothing_else(corpus, night):
    add(corpus, night)
    judged(corpus, "raft-a", "fail")
    judged(corpus, "raft-c", date="2026-11-21")
    finding = {"run": "raft-a", "date": "2026-11-20", "checker": "one-leader-per-term", "number": 0, "written_ns": 1}
    tables.append(corpus.place, layout.FINDINGS, tables.rows_of(layout.FINDINGS, [finding]), name="f")
    now = 1_795_219_200 * 10**9  # the midnight in which 2026-11-21 begins
    assert upkeep.prune(corpus, keep_days=1, now_ns=now).runs == ()
    done = upkeep.prune(corpus, keep_days=0, now_ns=now)
    assert (done.before, done.runs, done.unjudged) == ("2026-11-21", ("raft-a",), ("raft-b",))
    assert {row["run"]: row["state"] for row in corpus.runs()} == {
        "raft-a": "pruned",
        "raft-b": "stored",
        "raft-c": "stored",
    }
    assert upkeep.verify(corpus, progress=quiet).damage == ()
    upkeep.compact(corpus, now_ns=now + 1)
    assert corpus.findings().column("run").to_pylist() == ["raft-a"]
    assert answers(add(corpus, night / "a")) == ["duplicate"]


def test_findings_of_an_older_verdict_are_not_shown(corpus):
    for moment, numbers in ((1, (0, 1)), (2, ())):
        judged(corpus, "raft-a", now_ns=moment)
        rows = [
            {"run": "raft-a", "date": "2026-11-20", "checker": "one-leader-per-term", "number": n, "written_ns": moment}
            for n in numbers
        ]
        tables.append(corpus.place, layout.FINDINGS, tables.rows_of(layout.FINDINGS, rows), name=f"f{moment}")
        assert corpus.findings().column("number").to_pylist() == list(numbers)
    upkeep.compact(corpus, now_ns=3)
    assert corpus.place.files("findings") == []


def test_a_table_of_an_older_version_lacks_columns_and_a_newer_one_is_refused(corpus):
    old = pa.schema([("run", pa.string()), ("date", pa.string()), ("written_ns", pa.int64())])
    rows = pa.table([["r"], ["2026-01-01"], [1]], schema=old.with_metadata({b"dethrone.table": b"runs 1"}))
    assert corpus.place.create("runs/old.parquet", tables.encode_rows(rows))
    [row] = tables.read(corpus.place, layout.RUNS).to_pylist()
    assert (row["run"], row["plan"]) == ("r", None)
    newer = rows.replace_schema_metadata({b"dethrone.table": b"runs 99"})
    corpus.place.create("runs/newer.parquet", tables.encode_rows(newer))
    with pytest.raises(HistoryError, match="schema 99"):
        corpus.runs()
    assert [one.kind for one in upkeep.verify(corpus, progress=quiet).damage] == ["damaged"]


def test_a_directory_of_somebody_else_is_never_written_to(tmp_path, night):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="no corpus, and it is not empty"):
        open_corpus(str(tmp_path / "mine"), make=True)
    with pytest.raises(ConfigError, match="there is no corpus here"):
        open_corpus(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


def test_a_corpus_of_a_newer_version_is_refused(tmp_path):
    corpus = open_corpus(str(tmp_path / "c"), make=True)
    (tmp_path / "c" / layout.MARKER).write_text('{"corpus": 9}')
    with pytest.raises(ConfigError, match="version 9"):
        open_corpus(corpus.place.url)


def test_a_file_is_created_once_and_never_in_halves(tmp_path):
    place = LocalPlace(tmp_path / "p")
    assert place.create("a/b", b"1")
    assert not place.create("a/b", b"2")
    assert (tmp_path / "p" / "a" / "b").read_bytes() == b"1"
    assert place.files("_staging") == []


def test_a_scheme_that_nobody_knows_is_said():
    with pytest.raises(ConfigError, match="cannot open the corpus"):
        place_of("gopher://somewhere/corpus")


@pytest.mark.slow
def test_two_adders_at_once_store_each_run_once(tmp_path, night):
    words = [
        sys.executable,
        "-P",
        "-m",
        "dethrone.harness.cli",
        "corpus",
        "add",
        str(night),
        "--corpus",
        str(tmp_path / "two"),
    ]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = sorted(process.communicate(timeout=60)[0].split("  in ")[0].splitlines()[-1] for process in both)
    assert told == ["3 duplicate", "3 stored"]
    assert len(open_corpus(str(tmp_path / "two")).runs()) == 3


def test_pandas_and_duckdb_read_the_partitions(corpus, night):
    duckdb = pytest.importorskip("duckdb")
    pd = pytest.importorskip("pandas")
    add(corpus, night)
    rows = corpus.runs()
    base = next(path for path in (night.parent / "corpus",) if path.exists())
    found = (
        duckdb.read_parquet(f"{base}/events/**/*.parquet", hive_partitioning=True, union_by_name=True)
        .aggregate("run, count(*) as n, max(t) as t", "run")
        .order("run")
        .fetchall()
    )
    assert [(run, n) for run, n, _ in found] == [(row["run"], row["events"]) for row in rows]
    frame = pd.read_parquet(base / "events")
    assert frame.groupby("run", observed=True).size().to_dict() == {row["run"]: row["events"] for row in rows}
    assert str(frame["t"].dtype) == "int64"


def test_old_files_and_new_ones_are_read_together(corpus, night):
    duckdb = pytest.importorskip("duckdb")
    add(corpus, night / "a")
    old = next((nights.TESTS / "golden" / "parquet").glob("schema-1.*.parquet"))
    path = "events/date=2025-01-01/system=raft/run=old/x.parquet"
    corpus.place.create(path, old)
    base = night.parent / "corpus"
    names = (
        duckdb.read_parquet(f"{base}/events/**/*.parquet", hive_partitioning=True, union_by_name=True)
        .aggregate("run, count(candidate)", "run")
        .fetchall()
    )
    assert dict(names)["old"] == 0
    assert dict(names)["raft-a"] > 0
    assert parquet.history_of(corpus.place.open(path), where="").events
    assert pq.read_schema(old).metadata[b"dethrone.schema"] == b"1"


def test_time_is_told_by_the_caller():
    assert ingest._started("2026-11-20T23:30:00-02:00").isoformat() == "2026-11-21T01:30:00+00:00"
    assert time.gmtime(1_795_219_200)[:4] == (2026, 11, 21, 0)


def test_a_file_system_without_links_keeps_what_is_there_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    place = LocalPlace(tmp_path / "p")
    assert [place.create("a", b"1"), place.create("a", b"2")] == [True, False]
    assert (tmp_path / "p" / "a").read_bytes() == b"1"
    assert place.files("_staging") == []


def test_a_run_that_cannot_be_read_stops_no_other(corpus, night, monkeypatch):
    def unreadable(history):
        if history.parent.name == "a":
            raise PermissionError(13, "Permission denied", str(history))
        return ends(history)

    ends = ingest._ends
    monkeypatch.setattr(ingest, "_ends", unreadable)
    rows = add(corpus, night)
    assert answers(rows) == ["refused", "stored", "stored"]
    assert "Permission denied" in rows[0].why
