"""Somebody else's containers: broken and proved to be, healed, judged and left running, the same ones as before."""

from __future__ import annotations

import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, HostState, LinkQuality
from tests.clusters.attach.attached import Attached
from tests.waiting import until

pytestmark = pytest.mark.docker


def test_a_cut_is_made_in_the_targets_own_network_and_proved(attached, theirs, image):
    cut = attached.converge(n1=HostState(cuts=("n2", "n3")))["n1"]
    assert cut.confirmed, cut.why
    assert theirs.rules(image).count("-j DROP") == 2
    healed = attached.converge(n1=HEALTHY)["n1"]
    assert healed.confirmed, healed.why
    assert "-j DROP" not in theirs.rules(image)


def test_a_link_is_shaped_in_the_targets_own_network_and_proved(attached):
    assert attached.hosts["n1"].unshaped() == ""
    quality = LinkQuality(src="n2", delay_ns=40_000_000, duplicate_percent=30)
    late = attached.converge(n1=HostState(links=(quality,)))["n1"]
    assert late.confirmed, late.why
    healed = attached.converge(n1=HEALTHY)["n1"]
    assert healed.confirmed, healed.why


def test_a_cut_of_clients_is_proved_too(attached, theirs):
    assert attached.converge(n2=HostState(cuts=("client",)))["n2"].confirmed
    with pytest.raises(OSError, match="timed out"):
        theirs.healthy("n2")
    assert attached.converge(n2=HEALTHY)["n2"].confirmed
    until(lambda: theirs.healthy("n2"))  # etcd answers 503 as long as it has no leader


def test_a_kill_ends_the_container_and_its_heal_starts_the_same_one(attached, theirs):
    before = theirs.states()
    down = attached.converge(n3=HostState(down="SIGKILL"), n1=HostState(cuts=("n2",)))
    assert [(one.confirmed, one.why) for one in down.values()] == [(True, "")] * 2
    assert [status for _, status in theirs.states()] == ["running", "running", "exited"]
    more = attached.converge(n1=HostState(cuts=("n2", "n3")))["n1"]
    assert more.confirmed, more.why  # although nothing of n3 can be dropped
    up = attached.converge(n3=HEALTHY, n1=HEALTHY)
    assert [(one.confirmed, one.why) for one in up.values()] == [(True, "")] * 2
    assert theirs.states() == before
    assert [one["asked"] for one in attached.told("n3", "exited")] == [True]
    assert [(one["incarnation"], one["asked"]) for one in attached.told("n3", "started")] == [(1, True), (2, True)]
    until(lambda: theirs.healthy("n3"))


def test_a_container_that_does_not_obey_sigterm_is_killed_and_the_evidence_says_so(attached, theirs):
    theirs.containers[2].kill("SIGSTOP")
    down = attached.converge(n3=HostState(down="SIGTERM"))["n3"]
    assert down.confirmed, down.why
    assert down.detail["SIGTERM"]["killed"]
    assert theirs.states()[2][1] == "exited"
    assert attached.converge(n3=HEALTHY)["n3"].confirmed
    until(lambda: theirs.healthy("n3"))


def test_a_pause_is_proved_from_beside_the_process(attached, theirs):
    frozen = attached.converge(n1=HostState(frozen=True))["n1"]
    assert frozen.confirmed, frozen.why
    assert theirs.states()[0][1] == "paused"
    assert attached.converge(n1=HEALTHY)["n1"].confirmed
    assert theirs.states()[0][1] == "running"


def test_what_cannot_be_done_to_them_is_said(attached):
    found = attached.converge(n1=HostState(cpu_percent=50))["n1"]
    assert not found.confirmed
    assert "cpu_percent: not available" in found.why
    assert attached.converge(n1=HEALTHY)["n1"].confirmed


def test_somebody_elses_kill_is_told_and_the_container_is_known_when_it_is_back(attached, theirs):
    theirs.containers[1].kill("SIGKILL")
    until(lambda: attached.told("n2", "exited"))
    assert [one["asked"] for one in attached.told("n2", "exited")] == [False]
    theirs.containers[1].start()
    until(lambda: len(attached.told("n2", "started")) == 2)
    assert attached.told("n2", "started")[-1]["asked"] is False
    assert not attached.told("n2", "lost")
    assert attached.converge(n2=HEALTHY, n1=HEALTHY)["n2"].confirmed
    until(lambda: theirs.healthy("n2"))


def test_two_runs_do_not_break_the_same_containers(attached, theirs, tmp_path):
    with pytest.raises(ConfigError, match="another run is attached"):
        Attached(theirs.label, tmp_path)
