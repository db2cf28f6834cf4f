"""Campaigns on Spark: the sizes of waves, what is sent, rows that are those of a local campaign, and the corpus."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError, HarnessError, MissingCapability
from dethrone.harness.engine.campaign import campaign as engine
from dethrone.harness.engine.campaign.virtual_seeds import rows_of
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.pipeline import campaign, campaign_corpus, campaign_worker, shipping
from dethrone.harness.pipeline.campaign_waves import SEEDS_MAX, TASK_NS, halves, pieces, shape
from dethrone.harness.pipeline.corpus import open_corpus

SEEDS = range(40, 60)


def options(**fields) -> RunOptions:
    plain = {"system": "nacos", "backend": "sim", "nodes": 3, "time_limit_ns": 20 * SECOND, "workload": "election"}
    return RunOptions(**(plain | fields))


def told(rows) -> list:
    return [msgspec.structs.replace(row, elapsed_ns=0, run_dir="", findings=tuple(row.findings)) for row in rows]


@pytest.fixture(scope="module")
def local():
    return told(rows_of(options(), SEEDS, jobs=1))


def on(spark, wanted=SEEDS, **fields):
    source = campaign.spark_source(spark, lambda _line: None)
    return list(source(options(**fields), wanted, count=len(wanted), on_the_way=lambda _seeds: None))


# Waves


@settings(deadline=None)
@given(st.integers(1, 2_000_000), st.integers(1, 5000), st.none() | st.integers(0, 100 * SECOND))
def test_a_wave_is_never_empty_and_never_too_large(left, slots, seed_ns):
    found = shape(left=left, slots=slots, seed_ns=seed_ns)
    assert found.tasks >= 1
    assert found.seeds >= 1
    assert found.tasks * found.seeds <= SEEDS_MAX
    assert (found.tasks - 1) * found.seeds < left  # no task is without a seed
    if seed_ns and found.seeds > 1:
        assert found.seeds * seed_ns <= TASK_NS


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 8), st.none() | st.integers(1, SECOND))
def test_all_seeds_go_out_once_and_in_order(count, slots, seed_ns):
    coming, sent = iter(range(count)), []
    while len(sent) < count:
        wave = pieces(coming, shape(left=count - len(sent), slots=slots, seed_ns=seed_ns))
        assert wave
        sent += [seed for piece in wave for seed in piece]
    assert sent == list(range(count))


def test_tasks_last_two_seconds_and_get_smaller_at_the_end():
    assert shape(left=100_000, slots=2, seed_ns=20 * MS).seeds == 100
    assert shape(left=80, slots=2, seed_ns=20 * MS).seeds == 10
    assert shape(left=3, slots=2, seed_ns=20 * MS).tasks == 3


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(), min_size=1, max_size=6).map(tuple), min_size=1, max_size=6))
def test_halves_come_to_the_whole_and_end_with_single_seeds(wave):
    singles, todo = [], [wave]
    while todo:
        one = todo.pop(0)
        parts = halves(one)
        assert not parts or [seed for part in parts for piece in part for seed in piece] == [
            seed for piece in one for seed in piece
        ]
        todo = parts + todo
        singles += [] if parts else [seed for piece in one for seed in piece]
    assert singles == [seed for piece in wave for seed in piece]


# What is sent


def test_the_same_code_is_the_same_file_and_holds_the_entry_points(tmp_path):
    one, other = shipping.pack(tmp_path / "a"), shipping.pack(tmp_path / "b")
    assert one.path.name == other.path.name
    assert one.path.read_bytes() == other.path.read_bytes()
    assert "dethrone" in one.holds
    names = zipfile.ZipFile(one.path).namelist()
    assert {"dethrone/harness/engine/campaign/virtual_seeds.py", "dethrone/nemesis/scenarios/raft-b1.toml"} <= set(
        names
    )
    assert not any("__pycache__" in name or name.startswith("tests/") for name in names)
    script = "from importlib.metadata import entry_points as e; print(len(e(group='dethrone.checkers')))"
    words = [sys.executable, "-S", "-P", "-c", script]
    done = subprocess.run(words, env={"PYTHONPATH": str(one.path)}, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 20


def plug_in(base: Path, name: str, *files: str) -> None:
    info = base / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dethrone.checkers]\n{name}-x = {name}.inner:CHECKER\n")
    (base / name).mkdir()
    for file in ("__init__.py", *files):
        (base / name / file).write_text("")


def test_plug_ins_travel_too_unless_they_have_compiled_parts(tmp_path, monkeypatch):
    plug_in(tmp_path / "site", "pureplug", "inner.py", "data.json")
    plug_in(tmp_path / "site", "fastplug", "inner.py", "kernel.so")
    monkeypatch.syspath_prepend(tmp_path / "site")
    parcel = shipping.pack(tmp_path / "out")
    assert {"dethrone", "pureplug"} <= set(parcel.holds)
    assert parcel.left_out == ("fastplug",)
    names = zipfile.ZipFile(parcel.path).namelist()
    assert {"pureplug/inner.py", "pureplug/data.json", "pureplug-1.0.dist-info/entry_points.txt"} <= set(names)
    assert not any(name.startswith("fastplug") for name in names)


def test_a_schedule_travels_with_the_options(tmp_path):
    schedule = tmp_path / "s.toml"
    schedule.write_text("x = 1")
    packed = campaign_worker.pack_work(options(schedule=schedule, out=tmp_path))
    schedule.unlink()
    with campaign_worker.unpacked(packed) as found:
        assert found.schedule.read_text() == "x = 1"
        assert found.schedule.suffix == ".toml"
        assert found.out is None
    assert not found.schedule.exists()
    with pytest.raises(ConfigError, match="cannot read the schedule"):
        campaign_worker.pack_work(options(schedule=schedule))


def test_known_findings_travel_with_the_options(tmp_path):
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\nsignature = "a"\nwhy = "b"\n')
    packed = campaign_worker.pack_work(options(known=known))
    known.unlink()
    with campaign_worker.unpacked(packed) as found:
        assert "signature" in found.known.read_text()
        assert found.schedule is None


def test_a_worker_without_a_dependency_says_which(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "dethrone.harness.pipeline.campaign_worker", None)
    batch = pa.RecordBatch.from_arrays([pa.array([0])], names=["id"])
    [answer] = campaign._looking(campaign_worker.pack_work(options()), 1)([batch])
    able = json.loads(answer.column("able")[0].as_py())
    assert "campaign_worker" in able["why_not"]
    assert sys.executable in able["why_not"]


def test_a_session_of_spark_connect_is_refused():
    pytest.importorskip("pyspark")
    from pyspark.errors import PySparkAttributeError

    class Connect:
        @property
        def sparkContext(self):  # noqa: N802 - pyspark's name
            raise PySparkAttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED")

    with pytest.raises(MissingCapability, match="Spark Connect"):
        on(Connect())


def test_a_spark_that_is_gone_is_said_with_what_to_do():
    pytest.importorskip("pyspark")
    from py4j.protocol import Py4JNetworkError

    class Gone:
        @property
        def sparkContext(self):  # noqa: N802 - pyspark's name
            raise Py4JNetworkError("Answer from Java side is empty")

    run = campaign._Run(spark=Gone(), packed=b"", first=0, parcel=None)
    with pytest.raises(HarnessError, match="Spark itself is gone: Answer from Java side") as error:
        list(run.rows(iter(range(5)), 5, lambda _seeds: None))
    assert "resumes where it stopped" in error.value.next_step


# On Spark


@pytest.mark.spark
def test_rows_on_spark_are_the_local_rows_in_the_order_of_the_seeds(spark, local):
    assert told(on(spark)) == local


@pytest.mark.spark
def test_options_that_make_no_run_are_said_at_once(spark):
    with pytest.raises(ConfigError, match="no-such"):
        on(spark, workload="no-such")


@pytest.mark.nightly("Spark restarts its workers; make test ends one in a check")
@pytest.mark.spark
def test_a_seed_that_kills_workers_is_trouble_and_harms_no_other(spark, local, monkeypatch):
    deadly = SEEDS[1]

    def simulating(packed, wave):
        def simulate_pieces(batches):
            import os

            import pyarrow as pa

            from dethrone.harness.pipeline.campaign_worker import simulate

            for batch in batches:
                for position in batch.column("id").to_pylist():
                    if deadly in wave[position]:
                        os._exit(9)
                    told = simulate(packed, wave[position])
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([position], pa.int64()), pa.array([told], pa.binary())], names=["position", "rows"]
                    )

        return simulate_pieces

    monkeypatch.setattr(campaign, "_simulating", simulating)
    rows = on(spark)
    assert [row.seed for row in rows] == list(SEEDS)
    [dead] = [row for row in rows if row.exit_code == EXIT_TROUBLE]
    assert (dead.seed, dead.outcome) == (deadly, "unknown")
    assert "the worker died while it simulated this seed" in dead.reason
    assert [row for row in told(rows) if row.seed != deadly] == [row for row in local if row.seed != deadly]


@pytest.mark.spark
def test_workers_that_cannot_simulate_are_said_before_the_first_seed(spark, monkeypatch):
    def looking(_packed, _seed):
        def look_around(batches):
            import pyarrow as pa

            for _ in batches:
                told = b'{"host": "far", "home": "", "why_not": "No module named \'msgspec\'"}'
                yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["able"])

        return look_around

    monkeypatch.setattr(campaign, "_looking", looking)
    with pytest.raises(HarnessError, match="a worker cannot simulate: No module named 'msgspec'") as error:
        on(spark)
    assert error.value.where == "far"
    assert "networkx" in error.value.cause


@pytest.mark.spark
def test_whoever_stops_reading_stops_the_jobs(spark):
    source = campaign.spark_source(spark, lambda _line: None)
    rows = source(options(), range(1_000_000), count=1_000_000, on_the_way=lambda _seeds: None)
    assert next(rows).seed == 0
    rows.close()
    tracker = spark.sparkContext.statusTracker()
    for _ in range(600):
        if not tracker.getActiveJobsIds():
            break
        spark.range(1).count()  # something to wait with
    assert tracker.getActiveJobsIds() == []


# Into a corpus


def bring(corpus, out, seeds, **more):
    by = engine.local_source(1)
    with campaign_corpus.bringing(corpus, options(), version="1") as bringer:
        engine.run_virtual(options(), seeds, out, Silence(), lambda _row: None, source=by, on_kept=bringer.take, **more)
    return bringer


def test_each_seed_is_one_row_of_the_corpus_and_kept_runs_are_in_it(tmp_path):
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    first = bring(corpus, tmp_path / "c", range(6), keep_failing=1)
    assert first.brought == 6
    again = bring(corpus, tmp_path / "c", range(8), keep_failing=1)
    assert again.brought == 2
    rows = corpus.seeds().to_pylist()
    assert [row["seed"] for row in rows] == list(range(8))
    stored = engine.read_rows(tmp_path / "c")
    names = ("seed", "outcome", "exit_code", "reason", "findings", "elections", "faults", "ops_ok", "elapsed_ns")
    assert [[row[name] for name in names] for row in rows] == [
        [list(value) if isinstance(value := getattr(row, name), list | tuple) else value for name in names]
        for row in stored
    ]
    [run] = corpus.runs("run")
    assert [row["run"] for row in rows if row["run"]] == [run["run"]]
    [said] = corpus.campaigns().to_pylist()
    assert said["campaign"] == first.campaign == again.campaign
    assert json.loads(said["options"])["options"]["workload"] == "election"


def test_rows_that_a_killed_campaign_could_not_bring_are_brought_by_the_next(tmp_path):
    engine.run_campaign(options(), range(5), tmp_path / "c", Silence(), lambda _row: None, keep_failing=1)
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    assert bring(corpus, tmp_path / "c", range(5)).brought == 5
    assert bring(corpus, tmp_path / "c", range(5)).brought == 0
    assert len(corpus.runs()) == 1


def test_other_options_or_another_version_are_another_campaign(tmp_path):
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    names = set()
    for version, fields in (("1", {}), ("2", {}), ("1", {"nodes": 5}), ("1", {"fail_on": "violation"})):
        with campaign_corpus.bringing(corpus, options(**fields), version=version) as bringer:
            names.add(bringer.campaign)
    assert len(names) == 3


def test_few_files_are_left_after_compacting(tmp_path, monkeypatch):
    from dethrone.harness.pipeline import layout, upkeep

    monkeypatch.setattr(campaign_corpus, "ROWS_MAX", 2)
    corpus = open_corpus(str(tmp_path / "corpus"), make=True)
    bring(corpus, tmp_path / "c", range(6), keep_failing=0)
    assert len(corpus.place.files(layout.SEEDS.name)) == 3
    before = corpus.seeds()
    upkeep.compact(corpus, now_ns=1)
    assert len(corpus.place.files(layout.SEEDS.name)) == 1
    assert corpus.seeds().equals(before)
    assert upkeep.verify(corpus, progress=lambda _done, _total: None).damage == ()
