"""Planted bugs: each differs from the honest build in its rule; some by a sequence of their own."""

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.dledger import messages as m
from dethrone.harness.core.machine import Message
from tests.clusters.dledger.spec import World
from tests.clusters.dledger.test_known_weaknesses import old_entry_on_a_majority


def test_10_a_tail_that_was_pushed_before_it_was_written_gets_another_content():
    for variant, matches in (("10-pushes-unwritten-tail", False), (None, True)):
        world, leader = World.with_leader(variant=variant, sync=(100, 100))
        assert world.write(leader, 1, ms=2000)
        world.run(3000)
        others = [name for name in "ABC" if name != leader]
        world.sever(leader, others[1])
        world.request(leader, Append("k", "x"))
        world.run(20)
        box = world.boxes[leader]
        box.batches.clear()  # the machine dies before its disk did anything
        world.kill(leader)
        world.run(200)
        world.heal()
        world.isolate(others[0])
        world.start(leader)
        world.run(5000)
        assert world.leader() == leader
        world.request(leader, Append("k", "y"))
        world.run(1000)
        assert world.judge.logs_match() == matches


@pytest.mark.parametrize(("variant", "leader"), [("14-last-log-term-is-current", "C"), (None, "B")])
def test_14_a_longer_log_of_an_older_term_leads_without_committed_entries(variant, leader):
    world = World("ABC", asleep="ABC", variant=variant)
    for name, log in (("B", (0, 3)), ("C", (0, 1, 1, 1))):
        world.prepare(name, term=3, log=log)
        world.start(name)
    world.run(30_000, until=lambda: world.leader() is not None)
    assert world.leader() == leader


def test_40_an_old_entry_that_was_committed_by_counting_is_overwritten():
    world, committed = old_entry_on_a_majority(variant="40-commits-old-terms")
    assert committed == 1
    assert any("INV-4" in text for text in world.problems)


@pytest.mark.parametrize(("variant", "leads"), [("16-counts-other-campaigns", True), (None, False)])
def test_16_a_vote_of_an_earlier_campaign_makes_a_leader_of_a_later_term(variant, leads):
    world = World("ABC", asleep="C", variant=variant, refuse=False)
    world.boxes["B"].node.next_vote = 1 << 62
    world.hold = lambda src, dst, body: type(body) is m.VoteResponse
    world.run(100)
    (late,) = [held for held in world.held_messages if held[2].vote_result == m.ACCEPT]
    assert late[0] == "B"
    node = world.boxes["A"].node
    world.run(3000)  # nobody answered in time
    node.last_result = "WAIT_TO_VOTE_NEXT"
    assert world.run(5000, until=lambda: node.waits is not None and node.waits.term == 1)
    world.arrive(world.boxes["A"], Message(late[0], late[2]))
    world.run(50)
    assert (node.role == "LEADER") == leads
    assert any("INV-12" in text for text in world.problems) == leads


@pytest.mark.parametrize(("variant", "survives"), [("45-acks-after-local-append", False), (None, True)])
def test_45_a_write_that_only_its_leader_has_is_acknowledged_and_lost(variant, survives):
    world, leader = World.with_leader(variant=variant)
    assert world.write(leader, 1)
    world.run(3000)
    world.isolate(leader)
    acknowledged = world.write(leader, 2)
    assert acknowledged != survives
    world.run(20_000)
    assert world.write(world.leader(), 3)
    world.heal()
    world.run(20_000)
    assert world.boxes[world.leader()].node.machine.read("k") == [1, 3]
