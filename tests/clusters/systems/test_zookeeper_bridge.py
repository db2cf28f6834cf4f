from __future__ import annotations

import json
import time

import pytest

from dethrone.clusters.systems import zookeeper_bridge as b
from dethrone.clusters.systems.zk_ephemeral_real import SYSTEM
from dethrone.clusters.systems.zookeeper_bridge import Bridge
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.planted import Examinable
from tests.clusters.systems.specs import specs
from tests.clusters.systems.zookeeper_server import Server

LIMIT_S = 20
EPHEMERAL = "/leader/0"


@pytest.fixture
def server():
    with Server() as made:
        yield made


class Broker:
    """A broker's side of a session: what it is told, in order."""

    def __init__(self, bridge, name="n1", nonce=1):
        self.bridge, self.name, self.xid, self.told = bridge, name, 0, []
        bridge.hear(name, m.Connect(2_000_000_000, nonce))
        self.session = self.wait(m.Connected).session

    def wait(self, kind, matching=lambda _: True):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            while self.bridge.said:
                to, body = self.bridge.said.popleft()
                brokers[to].told.append(body) if to in brokers else self.told.append(body)
            for body in self.told:
                if isinstance(body, kind) and matching(body):
                    self.told.remove(body)
                    return body
        raise AssertionError(f"no {kind.__name__} among {self.told}")

    def send(self, op, xid=None):
        self.xid = self.xid + 1 if xid is None else xid
        self.bridge.hear(self.name, m.Call(self.session, self.xid, op))

    def call(self, op, xid=None):
        self.send(op, xid)
        return self.wait(m.Answer, lambda answer: answer.xid == self.xid)


brokers = {}


@pytest.fixture
def bridge(server, tmp_path):
    brokers.clear()
    return Bridge(tmp_path, port=server.port)


def join(bridge, name):
    brokers.pop(name, None)
    made = Broker(bridge, name, nonce=len(brokers) + 1)
    brokers[name] = made
    return made


def test_of_two_that_race_for_a_node_one_owns_it_and_the_other_is_told_who(bridge):
    one, two = join(bridge, "n1"), join(bridge, "n2")
    won = one.call(m.Create(EPHEMERAL, {"id": "n1", "epoch": 3}, ephemeral=True))
    assert (won.code, won.version, won.owner) == (m.OK, 0, one.session)
    lost = two.call(m.Create(EPHEMERAL, {"id": "n2", "epoch": 3}, ephemeral=True))
    assert (lost.code, lost.data, lost.owner) == (m.NODE_EXISTS, {"id": "n1", "epoch": 3}, one.session)


def test_data_are_set_only_from_the_version_that_was_read(bridge):
    broker = join(bridge, "n1")
    assert broker.call(m.GetNode("/controller_epoch")).code == m.NO_NODE
    broker.call(m.Create("/controller_epoch", 1))
    assert broker.call(m.SetNode("/controller_epoch", 2, 0)).version == 1
    refused = broker.call(m.SetNode("/controller_epoch", 9, 0))
    assert (refused.code, refused.data, refused.version) == (m.BAD_VERSION, 2, 1)
    assert broker.call(m.Delete("/controller_epoch", 0)).code == m.BAD_VERSION
    assert broker.call(m.Delete("/controller_epoch", 1)).code == m.OK
    assert broker.call(m.SetNode("/controller_epoch", 3)).code == m.NO_NODE


def test_a_call_is_carried_out_once_however_often_it_is_sent(bridge):
    broker = join(bridge, "n1")
    first = broker.call(m.Create("/x", 1))
    assert broker.call(m.Create("/x", 1), xid=1) == first
    broker.call(m.SetNode("/x", 2))
    assert broker.call(m.GetNode("/x")).version == 1


def test_a_watch_fires_once_and_is_told_again_with_each_ping_until_it_was_seen(bridge):
    one, two = join(bridge, "n1"), join(bridge, "n2")
    one.call(m.Exists(EPHEMERAL, watch=True))
    two.call(m.Create(EPHEMERAL, {"id": "n2"}, ephemeral=True))
    fired = one.wait(m.WatchFired)
    assert (fired.n, fired.path, fired.kind) == (1, EPHEMERAL, m.NODE_CREATED)
    bridge.hear("n1", m.Ping(one.session, 0, fired.start))
    assert one.wait(m.WatchFired) == fired
    one.wait(m.Pong)
    bridge.hear("n1", m.Ping(one.session, 1, fired.start))
    one.wait(m.Pong)
    assert not [body for body in one.told if isinstance(body, m.WatchFired)]


def test_a_session_that_zookeeper_ends_is_told_to_be_gone_and_its_node_to_be_deleted(bridge, server):
    one, two = join(bridge, "n1"), join(bridge, "n2")
    one.call(m.Create(EPHEMERAL, {"id": "n1"}, ephemeral=True))
    two.call(m.GetNode(EPHEMERAL, watch=True))
    server.expire(one.session)
    assert two.wait(m.WatchFired).kind == m.NODE_DELETED
    bridge.hear("n1", m.Ping(one.session))
    assert one.wait(m.SessionExpired).session == one.session
    assert two.call(m.Create(EPHEMERAL, {"id": "n2"}, ephemeral=True)).code == m.OK


def test_a_session_is_taken_up_again_after_a_restart_and_its_start_says_that_watches_are_gone(bridge, server, tmp_path):
    before = join(bridge, "n1")
    owned = before.call(m.Create(EPHEMERAL, {"id": "n1"}, ephemeral=True))
    again = Bridge(tmp_path, port=server.port)
    again.hear("n1", m.Ping(before.session))
    before.bridge = again
    pong = before.wait(m.Pong)
    assert (pong.session, pong.start > owned.start) == (before.session, True)
    assert before.call(m.GetNode(EPHEMERAL)).owner == before.session


def test_an_unknown_session_is_gone(bridge):
    bridge.hear("n3", m.Ping(77))
    assert bridge.said.popleft() == ("n3", m.SessionExpired(77))


def test_a_connect_that_is_repeated_gives_the_same_session(bridge, server):
    broker = join(bridge, "n1")
    bridge.hear("n1", m.Connect(2_000_000_000, 1))
    assert broker.wait(m.Connected).session == broker.session
    assert server.sessions == 1


# --- the system ---------------------------------------------------------------------------------------------------


def test_only_the_services_host_runs_a_zookeeper():
    nodes = specs(SYSTEM, count=4)
    for name, node in nodes.items():
        files, argv = SYSTEM.files(node), SYSTEM.command(node).argv
        config = next(content for path, content in files.items() if path.endswith("node.json"))
        target = json.loads(config)["target"]
        serves = name == "n4"
        assert (target == "dethrone.clusters.systems.zookeeper_bridge:TARGET") is serves
        assert any("ZooKeeperServerMain" in word for word in argv) is serves
        assert any(path.endswith("zoo.cfg") for path in files) is serves


def test_it_has_no_planted_bugs_and_nothing_is_said_of_the_services_disk():
    assert registry.load(registry.SYSTEMS, "zk-ephemeral-zookeeper") is SYSTEM
    assert isinstance(SYSTEM, Examinable)
    assert not SYSTEM.planted()
    assert not SYSTEM.variants()
    with pytest.raises(ConfigError, match="no variant"):
        SYSTEM.knobs({}, profile=None, variant="01-anything")
    node = specs(SYSTEM, count=4)["n1"]
    promise = SYSTEM.promise(node.knobs, profile="controller", voters=3)
    assert not promise.owes("vote-is-durable")
    assert promise.owes("acknowledged-survives")
    assert node.knobs["acks"] == "all"


def test_a_real_zookeeper_is_not_simulated(monkeypatch):
    monkeypatch.delenv(b.DIRECTORY, raising=False)
    node = specs(SYSTEM, count=4)["n4"]
    typed = SYSTEM.typed(node.knobs, profile="controller")
    with pytest.raises(ConfigError, match="cannot be simulated"):
        SYSTEM.target().core(node="n4", members=tuple(node.members), knobs=typed, variant=None)
    SYSTEM.target().core(node="n1", members=tuple(node.members), knobs=typed, variant=None)
