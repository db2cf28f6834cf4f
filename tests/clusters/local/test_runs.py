"""Whole runs on local hosts: through the command line, as a user does, and killed in the middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dethrone.clusters.local import owned
from dethrone.harness.core.events import Converged, FaultEvent
from dethrone.harness.core.history_files import read_history
from tests.command import dethrone, started, told
from tests.waiting import until

pytestmark = [pytest.mark.namespaces, pytest.mark.whole_run]


@pytest.fixture
def state(root, tmp_path):
    return tmp_path / "state"


def words(tmp_path: Path, *more: str) -> list[object]:
    return ["run", "raft", "--on", "local", "--out", tmp_path / "run", *more]


def test_a_run_written_for_containers_runs_on_this_machine(state, tmp_path):
    drawn = ["--nodes", "3", "--faults", "partition", "--seed", "7", "--time-limit", "16s", "--data-in", "memory"]
    # also on a machine that is too slow for a verdict
    found, code = told(state, *words(tmp_path, *drawn, "--time-scale", "1"))
    assert found["verdict"] != "fail"
    assert not found["trouble"], found["trouble"]
    assert code in {0, 2}
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["data_in"] == "memory"
    phases = [event.outcome for event in read_history(tmp_path / "run" / "history") if hasattr(event, "outcome")]
    assert "installed" in phases
    assert "healed" in phases
    assert found["figures"]["cluster_up_ms"] > 0
    assert list((state / "runs").iterdir()) == []


LINKS = """
[[step]]
gap = "500ms"
[[step.fault]]
kind = "link"
victims = "leader"
params = { delay = "40ms" }
hold = "1s"
[[step.fault]]
kind = "partition"
victims = "follower"
params = { shape = "isolate" }
delay = "200ms"
hold = "500ms"
[[step]]
gap = "500ms"
[[step.fault]]
kind = "hold"
victims = "leader"
params = { direction = "out" }
hold = "1s"
"""


def played(state, tmp_path, schedule, *, time_limit):
    """The history of a run of this schedule without trouble, also on a machine that is too slow for a verdict."""
    (tmp_path / "schedule.toml").write_text(schedule)
    drawn = ["--nodes", "3", "--schedule", tmp_path / "schedule.toml", "--seed", "7", "--time-limit", time_limit]
    found, _ = told(state, *words(tmp_path, *drawn, "--data-in", "memory", "--time-scale", "1"))
    assert found["verdict"] != "fail"
    assert not found["trouble"], found["trouble"]
    return read_history(tmp_path / "run" / "history")


@pytest.mark.slow
def test_links_are_shaped_on_real_hosts_and_the_history_says_by_what(state, tmp_path):
    history = played(state, tmp_path, LINKS, time_limit="25s")
    begun = [event for event in history.of(FaultEvent) if event.phase == "begin"]
    assert [(event.kind, event.outcome) for event in begun] == [
        ("link", "installed"),
        ("partition", "installed"),
        ("hold", "installed"),
    ]
    assert [event.evidence.get("engine") for event in begun] == ["nfqueue", None, "node"]
    said = [event.evidence["messages"] for event in history.of(Converged) if "messages" in event.evidence]
    counted = [counts for one in said for counts in one.get("counted", {}).values()]
    assert any(counts.get("held") and counts["held"] == counts.get("released") for counts in counted)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "by nfqueue (packets)" in page
    assert "by the nodes (messages)" in page
    assert list((state / "runs").iterdir()) == []


MOVED = """
[[step]]
gap = "500ms"
[[step.fault]]
kind = "transfer"
victims = "leader"
hold = "0s"
name = "moved"
[[step.fault]]
kind = "pause"
victims = "hit-by:moved"
when = { after = "moved" }
hold = "300ms"
"""


def test_leadership_moves_between_real_processes_and_a_fault_follows_on_the_old_leader(state, tmp_path):
    faults = played(state, tmp_path, MOVED, time_limit="8s").of(FaultEvent)
    moved, paused = (event for event in faults if event.phase == "begin")
    assert (moved.kind, moved.outcome, paused.outcome) == ("transfer", "installed", "installed"), moved.why
    assert moved.params["to"] == f"node:{moved.evidence['answer']['leader']}"
    assert paused.victims == moved.victims


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
def test_what_a_killed_harness_left_is_healed_and_a_live_run_is_not_disturbed(state, tmp_path, three, name_at):
    process = started(state, *words(tmp_path, "--nodes", "3", "--time-limit", "60s", "--nemesis-interval", "1s"))
    try:
        run_id = until(lambda: broken(state), 40, what="a fault", process=process)
    finally:
        process.kill()
        process.communicate()
    assert {one.node for one in owned.processes() if one.run_id == run_id} == {"n1", "n2", "n3", "switch"}
    for _ in range(2):
        done = dethrone(state, "heal")
        assert done.returncode == 0, done.stderr
        assert not [one for one in owned.processes() if one.run_id == run_id]
        assert not [one for one in owned.devices() if one.run_id == run_id]
    assert list((state / "runs").iterdir()) == []
    assert name_at(three.hosts["n1"].address) == "n1"


def campaign(tmp_path: Path, *more: str) -> list[object]:
    """Two runs at once."""
    base = ("--nodes", "3", "--data-in", "memory", "--time-scale", "1", "--jobs", "2", "--seeds", "0..1")
    return ["campaign", "raft", "--on", "local", *base, "--out", tmp_path / "c", *more]


@pytest.mark.nightly("a minute; make test deploys two runs at once, and runs campaigns in simulation")
def test_two_runs_of_a_campaign_go_side_by_side_and_leave_nothing(state, tmp_path):
    found, code = told(state, *campaign(tmp_path, "--faults", "kill", "--time-limit", "40s"))
    assert code in {0, 2}
    assert [one["seed"] for one in found["runs"]] == [0, 1]
    assert found["at_once"] == 2
    assert not found["trouble"], found["trouble"]
    assert "fail" not in found["counts"]
    for seed in (0, 1):
        assert read_history(tmp_path / "c" / f"seed-{seed}" / "history").end
    assert list((state / "runs").iterdir()) == []


@pytest.mark.nightly("a single run is killed and healed in make test")
def test_runs_side_by_side_roll_back_by_themselves_when_their_campaign_is_killed(state, tmp_path):
    process = started(state, *campaign(tmp_path, "--time-limit", "60s", "--nemesis-interval", "1s"))
    try:
        until(lambda: len([*(state / "runs").glob("*/ledger.jsonl")]) == 2, 60, what="two runs", process=process)
        until(lambda: broken(state), 60, what="a fault", process=process)
    finally:
        process.kill()
        process.communicate()
    until(lambda: not list((state / "runs").iterdir()), 120, what="the runs to roll back")


def broken(state: Path) -> str:
    """The run's id, once its ledger says that hosts are being broken."""
    ledgers = (state / "runs").glob("*/ledger.jsonl")
    return next((ledger.parent.name for ledger in ledgers if b'"converging"' in ledger.read_bytes()), "")
