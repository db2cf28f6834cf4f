"""The clocks of somebody else's containers: skewed in their processes, as these themselves show, and set right."""

from __future__ import annotations

import platform

import pytest

from dethrone.clusters.attach.backend import AttachBackend
from dethrone.clusters.attach.sidecar import list_sidecars
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from tests.waiting import until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only"),
]

HOUR = ClockSkew(offset_ns=3600 * SECOND)


def test_the_clocks_of_a_container_are_skewed_as_its_own_answers_show_and_set_right(attached, theirs):
    assert [host.unskewed() for host in attached.hosts.values()] == ["", "", ""]
    skewed = attached.converge(n1=HostState(clock=HOUR, cuts=("n2",)))["n1"]
    assert skewed.confirmed, skewed.why
    assert abs(skewed.detail["clock"]["skew_ns"] - HOUR.offset_ns) < MS
    assert [theirs.ahead_s(node) for node in theirs.addresses] == [3600, 0, 0]
    healed = attached.converge(n1=HEALTHY)["n1"]
    assert healed.confirmed, healed.why
    assert "before" not in healed.detail
    assert theirs.ahead_s("n1") == 0


def test_a_skew_outlasts_a_pause_and_one_that_ends_within_it_lets_the_pause_lapse(attached, theirs):
    for state in (HostState(clock=HOUR), HostState(clock=HOUR, frozen=True), HostState(clock=HOUR, frozen=True)):
        found = attached.converge(n1=state)["n1"]
        assert found.confirmed, found.why
        assert "before" not in found.detail
    ended = attached.converge(n1=HostState(frozen=True))["n1"]
    assert ended.confirmed, ended.why
    assert "it ran for a moment" in ended.detail["before"]["why"]
    assert theirs.states()[0][1] == "paused"
    assert attached.converge(n1=HEALTHY)["n1"].confirmed
    assert theirs.ahead_s("n1") == 0


def test_a_container_that_is_started_under_a_skew_has_it_late_and_the_fault_has_lapsed(attached, theirs):
    assert attached.converge(n3=HostState(down="SIGKILL", clock=HOUR))["n3"].confirmed
    started = attached.converge(n3=HostState(clock=HOUR))["n3"]
    assert started.confirmed, started.why
    assert started.detail["before"]["held"] is False
    assert "the right clock at first" in started.detail["before"]["why"]
    until(lambda: theirs.ahead_s("n3") == 3600)
    assert attached.converge(n3=HEALTHY)["n3"].confirmed
    assert theirs.ahead_s("n3") == 0


def test_what_a_killed_agent_left_is_undone_twice(attached, theirs, client):
    """The last one: it takes the run's sidecars away."""
    assert attached.converge(n2=HostState(clock=HOUR, cuts=("n1",)))["n2"].confirmed
    run = attached.ledger.run_id
    beside = next(one for one in list_sidecars(client, run) if one.node == "n2")
    client.containers.get(beside.id).kill("SIGKILL")
    until(lambda: client.containers.get(beside.id).status == "exited")
    assert theirs.ahead_s("n2") == 3600
    for _ in range(2):
        AttachBackend().destroy(run)
        assert theirs.ahead_s("n2") == 0
    assert list_sidecars(client, run) == []
