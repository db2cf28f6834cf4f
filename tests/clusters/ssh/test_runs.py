"""Whole runs over SSH, through the command line as a user does: judged alike on every backend, killed, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import No
from dethrone.harness.core.world import VirtualBackend
from tests.clusters.ssh.field import DEAD_MAN_S, NODES, until

DETHRONE = [sys.executable, "-m", "dethrone.harness.cli"]
ROOT = Path(__file__).resolve().parents[3]

FORGETFUL = """
source = "this test"
title = "a follower that keeps nothing forgets its vote"
text = "Without persistence a node that is started again does not find on its disk what it promised."
system = "raft"
profile = "raft-paper"
nodes = 3
workload = "election"
time_limit = "5s"
settings = { persist = "off" }
[expected]
verdict = "fail"
fails = ["vote-is-durable"]
may_fail = ["one-vote-per-term", "one-leader-per-term", "term-never-decreases"]
[[step]]
gap = "1s"
[[step.fault]]
kind = "restart"
victims = "follower"
"""

LASTING = """
[[step]]
[[step.fault]]
kind = "partition"
victims = "leader"
params = { shape = "isolate" }
hold = "60s"
"""


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "DETHRONE_STATE_DIR": str(tmp_path / "state")}


def dethrone(env, *words) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DETHRONE, *map(str, words)], env=env, cwd=ROOT, capture_output=True, text=True, check=False)


def backends() -> list[str]:
    """Those that are registered and can be used; in CI all of them can."""
    found = registry.load_all(registry.BACKENDS)
    named = [name for name, backend in found.items() if backend.traits.lending is None]
    usable = [
        name
        for name in named
        if os.environ.get("CI")
        or isinstance(found[name], VirtualBackend)
        or not isinstance(found[name].available(), No)
    ]
    return [*usable, "ssh"]


@pytest.mark.docker
def test_one_scenario_file_has_the_same_verdict_on_every_backend(field, env, tmp_path):
    scenario = tmp_path / "forgetful.toml"
    scenario.write_text(FORGETFUL)
    told = {}
    for name in backends():
        more = ["--hosts", field.patient_file] if name == "ssh" else []
        for seed in (3, 4, 5):
            words = ("--on", name, *more, "--out", tmp_path / f"{name}-{seed}", "--seed", seed, "--json")
            said = json.loads(dethrone(env, "run", "--scenario", scenario, *words).stdout)
            told[name] = (said["verdict"], said["trouble"], said["scenario"]["as_expected"])
            if said["verdict"] != "unknown":
                break  # otherwise no second leader was elected in time, as on a machine that stalls: once more
    assert {"docker", "sim", "ssh"} <= set(told)
    assert told == dict.fromkeys(told, ("fail", [], True))
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
@pytest.mark.docker
def test_after_kill_nine_of_a_run_machines_heal_themselves_in_time_and_heal_finishes_the_rest(field, env, tmp_path):
    schedule = tmp_path / "cut.toml"
    schedule.write_text(LASTING)
    words = ["run", "raft", "--on", "ssh", "--hosts", field.file, "--schedule", schedule, "--out", tmp_path / "run"]
    harness = subprocess.Popen(
        [*DETHRONE, *map(str, words)], env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: harness.poll() is not None or all("DROP" in field.ours(node) for node in NODES), 60)
        assert harness.poll() is None, "the run ended before its fault"
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    gone = time.monotonic()
    until(lambda: not any("DROP" in field.ours(node) for node in NODES), DEAD_MAN_S + 5)
    assert time.monotonic() - gone < DEAD_MAN_S + 5
    assert all("agent.py serve" in field.ours(node) for node in NODES)
    # The ledger names the hosts file: nothing needs to be said again.
    healed = dethrone(env, "heal")
    assert healed.returncode == 0, healed.stderr
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")
    assert [field.inside(node, "sh", "-c", "ls /var/tmp/dethrone | grep -v lock; true") for node in NODES] == [""] * 3
    again = dethrone(env, "heal", "--hosts", field.file)
    assert again.returncode == 0, again.stderr
    assert not [line for line in again.stderr.splitlines() if line.startswith("raft-")]
