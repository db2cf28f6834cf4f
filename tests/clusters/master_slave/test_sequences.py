"""The known weaknesses of the specification, each by its own sequence of faults (MS-B1 … MS-B7)."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Ok, Unknown
from dethrone.clusters.targets.master_slave.client import Routes
from tests.clusters.master_slave.spec import cluster, promote, routes, scaled, send, values


def test_ms_b1_the_same_node_restarted_brings_the_writes_back():
    world = cluster()
    send(world, "m", 1)
    world.kill("m")
    world.run(scaled(200_000))
    world.start("m")
    world.run(scaled(40_000))
    assert send(world, "m", 2) == "ok"
    world.run(scaled(40_000))
    assert values(world, "s1") == values(world, "s2") == [1, 2]
    assert routes(world)["a"]["0"] == "m"


def test_ms_b2_asynchronous_copies_lose_what_was_acknowledged_when_the_masters_disk_is_gone():
    world = cluster(deployment="DP3")
    assert send(world, "m", "before") == "ok"
    world.run(200)
    for slave in ("s1", "s2"):
        world.sever("m", slave)
    assert [send(world, "m", i) for i in range(100)] == ["ok"] * 100
    world.kill("m", wipe=True)
    world.heal()
    world.start("m")
    world.run(scaled(60_000))
    for name in ("m", "s1", "s2"):
        assert not set(range(100)) & set(values(world, name))


def test_ms_b3_a_synchronous_master_without_slaves_stores_and_warns_and_its_messages_die_with_it():
    world = cluster(profile="sync")
    assert send(world, "m", "copied") == "ok"
    world.kill("s1", "s2")
    world.run(scaled(25_000))
    assert send(world, "m", "alone") == "SLAVE_NOT_AVAILABLE"
    assert "alone" in values(world, "m")
    world.kill("m", wipe=True)
    for name in ("m", "s1", "s2"):
        world.start(name)
    world.run(scaled(60_000))
    assert all("alone" not in values(world, name) for name in ("m", "s1", "s2"))
    assert values(world, "s1") == ["copied"]


def test_ms_b3_a_client_that_counts_the_warning_as_success_loses_data():
    world = cluster(profile="sync", degraded_counts_as="ok")
    world.kill("s1", "s2")
    world.run(scaled(25_000))
    assert isinstance(world.ask("m", Append("k", "alone")), Ok)
    world.kill("m", wipe=True)
    world.start("m")
    world.run(scaled(10_000))
    assert values(world, "m") == []


def test_ms_b4_an_operator_who_promotes_a_slave_and_brings_the_old_master_back_has_two_masters_for_ever():
    world = cluster()
    send(world, "m", "common")
    world.run(200)
    world.kill("m")
    promote(world, "s1")
    world.run(scaled(40_000))
    assert send(world, "s1", "new side") == "ok"
    assert routes(world)["a"]["0"] == "s1"
    world.start("m")
    world.run(50)
    assert set(world.with_role("MASTER")) == {"m", "s1"}
    assert routes(world)["a"]["0"] == "m"
    assert send(world, "m", "old side") == "ok"
    flips = set()
    for _ in range(200):
        world.run(scaled(4000))
        flips.add(routes(world)["a"]["0"])
    assert flips == {"m", "s1"}
    assert values(world, "m")[:2] == ["common", "old side"]
    assert values(world, "s1")[:2] == ["common", "new side"]


def test_ms_b5_a_frozen_masters_route_lives_until_the_name_server_drops_it():
    world = cluster()
    client = Routes(scaled(30_000) * 1_000_000)
    client.learn(routes(world), world.now)
    world.pause("m")
    begin = world.now
    assert world.run(scaled(200_000), until=lambda: "0" not in world.boxes["ns"].core.routes().get("a", {}))
    silent_ms = (world.now - begin) * 60 / 1e6
    assert 85_000 < silent_ms <= 121_000
    assert client.writers(0) == ["m"]
    assert client.due(world.now)
    client.learn(routes(world), world.now)
    assert client.writers(0) == []
    dropped = world.boxes["ns"].said("dropped")
    assert dropped == [{"group": "a", "id": 0, "address": "m", "why": "silent"}]


def test_ms_b6_a_slow_link_shows_old_data_at_the_slave():
    world = cluster(deployment="DP3")
    world.lag["m", "s1"] = 400
    assert send(world, "m", 1) == "ok"
    world.run(100)
    assert world.read("m") == [1]
    assert world.read("s1") == []
    world.run(1500)
    assert world.read("s1") == [1]


@pytest.mark.parametrize(("first_id", "balanced"), [(1, True), (2, False)])
def test_ms_b7_without_brokerid_1_no_slave_takes_balanced_reads(first_id, balanced):
    world = cluster(profile="sync", first_slave_id=first_id)
    client = Routes(1)
    client.learn(routes(world), 0)
    assert client.balances_reads("a") is balanced


def test_a_synchronous_send_whose_slave_is_cut_off_ends_as_a_timeout():
    world = cluster(("m", "s1", "ns"), profile="sync")
    world.sever("m", "s1")
    answer = world.ask("m", Append("k", 1), ms=scaled(6000))
    assert answer == Unknown("FLUSH_SLAVE_TIMEOUT")
    world.run(scaled(25_000))
    assert send(world, "m", 2) == "SLAVE_NOT_AVAILABLE"


def test_a_slave_refuses_to_copy_from_a_master_that_came_back_empty_and_says_so():
    world = cluster()
    for i in range(3):
        send(world, "m", i)
    world.run(200)
    world.restart("m", wipe=True)
    world.run(scaled(60_000))
    assert values(world, "s1") == [0, 1, 2]
    refusals = [one for one in world.boxes["s1"].said("ha_closed") if one["why"] == "shorter log"]
    assert refusals == [{"with": "m", "why": "shorter log", "master_end": 0, "own_end": 3}]
    for i in range(10, 20):
        send(world, "m", i)
    world.run(scaled(60_000))
    assert values(world, "s1") == [0, 1, 2]
    assert world.boxes["s1"].status().extra["refuses_copy_from"] == "m"


def test_what_fails_over_with_several_masters_is_the_topic_and_not_the_group():
    world = cluster(("m1", "m2", "ns"), deployment="DP4")
    assert send(world, "m1", "in a") == "ok"
    client = Routes(1)
    client.learn(routes(world), 0)
    assert client.writers(0) == ["m1", "m2"]
    assert client.writers(1) == ["m2", "m1"]
    world.kill("m1")
    assert send(world, "m2", "elsewhere") == "ok"
    assert client.readers("a") == ["m1"]
    assert world.read("m2") == ["elsewhere"]
    world.start("m1")
    world.run(100)
    assert world.read("m1") == ["in a"]


def test_in_pairs_the_other_group_takes_writes_and_the_slave_serves_the_dead_masters_messages():
    world = cluster(("ma", "sa", "mc", "sc", "ns"), deployment="DP5")
    assert send(world, "ma", 1) == "ok"
    world.run(200)
    world.kill("ma")
    client = Routes(1)
    client.learn(routes(world), 0)
    assert sorted(client.table) == ["a", "c"]
    assert send(world, "mc", 2) == "ok"
    assert client.readers("a") == ["ma", "sa"]
    assert world.read("sa") == [1]
    assert world.read("sc", ms=300) == []


def test_without_name_servers_running_brokers_go_on():
    world = cluster()
    world.kill("ns")
    world.run(scaled(200_000))
    assert send(world, "m", 1) == "ok"
    world.run(200)
    assert values(world, "s1") == [1]
    world.start("ns")
    assert routes(world) == {}
    world.run(scaled(31_000))
    assert routes(world) == {"a": {"0": "m", "1": "s1", "2": "s2"}}
