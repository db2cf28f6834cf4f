"""The shortest world in which a planted bug shows, with the honest build beside it."""

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.clusters.targets.raft.messages import AppendReply
from tests.clusters.raft.spec import World, honest_and
from tests.clusters.raft.test_sequences import win


@pytest.mark.parametrize("variant", [None, "28-never-steps-down", "30-sending-is-contact"])
def test_28_and_30_a_leader_leads_on_without_a_quorum(variant):
    world = win(World("ABC", variant=variant), "A")
    world.isolate("A")
    world.run(3000)
    assert (world.boxes["A"].node.leading is None) == (variant is None)


@honest_and("35-no-pre-vote")
def test_35_an_isolated_follower_comes_back_with_a_higher_term(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    term = world.boxes["A"].node.term
    world.isolate("C")
    world.run(3000)
    world.heal()
    world.run(2000)
    assert (max(box.node.term for box in world.boxes.values()) > term) == broken


@honest_and("36-hears-no-leader")
def test_36_a_cut_pair_moves_a_healthy_leader(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    world.run(100)
    world.sever("A", "C")
    world.run(3000)
    assert (len(world.judge.leaders) > 1) == broken


@honest_and("37-pre-vote-terms-compared")
def test_37_two_live_nodes_and_no_leader(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    assert world.write("A", 1)
    world.run(100)
    world.kill("C")
    for turn in range(3):
        world.restart("AB"[turn % 2])
        assert world.run(5000, until=lambda: world.leader() is not None)
        world.run(100)
    last, other = world.leader(), next(name for name in "AB" if name != world.leader())
    world.isolate(other)
    world.run(20)
    world.kill(last)
    world.heal()
    world.start("C")
    world.run(10_000)
    if broken:
        assert world.boxes["C"].node.term < world.boxes[other].node.term
    assert (world.leader() is None) == broken


@honest_and("40-commits-old-terms")
def test_40_figure_8_with_small_batches(variant, broken):
    world = win(World("12345", variant=variant, max_entries_per_append=1, sync=(0, 0)), "1")
    world.run(60)
    world.partition("12", "345")
    world.request("1", Append("k", "a"))
    world.run(5)
    held = world.boxes["2"].node.log.end
    world.kill("1")
    world.partition("2", "345")
    world.hold = lambda src, dst, body: src == "5" and bool(getattr(body, "entries", ()))
    win(world, "5")
    assert held == 2
    world.kill("5")
    world.heal()
    world.isolate("4")
    world.start("1")
    # only the old entry reaches 3: its blank entry is held back

    def own_term(src, dst, body):
        late = any(entry.index > 2 for entry in getattr(body, "entries", ()))
        return late and dst == "3" and world.boxes[dst].node.log.end >= 2

    world.hold = own_term
    win(world, "1")
    world.run(120)
    assert (world.boxes["1"].node.commit >= 2) == broken


@honest_and("45-acks-after-local-append")
def test_45_an_acknowledged_write_is_lost_with_its_leader(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    world.run(60)
    world.isolate("A")
    acked = world.write("A", "x", ms=200)
    assert acked == broken
    world.kill("A")
    world.run(3000, until=lambda: world.leader() is not None)
    assert world.ask(world.leader(), Get("k")) == Ok(None)


@honest_and("52-election-on-wall-clock")
def test_52_a_wall_clock_that_steps_back_stops_elections(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    world.run(200)
    world.step_wall(-3_600_000)
    world.kill("A")
    world.run(5000)
    assert (world.leader() is None) == broken


@honest_and("56-reads-before-own-term")
def test_56_a_new_leader_serves_a_read_before_it_knows_what_is_committed(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    assert world.write("A", 1)
    world.run(30)
    assert world.write("A", 2)
    world.kill("A")
    behind = [name for name in "BC" if world.boxes[name].node.log.end == 3]
    name = behind[0]
    assert world.boxes[name].node.commit < 3
    world.hold = lambda src, dst, body: isinstance(body, AppendReply) and body.match_index > 3
    win(world, name)
    read = world.ask(name, Get("k"), ms=200)
    assert (read == Ok([1])) == broken
    assert read is None or broken


@honest_and("58-heartbeats-while-stuck")
def test_58_a_leader_with_a_hung_disk_is_not_replaced(variant, broken):
    world = win(World("ABC", variant=variant), "A")
    world.run(100)
    start = world.start_batch
    world.start_batch = lambda box: start(box) if box.name != "A" else None
    world.request("A", Append("k", 1))
    world.run(3000)
    assert (world.leader(among="BC") is None) == broken


@honest_and("10-resumes-leadership")
def test_10_two_entries_at_one_place_in_one_term(variant, broken):
    world = win(World("ABC", variant=variant, sync=(0, 0)), "A")
    world.run(100)
    world.start_batch, start = (lambda box: None if box.name == "A" else start(box)), world.start_batch
    world.sever("A", "C")
    world.request("A", Append("k", "lost"))
    world.run(5)
    world.boxes["A"].batches.clear()
    world.restart("A", power=True)
    world.start_batch = start
    for box in world.boxes.values():
        if box.batches:
            start(box)
    world.heal()
    world.sever("A", "B")
    world.run(2)
    if world.boxes["A"].node.leading:
        world.request("A", Append("k", "other"))
    world.run(20)
    assert world.judge.logs_match() != broken
