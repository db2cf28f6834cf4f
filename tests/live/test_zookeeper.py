"""ZooKeeper, and a newer etcd, on real clusters: nothing is found; a ZooKeeper server that forgets does not pass."""

import json
from pathlib import Path

import pytest

from tests import stored
from tests.command import told

pytestmark = [pytest.mark.docker, pytest.mark.system]
UNSAFE = Path(__file__).parent.parent / "systems_unsafe"


def run(tmp_path, state, *words, **environment):
    return told(state, "run", *words, "--nodes", "3", "--out", tmp_path / "run", **environment)[0]


def verdicts(result):
    return {name: found["verdict"] for name, found in result["checkers"].items()}


@pytest.mark.slow
def test_zookeeper_keeps_its_locks_apart_while_its_servers_are_killed(tmp_path, state):
    faults = ("--faults", "kill", "--nemesis-interval", "3s", "--time-limit", "11s", "--seed", "5")
    result = run(tmp_path, state, "zookeeper", "--workload", "lock", *faults)
    assert result["trouble"] == []
    found = verdicts(result)
    assert "fail" not in found.values()
    held = ("lock", "log", "one-leader-per-term", "term-never-decreases", "acknowledged-survives")
    assert {found[name] for name in held} == {"pass"}
    events = [json.loads(line) for line in stored.lines(tmp_path / "run").splitlines()]
    said = {event["term"] for event in events if event["type"] == "traced" and event["name"] == "elected"}
    led = {event["term"] for event in events if event["type"] == "observed" and event["leads"]}
    assert led
    assert led <= said, "whoever was seen to lead an epoch has said in its log that it began"


@pytest.mark.nightly("an image of its own; another version of etcd runs in every level")
def test_etcd_3_5_passes_without_faults(tmp_path, state):
    words = ("--workload", "register", "--faults", "none", "--time-limit", "4s", "--seed", "1")
    result = run(tmp_path, state, "etcd-3.5", *words)
    assert (result["trouble"], result["verdict"]) == ([], "pass")
    assert verdicts(result)["linearizable"] == "pass"
    assert verdicts(result)["leader-stability"] == "pass"


@pytest.mark.nightly("a DLedger whose disks keep nothing stands for ruined systems")
def test_a_zookeeper_of_which_one_server_forgets_does_not_pass(tmp_path, state):
    words = ("--schedule", str(UNSAFE / "forget_n2.json"), "--time-limit", "18s", "--seed", "1")
    result = run(tmp_path, state, "zookeeper-unsafe", *words, PYTHONPATH=str(UNSAFE))
    assert result["trouble"] == []
    assert result["verdict"] == "fail"
    failing = {name for name, verdict in verdicts(result).items() if verdict == "fail"}
    assert failing & {"acknowledged-survives", "one-leader-per-term"}
