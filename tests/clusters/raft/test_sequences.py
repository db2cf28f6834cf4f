"""The named sequences of raft.md 6: reproduced with their knobs, and those of the paper not under `raft`."""

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.clusters.targets.raft.messages import RequestVote
from tests.clusters.raft.spec import World

both = pytest.mark.parametrize("profile", ["raft", "raft-paper"])
PLAIN = {"noop": "off", "reads": "local"}


def win(world, name, *, tries=12):
    """Let ``name`` campaign until it leads, with nobody else's deadline in the way."""
    for _ in range(tries):
        if world.boxes[name].node.leading:
            return world
        for box in world.boxes.values():
            if box.alive and not box.node.leading:
                # nobody hears anybody any more, and nobody else's deadline passes first
                box.node.contact, box.node.leader = -(10**12), None
                box.node.reset_deadline()
        world.campaign(name)
        world.run(20)
    assert world.boxes[name].node.leading, f"{name} does not win"
    return world


@both
@pytest.mark.parametrize(("persist", "broken"), [("off", True), ("on", False)])
def test_rf_b1_without_persistence_a_restarted_voter_elects_a_second_leader(profile, persist, broken):
    world = World("ABC", profile=profile, persist=persist)
    world.sever("A", "C")
    win(world, "A")
    world.restart("B")
    world.partition("A", "BC")
    world.campaign("C")
    world.run(20)
    assert any("INV-1" in problem for problem in world.problems) == broken


@both
@pytest.mark.parametrize(("log_check", "broken"), [("off", True), ("on", False)])
def test_rf_b2_without_the_log_check_an_acknowledged_write_is_lost(profile, log_check, broken):
    world = win(World("ABC", profile=profile, log_check=log_check), "A")
    world.isolate("C")
    assert world.write("A", "x")
    world.run(60)
    world.kill("A")
    world.heal()
    for _ in range(3):
        box = world.boxes["B"].node
        box.contact, box.leader = -(10**12), None
        world.campaign("C")
        world.run(10)
    assert any("INV-4" in problem for problem in world.problems) == broken


def figure_8(profile, **knobs):
    world = win(World("12345", profile=profile, sync=(0, 0), **PLAIN, **knobs), "1")
    world.partition("12", "345")
    world.request("1", Append("k", "a"))
    world.run(5)
    assert world.boxes["2"].node.log.end == 1
    world.kill("1")
    win(world, "5")
    world.isolate("5")
    world.request("5", Append("k", "b"))
    world.run(5)
    world.kill("5")
    world.heal()
    world.isolate("4")
    world.start("1")
    win(world, "1")
    world.run(20)
    assert world.boxes["3"].node.log.end == 1
    committed = world.boxes["1"].node.commit
    world.kill("1")
    world.heal()
    world.start("5")
    win(world, "5")
    world.run(60)
    return world, committed


@both
def test_rf_b3_counting_old_terms_loses_a_committed_entry(profile):
    world, committed = figure_8(profile, commit_current_term_only="off")
    assert committed == 1
    assert any("INV-4" in problem for problem in world.problems)


@both
def test_rf_b3_with_the_rule_the_entry_is_not_committed_and_nothing_is_lost(profile):
    world, committed = figure_8(profile)
    assert committed == 0
    assert world.problems == []


def stale_read(profile):
    world = win(World("ABCDE", profile=profile), "A")
    assert world.write("A", 1)
    world.isolate("A")
    world.run(2000, until=lambda: world.leader(among="BCDE"))
    assert world.write(world.leader(among="BCDE"), 2)
    return world.ask("A", Get("k"))


def test_rf_b4_the_paper_serves_a_stale_read():
    assert stale_read("raft-paper") == Ok([1])


def test_rf_b4_raft_does_not():
    assert not isinstance(stale_read("raft"), Ok)


@pytest.mark.parametrize(("profile", "leads"), [("raft-paper", True), ("raft", False)])
def test_rf_b5_a_leader_cut_for_ever(profile, leads):
    world = win(World("ABC", profile=profile), "A")
    world.isolate("A")
    world.run(420)
    assert (world.boxes["A"].node.role == "LEADER") == leads
    world.run(5000)
    assert (world.boxes["A"].node.role == "LEADER") == leads
    assert world.problems == []


@pytest.mark.parametrize(("profile", "deposed"), [("raft-paper", True), ("raft", False)])
def test_rf_b6_an_isolated_follower_comes_back(profile, deposed):
    world = win(World("ABC", profile=profile), "A")
    assert world.write("A", 1)
    term = world.boxes["A"].node.term
    world.isolate("C")
    world.run(3000)
    world.heal()
    world.run(1000)
    assert (max(box.node.term for box in world.boxes.values()) > term) == deposed
    assert (world.boxes["A"].node.leading is None) or not deposed or len(world.judge.leaders) > 1


@both
@pytest.mark.parametrize(("prev_check", "broken"), [("off", True), ("on", False)])
def test_rf_b7_without_the_previous_entrys_check_logs_stop_matching(profile, prev_check, broken):
    world = win(World("ABC", profile=profile, prev_check=prev_check, **PLAIN), "A")
    assert world.write("A", "e")
    world.run(60)
    world.isolate("A")
    world.request("A", Append("k", "a"))
    world.run(5)
    world.kill("A")
    win(world, "B")
    assert world.write("B", "b")
    world.run(60)
    world.kill("B")
    world.heal()
    world.start("A")
    win(world, "C")
    assert world.write("C", "c")
    world.run(100)
    assert world.judge.logs_match() != broken


@both
@pytest.mark.parametrize(("retry", "new_term"), [("on", False), ("off", True)])
def test_rf_b8_asking_again_in_the_same_term_never_ends_it(profile, retry, new_term):
    world = World("ABCD", profile=profile, retry_same_term=retry, delay=(1, 1))
    apart = {("A", "D"), ("C", "B")}
    world.hold = lambda src, dst, body: isinstance(body, RequestVote) and (src, dst) in apart and body.term == 1
    world.campaign("A")
    world.campaign("C")
    world.run(10)
    assert [world.boxes[name].node.voted_for for name in "ABCD"] == ["A", "A", "C", "C"]
    for name in "BD":  # the two voters stay out of it
        world.boxes[name].node.rules.may_campaign = lambda *_, leaving: False
    world.hold = None
    world.run(3000)
    assert (world.leader() is not None) == new_term
    assert 1 not in world.judge.leaders


@pytest.mark.parametrize(("profile", "replaced"), [("raft-paper", False), ("raft", True)])
def test_rf_b9_a_leader_that_hears_nobody(profile, replaced):
    world = win(World("ABC", profile=profile), "A")
    world.run(60)
    world.cut = {("B", "A"), ("C", "A")}
    world.run(5000)
    assert (world.leader(among="BC") is not None) == replaced
    assert (world.boxes["A"].node.leading is None) == replaced


def test_rf_b10_a_paused_follower_deposes_nobody_under_raft():
    world = win(World("ABC"), "A")
    world.run(100)
    world.pause("C")
    world.run(1000)
    world.resume("C")
    world.run(1000)
    assert world.boxes["A"].node.leading
    assert world.boxes["C"].node.term == 1


@both
def test_rf_b11_without_a_majority_nobody_is_elected(profile):
    world = win(World("ABCDE", profile=profile), "A")
    for name in "ABC":
        world.kill(name)
    elected = len(world.judge.leaders)
    world.run(5000)
    assert len(world.judge.leaders) == elected
    world.start("A")
    world.run(5000)
    assert len(world.judge.leaders) > elected


def test_rx_b5_without_leader_check_and_stickiness_a_cut_pair_moves_a_healthy_leader():
    for checks, moved in (({"prevote_leader_check": "off", "stickiness": "off"}, True), ({}, False)):
        world = win(World("ABC", **checks), "A")
        world.run(100)
        world.sever("A", "C")
        world.run(2000)
        assert (len(world.judge.leaders) > 1) == moved


def test_a_follower_that_was_wiped_is_filled_again():
    world = win(World("ABC"), "A")
    assert world.write("A", 1)
    world.run(100)
    world.restart("C", wipe=True)
    world.run(500)
    assert world.boxes["C"].node.machine.read("k") == [1]
