"""Whole runs on local hosts: through the command line, as a user does, and killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dethrone.clusters.local import owned
from dethrone.harness.core.history import read_history

pytestmark = pytest.mark.namespaces

DETHRONE = [sys.executable, "-m", "dethrone.harness.cli"]


@pytest.fixture
def env(root, tmp_path):
    return {**os.environ, "DETHRONE_STATE_DIR": str(tmp_path / "state")}


def words(out: Path, *more: str) -> list[str]:
    return [*DETHRONE, "run", "raft", "--on", "local", "--out", str(out), *more]


def test_a_run_written_for_containers_runs_on_this_machine(env, tmp_path):
    drawn = ["--nodes", "3", "--faults", "partition", "--seed", "7", "--time-limit", "16s", "--data-in", "memory"]
    more = [*drawn, "--time-scale", "1", "--json"]  # also on a machine that is too slow for a verdict
    done = subprocess.run(words(tmp_path / "run", *more), env=env, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["verdict"] != "fail", done.stderr
    assert not told["trouble"], told["trouble"]
    assert done.returncode in {0, 2}, done.stderr
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["data_in"] == "memory"
    phases = [event.outcome for event in read_history(tmp_path / "run" / "history.jsonl") if hasattr(event, "outcome")]
    assert "installed" in phases
    assert "healed" in phases
    assert told["figures"]["cluster_up_ms"] > 0
    assert list((tmp_path / "state" / "runs").iterdir()) == []


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
def test_what_a_killed_harness_left_is_healed_and_a_live_run_is_not_disturbed(env, tmp_path, three, told):
    process = subprocess.Popen(
        words(tmp_path / "run", "--nodes", "3", "--time-limit", "60s", "--nemesis-interval", "1s"),
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        run_id = wait_for_a_fault(tmp_path / "state", process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert {one.node for one in owned.processes() if one.run_id == run_id} == {"n1", "n2", "n3", "switch"}
    for _ in range(2):
        done = subprocess.run([*DETHRONE, "heal"], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not [one for one in owned.processes() if one.run_id == run_id]
        assert not [one for one in owned.devices() if one.run_id == run_id]
    assert list((tmp_path / "state" / "runs").iterdir()) == []
    assert told(three.hosts["n1"].address) == "n1"


def wait_for_a_fault(state: Path, process: subprocess.Popen[bytes], limit_s: float = 40.0) -> str:
    """The run's id, once its ledger says that hosts are being broken."""
    deadline = time.monotonic() + limit_s
    while True:
        for ledger in (state / "runs").glob("*/ledger.jsonl"):
            if b'"converging"' in ledger.read_bytes():
                return ledger.parent.name
        assert process.poll() is None, "the run ended before its first fault"
        assert time.monotonic() < deadline, "no fault in time"
        time.sleep(0.01)
