"""Claims BU-1 to BU-8: bully elections, classic and with MongoDB's vote leases."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.bully import messages as m
from dethrone.harness.core.clock import MS
from tests.clusters.bully.spec import World

FIVE = ("n1", "n2", "n3", "n4", "n5")
THREE = FIVE[:3]


def classic(names=FIVE, **more):
    world = World(names, **more)
    world.run(5_000)
    return world


def mongo(names=THREE, **more):
    world = World(names, profile="mongo", **more)
    assert world.run(60_000, until=lambda: len(world.with_role("PRIMARY")) == 1)
    world.run(4_000)
    return world


def followed(world):
    """Leader → the live nodes that name it."""
    out = {}
    for name, box in world.boxes.items():
        if box.alive:
            out.setdefault(box.status().leader, []).append(name)
    return out


def cut_five(world):
    for one in ("n4", "n5"):
        for other in ("n1", "n2", "n3"):
            world.sever(one, other)


@pytest.mark.claim("BU-1", flip="flip-bu-1")
def test_claim_bu_1_all_follow_the_highest_live_id(variant):
    world = classic(variant=variant)
    assert followed(world) == {"n5": list(FIVE)}
    world.kill("n5", "n4")
    world.run(8_000)
    assert followed(world) == {"n3": ["n1", "n2", "n3"]}


@pytest.mark.claim("BU-2", flip="flip-bu-2")
def test_claim_bu_2_a_top_id_that_returns_takes_over(variant):
    world = World(FIVE, variant=variant)
    world.run(10_000)
    world.kill(*world.with_role("COORDINATOR"))
    world.run(8_000)
    for name in FIVE:
        if not world.boxes[name].alive:
            world.start(name)
    world.run(5_000)
    assert followed(world) == {"n5": list(FIVE)}


@pytest.mark.claim("BU-3", flip="flip-bu-3")
def test_claim_bu_3_both_sides_of_a_cut_elect(variant):
    world = classic(variant=variant)
    cut_five(world)
    world.run(10_000)
    assert world.with_role("COORDINATOR") == ["n3", "n5"]


@pytest.mark.claim("BU-4", flip="flip-bu-4")
def test_claim_bu_4_no_primary_without_a_majority(variant):
    world = mongo(FIVE, variant=variant)
    cut_five(world)
    world.run(12_000)
    for _ in range(120):
        world.run(1_000)
        assert set(world.with_role("PRIMARY")) <= {"n1", "n2", "n3"}


@pytest.mark.claim("BU-5", flip="flip-bu-5")
def test_claim_bu_5_a_voter_gives_one_candidate_its_vote_within_a_lease(variant):
    world = World(THREE, profile="mongo", variant=variant, asleep=THREE)
    world.start("n3")
    votes = []
    world.hold = lambda src, _, body: isinstance(body, m.Ballot) and not votes.append(body.vote)
    for candidate, wait in (("n1", 0), ("n2", 0), ("n1", 29_000), ("n2", 29_000), ("n2", 2_000)):
        world.run(wait)
        world.deliver(candidate, "n3", m.Elect(1))
    assert votes == [1, 0, 1, 0, 1]


@pytest.mark.claim("BU-6", flip="flip-bu-6")
def test_claim_bu_6_a_reachable_fresher_node_blocks_a_candidate(variant):
    world = mongo(variant=variant, fresh_window_ms=1_000_000, priorities="n3:0")
    (primary,) = world.with_role("PRIMARY")
    (lagging,) = {"n1", "n2"} - {primary}
    world.sever(primary, lagging)
    assert world.write(primary, 1)
    world.run(500)
    assert world.boxes["n3"].status().log_end.index == 1
    world.kill(primary)
    world.cut.clear()
    assert not world.run(120_000, until=lambda: world.with_role("PRIMARY"))
    assert any(note.data["why"] == "a fresher node" for note in world.notes("veto"))


@pytest.mark.claim("BU-7", flip="flip-bu-7")
def test_claim_bu_7_a_cut_primary_leaves_within_fail_timeout_and_a_heartbeat(variant):
    world = mongo(variant=variant)
    (primary,) = world.with_role("PRIMARY")
    world.isolate(primary)
    world.run((world.knobs.fail_timeout + world.knobs.heartbeat) // MS)
    assert primary not in world.with_role("PRIMARY")


@pytest.mark.claim("BU-8", flip="flip-bu-8")
def test_claim_bu_8_one_leader_remains_after_a_heal(variant):
    world = classic(variant=variant)
    cut_five(world)
    world.run(10_000)
    assert set(world.with_role("COORDINATOR")) >= {"n3", "n5"}
    world.heal()
    world.run(5_000)
    assert world.with_role("COORDINATOR") == ["n5"]
    assert followed(world) == {"n5": list(FIVE)}
