"""Claims 1-10 to 1-14: Kafka's leaders as owners of an ephemeral node."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Get, NotLeader
from dethrone.clusters.targets.zk_ephemeral import messages as m
from tests.clusters.zk_ephemeral.spec import One, World
from tests.world.effects import replies

NAMES = ("a", "b", "c", "d", "zk")
TIMES = {"zookeeper_session_timeout_ms": 2000, "replica_lag_time_max_ms": 3000, "call_retry_ms": 200}


def cluster(variant, *, seed=1):
    world = World(NAMES, variant=variant, seed=seed, **TIMES)
    world.run(5000)
    assert len(world.with_role()) == 1
    return world


def leader(world):
    (name,) = world.with_role()
    return name


def followers(world):
    return [name for name in NAMES[:-1] if name not in world.with_role() and world.boxes[name].alive]


@pytest.mark.claim("1-10", flip="flip-1-10")
def test_claim_1_10_a_follower_serves_neither_reads_nor_writes(variant):
    one = One("a", variant=variant)
    one.follow("b", 4)
    for body in (Get("k"), Append("k", 1)):
        assert replies(one.ask(body)) == [NotLeader("b")]


@pytest.mark.claim("1-11", flip="flip-1-11")
def test_claim_1_11_nobody_reads_stale_data_from_a_follower_and_all_reads_meet_the_leader(variant):
    world = cluster(variant)
    name = leader(world)
    late = followers(world)[0]
    world.lag[name, late] = 300
    assert world.write(name, 1)
    world.run(700)
    assert world.read(name) == [1]
    assert [world.read(other) for other in followers(world)] == [None, None, None]


@pytest.mark.claim("1-12", flip="flip-1-12")
def test_claim_1_12_the_leader_owns_an_ephemeral_node_that_the_followers_watch(variant):
    world = cluster(variant)
    name = leader(world)
    zk = world.boxes["zk"].core
    node = zk.tree.nodes[m.LEADER_PATH]
    assert node.owner == world.boxes[name].core.session.id
    assert node.data == {"id": name, "epoch": world.boxes[name].core.term}
    watchers = {zk.tree.sessions[session].client for session in zk.watches[m.LEADER_PATH]}
    assert set(followers(world)) <= watchers


@pytest.mark.claim("1-13", flip="flip-1-13")
def test_claim_1_13_when_the_leader_dies_its_node_vanishes_and_all_in_sync_followers_try(variant):
    world = cluster(variant)
    name = leader(world)
    isr = world.boxes[name].status().extra["isr"]
    assert len(isr) == 4
    world.kill(name)
    world.run(3000)
    gone = world.boxes["zk"].said("ephemeral_deleted", path=m.LEADER_PATH)
    assert [one["why"] for one in gone] == ["expiry"]
    tried = world.boxes["zk"].status().extra["attempts"].get(m.LEADER_PATH, [])
    assert set(tried) == set(isr) - {name}


@pytest.mark.claim("1-14", flip="flip-1-14")
def test_claim_1_14_exactly_one_creation_succeeds_that_node_leads_and_the_others_follow(variant):
    for seed in range(5):
        world = cluster(variant, seed=seed)
        old = leader(world)
        world.boxes["zk"].notes.clear()
        world.kill(old)
        world.run(4000)
        won = world.boxes["zk"].said("ephemeral_created", path=m.LEADER_PATH)
        assert len(won) == 1
        assert world.with_role() == [won[0]["owner"]]
        assert {world.boxes[name].status().leader for name in followers(world)} == {won[0]["owner"]}
