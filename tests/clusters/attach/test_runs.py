"""Whole runs on somebody else's containers, through the command line, and one whose harness is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from dethrone.clusters.attach.sidecar import list_sidecars
from dethrone.harness.core.events import FaultEvent, Observed
from dethrone.harness.core.history import read_history

pytestmark = pytest.mark.docker

DETHRONE = [sys.executable, "-m", "dethrone.harness.cli"]


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "DETHRONE_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def untouched(theirs, client, image):
    """Asserts that all of them run, are the same ones, and nothing of ours is on them."""
    before = theirs.states()

    def look() -> None:
        assert theirs.states() == before
        assert not [one for one in list_sidecars(client) if one.target in dict(before)]
        assert "DETHRONE" not in theirs.rules(image)

    return look


def run(theirs, out, *more: str) -> list[str]:
    words = ["run", "etcd", "--on", "attach", "--label", theirs.label, "--out", str(out)]
    return [*DETHRONE, *words, "--set", "election_timeout_ms=500", "--set", "heartbeat_interval_ms=50", *more]


def test_a_run_judges_them_and_leaves_them_running(theirs, env, tmp_path, untouched):
    more = ["--time-limit", "14s", "--nemesis-interval", "4s", "--faults", "partition,kill", "--workload", "election"]
    done = subprocess.run(
        run(theirs, tmp_path / "run", "--json", *more), env=env, capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    assert done.returncode in {0, 2}, done.stderr
    assert not told["trouble"], told["trouble"]
    assert told["verdict"] in {"pass", "unknown"}
    events = read_history(tmp_path / "run" / "history.jsonl")
    outcomes = [event.outcome for event in events if isinstance(event, FaultEvent)]
    assert "installed" in outcomes
    assert "healed" in outcomes
    assert sum(isinstance(event, Observed) and event.role == "leader" for event in events) > 10
    untouched()
    assert list((tmp_path / "state" / "runs").iterdir()) == []


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
def test_what_a_killed_harness_broke_is_healed(theirs, env, tmp_path, until, untouched):
    more = ["--time-limit", "60s", "--nemesis-interval", "20s", "--faults", "pause", "--seed", "1"]
    process = subprocess.Popen(
        run(theirs, tmp_path / "run", *more), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: process.poll() is not None or "paused" in [status for _, status in theirs.states()], 60)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run([*DETHRONE, "heal"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "healed" in done.stdout + done.stderr
    untouched()
