"""On a real standalone cluster of two workers: a campaign, killed and gone on with, and a worker killed in mid-job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.campaign.row_file import ROWS, stream_rows
from dethrone.harness.engine.campaign.virtual_seeds import rows_of
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.pipeline import ingest
from dethrone.harness.pipeline.corpus import open_corpus
from tests.pipeline import nights, standalone
from tests.pipeline.standalone import LIMIT_S
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.nightly("a Spark cluster of its own; the other tests share one session")]

RUNS = 8
CHECKERS = ("--checker", "leader-has-majority", "--checker", "one-leader-per-term")
SEEDS = 120
CAMPAIGN = ("nacos", "--on", "sim", "--nodes", "3", "--time-limit", "20s", "--workload", "election")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, java):
    """The master's URL, and two workers of one core each; the last test of this module kills one of them."""
    with standalone.cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def below(pid: int) -> list[int]:
    """A process' children, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def judging(pid: int) -> list[int]:
    """Processes below that worker, once one of them is a Python with a task of its own."""
    pids = below(pid)
    pythons = 0
    for one in pids:
        with contextlib.suppress(OSError):
            pythons += b"pyspark.daemon" in Path(f"/proc/{one}/cmdline").read_bytes()
    return pids if pythons > 1 else []  # the first is the daemon that makes the others


def check(corpus: str, *words: str) -> list[str]:
    return [
        sys.executable,
        "-P",
        "-m",
        "dethrone.harness.cli",
        "corpus",
        "check",
        "--json",
        "--corpus",
        corpus,
        *CHECKERS,
        *words,
    ]


def told(out: str) -> tuple:
    value = json.loads(out)
    assert value["trouble"] == []
    return value["exit_code"], value["verdict"], value["runs"], value["findings"]


def told_rows(rows) -> list:
    """Rows without how long they took, and where they are kept."""
    return [msgspec.structs.replace(row, elapsed_ns=0, run_dir="", findings=tuple(row.findings)) for row in rows]


def test_a_campaign_killed_and_gone_on_with_has_each_local_row_once_on_workers_without_dethrone(cluster, tmp_path):
    url, _ = cluster
    python = standalone.bare_python(tmp_path / "bare")
    for words, code in (("import msgspec, networkx, numpy, pyarrow, scipy", 0), ("import dethrone.harness", 1)):
        asked = subprocess.run([python, "-P", "-c", words], cwd=tmp_path, capture_output=True, check=False)
        assert asked.returncode == code
    out, corpus = tmp_path / "campaign", tmp_path / "corpus"
    words = [sys.executable, "-P", "-m", "dethrone.harness.cli", "campaign", *CAMPAIGN, "--seeds", f"0..{SEEDS - 1}"]
    words += ["--out", str(out), "--corpus", str(corpus), "--keep-failing", "1", "--json"]
    words += ["--engine", "spark", "--master", url, *standalone.spark_conf()]
    environment = {
        **os.environ,
        "DETHRONE_STATE_DIR": str(tmp_path / "state"),
        "PYSPARK_PYTHON": str(python),
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short jobs: start-up counts
    }
    with (tmp_path / "out").open("wb") as sink:
        first = subprocess.Popen(words, stdout=sink, stderr=sink, env=environment)
        try:
            until(lambda: len(list(stream_rows(out / ROWS))), LIMIT_S, what="a row", process=first)
        finally:
            first.kill()
            first.wait(LIMIT_S)
    before = list(stream_rows(out / ROWS))
    assert 0 < len(before) < SEEDS, (tmp_path / "out").read_text()
    second = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment)
    assert second.returncode == 1, second.stderr
    rows = list(stream_rows(out / ROWS))
    assert rows[: len(before)] == before
    options = RunOptions(system="nacos", backend="sim", nodes=3, time_limit_ns=20 * SECOND, workload="election")
    assert told_rows(rows) == told_rows(rows_of(options, range(SEEDS), jobs=1))
    value = json.loads(second.stdout)
    assert (value["trouble"], sum(value["counts"].values())) == ([], SEEDS)
    [kept] = [row for row in rows if row.run_dir]
    assert (Path(kept.run_dir) / "verdict.json").exists()
    brought = open_corpus(str(corpus)).seeds("seed", "run").to_pylist()
    assert [row["seed"] for row in brought] == list(range(SEEDS))
    assert [row["seed"] for row in brought if row["run"]] == [kept.seed]
    assert len(open_corpus(str(corpus)).runs()) == 1


def test_a_worker_killed_in_mid_job_changes_no_answer(cluster, tmp_path, sims):
    url, workers = cluster
    for number in range(RUNS):
        run = sims["bug" if number % 3 == 0 else "honest"]
        nights.store_run(tmp_path / "night" / str(number), run.history, run.plan, run=f"raft-{number:02d}x")
    places = [str(tmp_path / name) for name in ("far", "near")]
    for place in places:
        list(ingest.add(open_corpus(place, make=True), ingest.find_runs([tmp_path / "night"]), now_ns=1))
    settings = standalone.spark_conf()
    environment = {**os.environ, "DETHRONE_STATE_DIR": str(tmp_path / "state")}
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context((tmp_path / name).open("w+", encoding="utf-8")) for name in ("out", "err"))
        words = check(places[0], "--master", url, *settings)
        process = subprocess.Popen(words, stdout=out, stderr=err, env=environment)
        stack.callback(process.kill)
        victim = workers[0].pid
        family = until(lambda: judging(victim), LIMIT_S, what="a task on the first worker", process=process)
        for pid in (victim, *family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = process.wait(LIMIT_S)
    far = (tmp_path / "out").read_text()
    assert code == 1, (tmp_path / "err").read_text()
    near = subprocess.run(
        check(places[1], "--master", "local[1]"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=environment,
    )
    assert told(far) == told(near.stdout)
    assert len(json.loads(far)["runs"]) == RUNS
