"""Whole runs over SSH, through the command line as a user does: judged alike on every backend, killed, refused."""

from __future__ import annotations

import os
import time

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import No
from dethrone.harness.core.world import VirtualBackend
from tests.clusters.ssh.field import DEAD_MAN_S, NODES
from tests.command import dethrone, started, told
from tests.waiting import until

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


@pytest.mark.slow
@pytest.mark.docker
def test_one_scenario_file_has_the_same_verdict_on_every_backend(field, tmp_path):
    scenario = tmp_path / "forgetful.toml"
    scenario.write_text(FORGETFUL)
    verdicts = {}
    for name in backends():
        more = ["--hosts", field.patient_file] if name == "ssh" else []
        for seed in (3, 4, 5):
            words = ("--on", name, *more, "--out", tmp_path / f"{name}-{seed}", "--seed", seed)
            said, _ = told(tmp_path / "state", "run", "--scenario", scenario, *words)
            verdicts[name] = (said["verdict"], said["trouble"], said["scenario"]["as_expected"])
            if said["verdict"] != "unknown":
                break  # otherwise no second leader was elected in time, as on a machine that stalls: once more
    assert {"docker", "sim", "ssh"} <= set(verdicts)
    assert verdicts == dict.fromkeys(verdicts, ("fail", [], True))
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
@pytest.mark.docker
def test_after_kill_nine_of_a_run_machines_heal_themselves_in_time_and_heal_finishes_the_rest(field, tmp_path):
    state, schedule = tmp_path / "state", tmp_path / "cut.toml"
    schedule.write_text(LASTING)
    words = ["run", "raft", "--on", "ssh", "--hosts", field.file, "--schedule", schedule, "--out", tmp_path / "run"]
    harness = started(state, *words)
    try:
        until(lambda: all("DROP" in field.ours(node) for node in NODES), 60, what="its fault", process=harness)
    finally:
        harness.kill()
        harness.communicate()
    gone = time.monotonic()
    until(lambda: not any("DROP" in field.ours(node) for node in NODES), DEAD_MAN_S + 5)
    assert time.monotonic() - gone < DEAD_MAN_S + 5
    assert all("agent.py serve" in field.ours(node) for node in NODES)
    # The ledger names the hosts file: nothing needs to be said again.
    healed = dethrone(state, "heal")
    assert healed.returncode == 0, healed.stderr
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")
    assert [field.inside(node, "sh", "-c", "ls /var/tmp/dethrone | grep -v lock; true") for node in NODES] == [""] * 3
    again = dethrone(state, "heal", "--hosts", field.file)
    assert again.returncode == 0, again.stderr
    assert not [line for line in again.stderr.splitlines() if line.startswith("raft-")]
