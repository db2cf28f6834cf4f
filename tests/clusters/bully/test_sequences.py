"""The known sequences BU-B1 to BU-B6: what the design of bully elections breaks, run in the tests' world."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.bully import messages as m
from tests.clusters.bully.spec import World

FIVE = ("n1", "n2", "n3", "n4", "n5")


def classic(**more):
    world = World(FIVE, **more)
    world.run(5_000)
    assert world.with_role("COORDINATOR") == ["n5"]
    return world


def test_b1_both_sides_take_writes_and_the_highest_id_drops_those_of_the_majority():
    world = classic()
    for one in ("n4", "n5"):
        for other in ("n1", "n2", "n3"):
            world.sever(one, other)
    world.run(10_000)
    assert world.with_role("COORDINATOR") == ["n3", "n5"]
    assert world.write("n3", "majority")
    assert world.write("n5", "minority")
    world.heal()
    world.run(5_000)
    assert world.read("n5") == ["minority"]
    assert {box.status().log_end.index for box in world.boxes.values()} == {1}
    assert len(world.notes("rollback")) == 3


def test_b2_a_coordinator_that_was_frozen_leads_beside_its_successor_when_it_wakes_up():
    world = classic()
    world.pause("n5")
    world.run(8_000)
    assert world.with_role("COORDINATOR") == ["n4", "n5"]
    assert world.write("n4", 1)
    world.resume("n5")
    assert "n5" in world.with_role("COORDINATOR")
    assert world.write("n5", 2)
    world.run(5_000)
    assert world.read("n5") == [2]


@pytest.mark.parametrize("restarted", [False, True])
def test_b3_a_voter_that_restarts_votes_again_within_the_lease(restarted):
    world = World(FIVE[:3], profile="mongo", priorities="n2:0", asleep=FIVE[:3])
    world.sever("n1", "n3")  # the third gives no vote: its own one would bind it, too
    for name in FIVE[:3]:
        world.start(name)
    assert world.run(60_000, until=lambda: bool(world.with_role("PRIMARY")))
    (first,) = world.with_role("PRIMARY")
    (third,) = {"n1", "n3"} - {first}
    world.isolate(first)
    if restarted:
        world.restart("n2")
    assert world.run(20_000, until=lambda: third in world.with_role("PRIMARY")) == restarted


@pytest.mark.parametrize("guard", ["off", "on"])
def test_b4_votes_that_are_held_longer_than_the_lease_make_a_second_primary_that_drops_majority_writes(guard):
    world = World(
        FIVE[:3], profile="mongo", tally_guard=guard, write_concern="majority", priorities="n2:0", asleep=FIVE[:3]
    )
    world.hold = lambda _, __, body: isinstance(body, m.Ballot)
    for name in FIVE[:3]:
        world.start(name)
    assert world.run(60_000, until=lambda: bool(world.held_messages))
    slow = world.held_messages[0][1]
    (other,) = {"n1", "n3"} - {slow}
    world.sever(slow, other)
    world.hold = lambda _, dst, body: isinstance(body, m.Ballot) and dst == slow
    assert world.run(120_000, until=lambda: world.with_role("PRIMARY") == [other])
    assert world.write(other, 1, ms=5_000)
    held, world.hold = world.held_messages, None
    for message in held:
        if message[0] == "n2":
            world.deliver(*message)
    assert set(world.with_role("PRIMARY")) == ({slow, other} if guard == "off" else {other})
    world.heal()
    world.run(10_000)
    if guard == "off":
        assert world.with_role("PRIMARY") == [slow]
        assert world.read(slow) == []
    else:
        assert world.read(other) == [1]


def test_b5_an_answer_that_comes_late_makes_a_lower_coordinator():
    world = classic()
    world.lag["n4", "n3"] = world.lag["n4", "n2"] = world.lag["n4", "n1"] = 1_500
    world.kill("n5")
    seen = set()
    for _ in range(80):
        world.run(100)
        seen.add(tuple(world.with_role("COORDINATOR")))
    assert ("n3", "n4") in seen


def test_b6_leadership_follows_a_top_id_that_flaps():
    world = classic()
    for _ in range(3):
        world.kill("n5")
        world.run(8_000)
        assert world.with_role("COORDINATOR") == ["n4"]
        world.start("n5")
        world.run(3_000)
        assert world.with_role("COORDINATOR") == ["n5"]
