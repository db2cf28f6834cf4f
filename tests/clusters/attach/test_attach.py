"""Somebody else's containers: broken and proved to be, healed, judged and left running, the same ones as before."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from dethrone.clusters.attach.backend import AttachBackend
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState, LinkQuality
from dethrone.harness.core.interfaces import Command, DeploySpec, NodeStart
from dethrone.harness.core.ledger import Ledger
from tests.waiting import until

pytestmark = pytest.mark.docker

START = NodeStart(
    command=Command(argv=("/usr/bin/etcd",)),
    log_path="/var/log/dethrone/node.log",
    data_dir="/var/lib/dethrone/data",
)


class Attached:
    def __init__(self, label: str, state) -> None:
        self.backend = AttachBackend().lent(None, [f"label={label}"])
        self.ledger = Ledger(state, f"test-{secrets.token_hex(4)}")
        self.news = []
        self.spec = DeploySpec(
            run_id=self.ledger.run_id,
            nodes=self.backend.usable(),
            image="etcd",
            base=None,
            state_dir=str(self.ledger.directory),
        )
        self.hosts = self.backend.deploy(
            self.spec, origin_ns=time.monotonic_ns(), news=self.news.append, progress=lambda _: None
        )
        peers = {name: host.address for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.prepare(START, peers, dead_man_ns=0)
            host.start_node()

    def converge(self, **wants):
        return self.backend.converge_all(self.hosts, wants)

    def told(self, host: str, kind: str) -> list[dict]:
        return [one.data for one in list(self.news) if (one.host, one.kind) == (host, kind)]

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.backend.destroy(self.ledger.run_id)
        self.ledger.close(clean=True)


@pytest.fixture(scope="module")
def attached(theirs, tmp_path_factory) -> Iterator[Attached]:
    one = Attached(theirs.label, tmp_path_factory.mktemp("state"))
    try:
        yield one
    finally:
        one.close()


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
    up = attached.converge(n3=HEALTHY, n1=HEALTHY)
    assert [(one.confirmed, one.why) for one in up.values()] == [(True, "")] * 2
    assert theirs.states() == before
    assert [one["asked"] for one in attached.told("n3", "exited")] == [True]
    assert [(one["incarnation"], one["asked"]) for one in attached.told("n3", "started")] == [(1, True), (2, True)]
    until(lambda: theirs.healthy("n3"))


def test_a_pause_is_proved_from_beside_the_process(attached, theirs):
    frozen = attached.converge(n1=HostState(frozen=True))["n1"]
    assert frozen.confirmed, frozen.why
    assert theirs.states()[0][1] == "paused"
    assert attached.converge(n1=HEALTHY)["n1"].confirmed
    assert theirs.states()[0][1] == "running"


def test_what_cannot_be_done_to_them_is_said(attached):
    found = attached.converge(n1=HostState(clock=ClockSkew(offset_ns=1)))["n1"]
    assert not found.confirmed
    assert "clock: not available" in found.why
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
