"""Kafka and RocketMQ's DLedger on real clusters: they pass, and on disks that keep nothing DLedger does not.

Kafka on such disks takes longer: it is an item of ``make accept``.
"""

from pathlib import Path

import pytest

from tests.command import told

pytestmark = [pytest.mark.docker, pytest.mark.system]
HERE = Path(__file__).parent
UNSAFE = HERE.parent / "systems_unsafe"

KAFKA_QUICK = tuple(
    f"--set={name}" for name in ("election_timeout_ms=500", "fetch_timeout_ms=1000", "election_backoff_max_ms=200")
)
DLEDGER_QUICK = tuple(
    f"--set={name}"
    for name in ("heart_beat_time_interval_ms=250", "min_vote_interval_ms=150", "max_vote_interval_ms=400")
)
"""Shorter timers, so that what is owed in the end is owed sooner."""


def run(tmp_path, state, *words, **environment):
    return told(state, "run", *words, "--nodes", "3", "--out", tmp_path / "run", **environment)[0]


def verdicts(result):
    return {name: found["verdict"] for name, found in result["checkers"].items()}


@pytest.mark.slow
def test_kafka_serves_its_topics_and_elects_one_leader_an_epoch(tmp_path, state):
    words = ("kafka-kraft", *KAFKA_QUICK, "--faults", "none", "--time-limit", "5s", "--seed", "1")
    result = run(tmp_path, state, *words)
    assert result["trouble"] == []
    found = verdicts(result)
    assert "fail" not in found.values()
    assert {found[name] for name in ("acknowledged-survives", "one-leader-per-term", "term-never-decreases")} == {
        "pass"
    }
    assert result["checkers"]["acknowledged-survives"]["evidence"]["appends_acknowledged"] > 10


@pytest.mark.nightly("a DLedger whose disks keep nothing runs in make test")
def test_dledger_keeps_what_it_acknowledged_through_a_pause_of_its_leader_and_a_step_of_a_clock(tmp_path, state):
    schedule = ("--schedule", str(HERE / "pause_and_step.json"), "--time-limit", "10s", "--seed", "1")
    result = run(tmp_path, state, "rocketmq-dledger-0.2.2", *DLEDGER_QUICK, *schedule)
    assert result["trouble"] == []
    found = verdicts(result)
    assert "fail" not in found.values()
    assert {found[name] for name in ("acknowledged-survives", "one-leader-per-term")} == {"pass"}
    assert set(result["checkers"]["coverage"]["evidence"]["faults"]) == {"pause", "clock"}


@pytest.mark.slow
def test_dledger_whose_disks_keep_nothing_does_not_pass(tmp_path, state):
    schedule = ("--schedule", str(UNSAFE / "kill_all.json"), "--time-limit", "3s", "--seed", "1")
    result = run(tmp_path, state, "rocketmq-dledger-wiped", *DLEDGER_QUICK, *schedule, PYTHONPATH=str(UNSAFE))
    assert result["trouble"] == []
    assert result["verdict"] == "fail"
    failing = {name for name, verdict in verdicts(result).items() if verdict == "fail"}
    assert failing & {"acknowledged-survives", "term-never-decreases", "one-leader-per-term"}


@pytest.mark.nightly("a minute and a half, and an image of its own; CI upgrades a system of a few lines")
def test_kafka_is_upgraded_node_by_node_while_leaders_are_lost_and_loses_nothing(tmp_path, state):
    result = run(tmp_path, state, "kafka-rolling", *KAFKA_QUICK, "--scenario", "rolling-upgrade", "--seed", "1")
    assert result["trouble"] == []
    assert "fail" not in verdicts(result).values()
    assert verdicts(result)["acknowledged-survives"] == "pass"
    said = {(one["node"], one["version"], one["reported"]) for one in result["versions"]}
    assert said == {(node, version, version) for node in ("n1", "n2", "n3") for version in ("3.9", "4.1")}
