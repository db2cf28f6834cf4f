"""A real standalone cluster of two workers, started from the pyspark package: one of them is killed in mid-job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nights
import pytest

from harness.pipeline import ingest
from harness.pipeline.corpus import open_corpus

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIMIT_S = 300
RUNS = 8
CHECKERS = ("--checker", "leader-has-majority", "--checker", "one-leader-per-term")


def home() -> Path:
    """Where Spark lies: workers start executors from there."""
    import pyspark

    return Path(pyspark.__file__).parent


def until(condition, what: str, process: subprocess.Popen | None = None):
    """What ``condition`` gives, once it gives something."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        if process is not None and process.poll() is not None:
            raise AssertionError(f"it ended before: {what}")
        time.sleep(0.05)
    raise AssertionError(f"not within {LIMIT_S} s: {what}")


@contextlib.contextmanager
def started(words, log: Path):
    core = next((home() / "jars").glob("spark-core_*.jar")).name  # as its shell scripts would tell them
    scala = core.removeprefix("spark-core_").partition("-")[0]
    environment = {**os.environ, "SPARK_HOME": str(home()), "SPARK_SCALA_VERSION": scala}
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True, env=environment)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.fixture
def cluster(tmp_path, java):
    """The master's URL, and two workers of one core each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(home() / "jars" / "*")]
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(
            started(
                [*java, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)], tmp_path / "master.log"
            )
        )
        until(lambda: "I have been elected leader" in (tmp_path / "master.log").read_text(), "a master", master)
        workers = []
        for number in (1, 2):
            words = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}"), url]
            log = tmp_path / f"worker-{number}.log"
            workers.append(
                stack.enter_context(started([*java, "org.apache.spark.deploy.worker.Worker", *here, *words], log))
            )
            until(lambda log=log: "Successfully registered" in log.read_text(), "a worker", workers[-1])
        yield url, workers


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
        "harness.cli",
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


def test_a_worker_killed_in_mid_job_changes_no_answer(cluster, tmp_path, sims):
    url, workers = cluster
    for number in range(RUNS):
        run = sims["bug" if number % 3 == 0 else "honest"]
        nights.store_run(tmp_path / "night" / str(number), run.history, run.plan, run=f"raft-{number:02d}x")
    places = [str(tmp_path / name) for name in ("far", "near")]
    for place in places:
        list(ingest.add(open_corpus(place, make=True), ingest.find_runs([tmp_path / "night"]), now_ns=1))
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    settings = [word for key, value in conf.items() for word in ("--spark-conf", f"{key}={value}")]
    environment = {**os.environ, "DETHRONE_STATE_DIR": str(tmp_path / "state")}
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context((tmp_path / name).open("w+", encoding="utf-8")) for name in ("out", "err"))
        words = check(places[0], "--master", url, *settings)
        process = subprocess.Popen(words, stdout=out, stderr=err, env=environment)
        stack.callback(process.kill)
        victim = workers[0].pid
        family = until(lambda: judging(victim), "a task on the first worker", process)
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
