"""Nodes on local hosts are removed from their clusters and added again: it counts only as the other members see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.harness.core.events import FaultEvent, Observed
from dethrone.harness.core.history_files import read_history
from tests.command import told

ROSTER = Path(__file__).parent / "roster" / "roster.toml"
SCHEDULE = """
[[step]]
gap = "500ms"
[[step.fault]]
kind = "member"
victims = "leader"
hold = "3s"
"""


def removed(state, tmp_path, system, *more):
    """The begins and ends of the faults of a run without trouble, and its history."""
    out = ("--out", tmp_path / "run", *more)
    found, _ = told(state, "run", system, "--on", "local", "--nodes", "3", "--seed", "1", "--time-scale", "1", *out)
    assert found["trouble"] == []
    assert found["verdict"] != "fail", found["checkers"]
    history = read_history(tmp_path / "run" / "history")
    return history.of(FaultEvent), history


@pytest.mark.slow
@pytest.mark.namespaces
@pytest.mark.whole_run
def test_a_described_systems_leader_is_removed_another_one_leads_and_it_returns_as_a_follower(root, tmp_path):
    (tmp_path / "schedule.toml").write_text(SCHEDULE)
    words = ("--schedule", tmp_path / "schedule.toml", "--workload", "election", "--time-limit", "8s")
    events, history = removed(tmp_path / "state", tmp_path, ROSTER, *words)
    assert [(event.phase, event.outcome, event.victims) for event in events] == [
        ("begin", "installed", ("n1",)),
        ("end", "healed", ("n1",)),
    ]
    later = [one for one in history.of(Observed) if one.span.lo > events[1].span.hi]
    assert {(one.node, one.leader, one.term) for one in later} == {(name, "n2", 2) for name in ("n1", "n2", "n3")}


@pytest.mark.namespaces
@pytest.mark.nightly("a Go program is built; CI removes a node of a system of a few lines")
def test_hashicorp_raft_removes_members_and_adds_them_again(root, tmp_path):
    words = ("--faults", "member", "--nemesis-interval", "11s", "--time-limit", "40s")
    events, _ = removed(tmp_path / "state", tmp_path, "hashicorp-raft", *words)
    assert {event.outcome for event in events} == {"installed", "healed"}
