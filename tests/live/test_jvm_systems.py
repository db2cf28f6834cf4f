"""Kafka and RocketMQ's DLedger on real clusters: they pass, and on disks that keep nothing they do not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.system]
DETHRONE = Path(sys.executable).with_name("dethrone")
UNSAFE = Path(__file__).parent.parent / "systems_unsafe"


def run(tmp_path, state, *words, **environment):
    env = {**os.environ, "DETHRONE_STATE_DIR": str(state), **environment}
    done = subprocess.run(
        [DETHRONE, "run", *words, "--nodes", "3", "--json", "--out", tmp_path / "run"],
        env=env,
        capture_output=True,
        check=False,
    )
    return json.loads(done.stdout)


def verdicts(result):
    return {name: found["verdict"] for name, found in result["checkers"].items()}


def test_kafka_serves_its_topics_and_elects_one_leader_an_epoch(tmp_path, state):
    result = run(tmp_path, state, "kafka-kraft", "--faults", "none", "--time-limit", "6s", "--seed", "1")
    assert result["trouble"] == []
    found = verdicts(result)
    assert "fail" not in found.values()
    assert {found[name] for name in ("acknowledged-survives", "one-leader-per-term", "term-never-decreases")} == {
        "pass"
    }
    assert result["checkers"]["acknowledged-survives"]["evidence"]["appends_acknowledged"] > 30


def test_dledger_keeps_what_it_acknowledged_through_a_pause_and_a_step_of_a_clock(tmp_path, state):
    faults = ("--faults", "pause,clock", "--nemesis-interval", "2s", "--time-limit", "6s", "--seed", "2")
    result = run(tmp_path, state, "rocketmq-dledger-0.2.2", *faults)
    assert result["trouble"] == []
    found = verdicts(result)
    assert "fail" not in found.values()
    assert {found[name] for name in ("acknowledged-survives", "one-leader-per-term")} == {"pass"}
    shown = result["checkers"]["coverage"]["evidence"]["faults"]
    assert {"pause", "clock"} & set(shown)


@pytest.mark.parametrize("system", ["kafka-kraft-wiped", "rocketmq-dledger-wiped"])
def test_a_system_whose_disks_keep_nothing_does_not_pass(tmp_path, state, system):
    words = (system, "--schedule", str(UNSAFE / "kill_all.json"), "--time-limit", "3s", "--seed", "1")
    result = run(tmp_path, state, *words, PYTHONPATH=str(UNSAFE))
    assert result["trouble"] == []
    assert result["verdict"] == "fail"
    failing = {name for name, verdict in verdicts(result).items() if verdict == "fail"}
    assert failing & {"acknowledged-survives", "term-never-decreases", "one-leader-per-term"}
