"""A real system on real clusters: etcd passes, and an etcd that an operator has ruined does not."""

import json
from pathlib import Path

import pytest

from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history_files import read_history
from tests.command import told

pytestmark = [pytest.mark.docker, pytest.mark.system]
HERE = Path(__file__).parent
UNSAFE = HERE.parent / "systems_unsafe"


def run(tmp_path, state, *words, **environment):
    return told(state, "run", *words, "--out", tmp_path / "run", **environment)


@pytest.mark.nightly("75 s of faults; another test runs etcd under faults")
def test_etcd_passes_and_what_it_cannot_show_is_not_applicable(tmp_path, state):
    words = ("etcd", "--nodes", "3", "--faults", "partition,kill", "--time-limit", "75s", "--seed", "2")
    result, code = run(tmp_path, state, *words)
    assert result["trouble"] == []
    assert (code, result["verdict"]) == (0, "pass")
    verdicts = {name: found["verdict"] for name, found in result["checkers"].items()}
    assert verdicts["acknowledged-survives"] == verdicts["one-leader-per-term"] == "pass"
    for name in ("leader-has-majority", "log-matching", "leader-completeness"):
        assert verdicts[name] == "n/a"
        assert "not observable" in result["checkers"][name]["reason"]


@pytest.mark.slow
def test_transactions_over_several_keys_of_etcd_are_serializable_in_real_time(tmp_path, state):
    faults = ("--faults", "kill,pause", "--nemesis-interval", "4s", "--time-limit", "20s")
    result, _ = run(tmp_path, state, "etcd", "--nodes", "3", "--workload", "list-append", *faults, "--seed", "3")
    assert result["trouble"] == []
    assert result["verdict"] != "fail"
    found = result["checkers"]["list-append"]
    assert (found["verdict"], found["evidence"]["consistency"]) == ("pass", "strict-serializable")
    assert found["evidence"]["committed"] > 100


@pytest.mark.nightly("a DLedger whose disks keep nothing stands for ruined systems")
def test_etcd_of_which_one_member_is_restarted_with_force_new_cluster_does_not_pass(tmp_path, state):
    words = ("etcd-unsafe", "--schedule", str(UNSAFE / "restart_n1.json"), "--time-limit", "45s", "--seed", "1")
    result, code = run(tmp_path, state, *words, PYTHONPATH=str(UNSAFE))
    assert result["trouble"] == []
    assert (code, result["verdict"]) == (1, "fail")
    failing = {name for name, found in result["checkers"].items() if found["verdict"] == "fail"}
    assert failing & {"one-leader-per-term", "acknowledged-survives", "leader-has-majority", "step-down-without-quorum"}


@pytest.mark.nightly("a minute of waiting for steps; leadership of local raft is moved in make test")
@pytest.mark.parametrize("release", ["etcd", "etcd-3.5", "etcd-3.7"])
def test_every_release_hands_leadership_over_when_it_is_asked_to(tmp_path, state, release):
    words = (release, "--nodes", "3", "--faults", "transfer", "--nemesis-interval", "11s", "--time-limit", "30s")
    result, _ = run(tmp_path, state, *words, "--seed", "1")
    assert result["trouble"] == []
    assert result["verdict"] != "fail"
    found = [event for event in read_history(tmp_path / "run" / "history").of(FaultEvent) if event.phase == "begin"]
    assert "installed" in {event.outcome for event in found}, [event.why for event in found]


@pytest.mark.nightly("a minute and a half each; CI changes the members of a system of a few lines")
@pytest.mark.parametrize("release", ["etcd", "etcd-3.5", "etcd-3.7"])
def test_every_release_removes_members_and_adds_them_again_without_losing_anything(tmp_path, state, release):
    faults = [{"kind": "member", "victims": who, "hold": "8s"} for who in ("follower", "leader")]
    written = tmp_path / "members.json"
    written.write_text(json.dumps({"step": [{"gap": "2s", "fault": [fault]} for fault in faults]}))
    words = (release, "--nodes", "5", "--schedule", str(written), "--time-limit", "60s")
    result, _ = run(tmp_path, state, *words, "--seed", "1")
    assert result["trouble"] == []
    assert result["verdict"] != "fail"
    found = read_history(tmp_path / "run" / "history").of(FaultEvent)
    assert {event.outcome for event in found} == {"installed", "healed"}, [event.why for event in found]
    assert {event.roles[event.victims[0]] for event in found if event.phase == "begin"} == {"leader", "follower"}


@pytest.mark.nightly("an image of its own; other tests skew static Go programs without one")
def test_the_clocks_of_a_static_go_binary_are_skewed_without_harm(tmp_path, state):
    words = ("etcd-3.7", "--nodes", "3", "--faults", "clock,kill", "--nemesis-interval", "4s", "--time-limit", "20s")
    result, _ = run(tmp_path, state, *words, "--seed", "5")
    assert result["trouble"] == []
    assert result["verdict"] != "fail"
    found = [event for event in read_history(tmp_path / "run" / "history").events if isinstance(event, FaultEvent)]
    outcomes = {event.outcome for event in found if event.kind == "clock"}
    assert outcomes == {"installed", "healed"}


@pytest.mark.nightly("two minutes and an image of its own; CI upgrades a system of a few lines")
def test_etcd_is_upgraded_release_by_release_while_leaders_are_lost_and_loses_nothing(tmp_path, state):
    schedule = ("--set", "snapshot_count=50", "--schedule", str(HERE / "etcd_every_release.toml"))
    result, _ = run(tmp_path, state, "etcd-rolling", "--nodes", "3", *schedule, "--time-limit", "100s", "--seed", "1")
    assert result["trouble"] == []
    assert result["verdict"] != "fail"
    assert result["checkers"]["acknowledged-survives"]["verdict"] == "pass"
    changes = [one for one in faults(tmp_path) if one.kind == "upgrade" and one.phase == "end"]
    assert [(one.outcome, *one.victims, *reported(one)) for one in changes] == [
        ("healed", node, release) for release in ("3.5", "3.6", "3.7") for node in ("n1", "n2", "n3")
    ]


@pytest.mark.nightly("a minute and an image of its own")
def test_etcd_3_7_does_not_start_over_a_log_of_3_5_of_which_3_6_took_no_snapshot(tmp_path, state):
    schedule = ("--set", "version=3.5", "--schedule", str(HERE / "etcd_young_log.toml"))
    result, _ = run(tmp_path, state, "etcd-rolling", "--nodes", "3", *schedule, "--time-limit", "40s", "--seed", "1")
    assert result["trouble"] == []
    assert result["checkers"]["crash"]["verdict"] == "fail"
    *before, last = [one for one in faults(tmp_path) if one.kind == "upgrade" and one.phase == "end"]
    assert [(one.outcome, *reported(one)) for one in before] == [("healed", "3.6")] * 3
    assert (last.outcome, *last.victims) == ("indeterminate", "n1")
    assert "its process ended before it could say whether it is version 3.7" in last.why


def faults(tmp_path):
    return read_history(tmp_path / "run" / "history").of(FaultEvent)


def reported(change):
    """Which release the node said it is."""
    return [one["version"] for one in change.evidence["versions"].values()]
