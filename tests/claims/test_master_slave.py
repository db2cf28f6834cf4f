"""Claims 0-1, 0-42 and 1-1 to 1-9: RocketMQ's deployments before, and without, election."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.master_slave import SYSTEM
from dethrone.clusters.targets.client_api import Get, NotLeader, Ok
from dethrone.clusters.targets.master_slave import messages as m
from dethrone.clusters.targets.master_slave.knobs import DEPLOYMENTS
from dethrone.clusters.targets.master_slave.target import TARGET
from tests.clusters.dledger.spec import World
from tests.clusters.master_slave.spec import cluster, promote, routes, scaled, send, slaves, values


@pytest.mark.claim("0-1", flip="flip-0-1")
def test_claim_0_1_a_dead_master_is_not_replaced_without_an_operator(variant):
    world = cluster(("m", "s1", "ns"), deployment="DP1", variant=variant)
    world.kill("m")
    world.run(scaled(600_000))
    assert world.with_role("MASTER") == []
    promote(world, "s1")
    assert world.with_role("MASTER") == ["s1"]


@pytest.mark.claim("0-42")
def test_claim_0_42_without_dledger_the_storage_is_the_commit_log(variant):
    world = cluster(variant=variant)
    assert {world.boxes[name].status().extra["storage"] for name in ("m", "s1", "s2")} == {"CommitLog"}
    assert "dledger" not in SYSTEM.knobs({}, profile=None, variant=None)


@pytest.mark.claim("1-1")
def test_claim_1_1_a_group_has_one_master_and_any_number_of_slaves(variant):
    for deployment, brokers in (("DP1", 2), ("DP2", 2), ("DP3", 6), ("DP4", 3), ("DP5", 6)):
        names = (*(f"n{i}" for i in range(brokers)), "ns")
        world = cluster(names, deployment=deployment, variant=variant)
        groups = {}
        for name in names[:-1]:
            status = world.boxes[name].status()
            groups.setdefault(status.extra["group"], []).append(status.role)
        assert all(roles.count("MASTER") == 1 for roles in groups.values())
        assert {len(roles) for roles in groups.values()} == {{"DP4": 1, "DP5": 2}.get(deployment, brokers)}


@pytest.mark.claim("1-2", flip="flip-1-2")
def test_claim_1_2_slaves_copy_synchronously_or_asynchronously(variant):
    held = {}
    for deployment in ("DP2", "DP3"):
        role = {} if deployment == "DP2" else {"broker_role": "SYNC_MASTER"} if variant else {}
        world = cluster(deployment=deployment, variant=variant, **role)
        for slave in ("s1", "s2"):
            world.lag["m", slave] = 40
        assert send(world, "m", 1) == "ok"
        held[deployment] = [1] in (values(world, "s1"), values(world, "s2"))
    assert held == {"DP2": True, "DP3": False}


@pytest.mark.claim("1-3", flip="flip-1-3")
def test_claim_1_3_a_slave_does_not_replace_its_dead_master_but_a_restart_or_a_switch_brings_it_back(variant):
    world = cluster(variant=variant)
    world.kill("m")
    world.run(scaled(600_000))
    assert slaves(world) == ["s1", "s2"]
    world.start("m")
    world.run(scaled(31_000))
    assert send(world, "m", 1) == "ok"


@pytest.mark.claim("1-4", flip="flip-1-4")
def test_claim_1_4_after_the_masters_death_the_group_takes_no_write(variant):
    world = cluster(variant=variant)
    world.kill("m")
    for _ in range(5):
        world.run(scaled(60_000))
        assert [send(world, name, "probe") for name in ("m", "s1", "s2")] == [None, "refused", "refused"]


@pytest.mark.claim("1-5", flip="flip-1-5")
def test_claim_1_5_the_master_reads_and_writes_a_slave_reads_only(variant):
    world = cluster(variant=variant)
    assert send(world, "m", 1) == "ok"
    world.run(200)
    for name in ("m", "s1", "s2"):
        assert world.ask(name, Get("k")) == Ok([1])
    from dethrone.clusters.targets.client_api import Append

    for name in ("s1", "s2"):
        assert world.ask(name, Append("k", 2)) == NotLeader("m")


@pytest.mark.claim("1-6", flip="flip-1-6")
def test_claim_1_6_only_broker_id_1_takes_balanced_reads(variant):
    for first_id, balanced in ((1, 1), (2, 0)):
        world = cluster(suggest_slave_lag=1, first_slave_id=first_id, variant=variant)
        for i in range(5):
            send(world, "m", i)
        world.run(200)
        assert world.ask("m", m.Pull("k", 0)).value["suggest"] == balanced


@pytest.mark.claim("1-7", flip="flip-1-7")
def test_claim_1_7_broker_id_0_is_the_master_and_only_that(variant):
    world = cluster(("m", "s1", "s2", "s3", "ns"), variant=variant)
    seen = {}
    for name in ("m", "s1", "s2", "s3"):
        status = world.boxes[name].status()
        seen[status.extra["broker_id"]] = status.role
    assert seen == {0: "MASTER", 1: "SLAVE", 2: "SLAVE", 3: "SLAVE"}


@pytest.mark.claim("1-8")
def test_claim_1_8_the_deployments(variant):
    shapes = {
        "DP1": (("m", "s", "ns"), {"a": ["0", "1"]}, "ASYNC_MASTER"),
        "DP2": (("m", "s", "t", "ns"), {"a": ["0", "1", "2"]}, "SYNC_MASTER"),
        "DP3": (("m", "s", "t", "ns"), {"a": ["0", "1", "2"]}, "ASYNC_MASTER"),
        "DP4": (("m", "n", "ns"), {"a": ["0"], "b": ["0"]}, "ASYNC_MASTER"),
        "DP5": (("m", "s", "n", "t", "ns"), {"a": ["0", "1"], "c": ["0", "1"]}, "ASYNC_MASTER"),
    }
    assert set(shapes) == set(DEPLOYMENTS)
    for deployment, (names, table, role) in shapes.items():
        world = cluster(names, deployment=deployment, variant=variant)
        assert {group: sorted(ids) for group, ids in routes(world).items()} == table
        assert world.boxes["m"].status().extra["broker_role"] == role


@pytest.mark.claim("1-9")
def test_claim_1_9_the_new_architecture_elects_and_this_one_has_nothing_to_elect_with(variant):
    assert variant is None
    assert {body.__name__ for body in TARGET.message_type.__args__} == {
        "RegisterBroker",
        "RegisterAnswer",
        "HaAck",
        "HaTransfer",
    }
    world = World(("n1", "n2", "n3"))
    assert world.run(60_000, until=lambda: len(world.with_role()) == 1)
    (old,) = world.with_role()
    world.kill(old)
    assert world.run(120_000, until=lambda: any(name != old for name in world.with_role()))
