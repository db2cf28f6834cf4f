"""Claims 1-15 … 1-32: Raft, with the profile's extensions on and, where they would mask the claim, off."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Get, NotLeader, Ok
from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply, RequestVote, VoteReply
from dethrone.clusters.targets.raft.storage import VOTE, read_vote
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.machine import Await, Disk, Send, Write
from dethrone.harness.core.rng import Rng
from tests.claims.distributions import uniform
from tests.clusters.raft.spec import One, World, entries, heartbeat
from tests.clusters.raft.test_sequences import win
from tests.world.chaos import drawn, play
from tests.world.effects import names, replies, sent

PAPER = "raft-paper"
ROLES = {"FOLLOWER", "CANDIDATE", "LEADER"}


def claim(n):
    return pytest.mark.claim(f"1-{n}", flip=f"flip-1-{n}")


def world_of(names="ABC", *, variant, leader="A", **more):
    """A cluster with that leader, its first entry committed everywhere."""
    world = World(names, variant=variant, **more)
    win(world, leader)
    world.run(120)
    return world


@claim(15)
def test_claim_1_15_there_are_three_roles_and_only_a_candidate_turns_leader(variant):
    world = World("ABC", variant=variant)
    for turn in range(6):
        assert world.run(3000, until=lambda: world.leader() is not None)
        world.run(100)
        world.restart(world.leader() or "A", power=turn % 2 == 1)
        world.run(300)
        assert {box.status().role for box in world.boxes.values()} <= ROLES
    changes = [(note.data["from"], note.data["to"]) for note in world.notes("role_change")]
    assert ("CANDIDATE", "LEADER") in changes
    assert {before for before, after in changes if after == "LEADER"} == {"CANDIDATE"}


@claim(16)
def test_claim_1_16_a_follower_stands_at_the_start_and_when_the_leader_is_dead_or_out_of_reach(variant):
    for lose in (lambda world, leader: world.kill(leader), lambda world, leader: world.isolate(leader)):
        world = World("ABC", variant=variant)
        assert world.run(3000, until=lambda world=world: world.leader() is not None), "no election at the start"
        first = world.leader()
        term = world.boxes[first].node.term
        world.run(200)
        lose(world, first)
        others = [name for name in "ABC" if name != first]
        assert world.run(3000, until=lambda world=world, others=others: world.leader(among=others) is not None)
        assert world.boxes[world.leader(among=others)].node.term > term


@claim(17)
def test_claim_1_17_a_term_without_a_winner_is_over_and_the_next_campaign_has_a_new_one(variant):
    one = One(profile=PAPER, variant=variant)
    terms = [sent(one.time_out(), RequestVote)[0][1].term for _ in range(4)]
    assert terms == [1, 2, 3, 4]


@claim(18)
def test_claim_1_18_a_node_stands_votes_for_itself_first_and_then_asks_the_others(variant):
    one = One(profile=PAPER, slow=True, variant=variant)
    out = one.time_out()
    assert one.node.role == "CANDIDATE"
    stored = next(k for k, e in enumerate(out) if isinstance(e, Disk))
    vote = next(op.data for op in out[stored].ops if isinstance(op, Write) and op.path == f"{VOTE}.tmp")
    assert read_vote(vote).voted_for == "A"
    held = next((k for k, e in enumerate(out) if isinstance(e, Await) and e.token == out[stored].token), len(out))
    asked = [k for k, e in enumerate(out) if isinstance(e, Send) and isinstance(e.body, RequestVote)]
    assert asked
    assert stored < held < min(asked)


@claim(19)
def test_claim_1_19_a_vote_is_given_once_a_term_to_who_asks_first_restarts_included(variant):
    one = One(profile=PAPER, variant=variant)
    answers = [one.hear(src, RequestVote(3, src, 0, 0)) for src in ("B", "C", "B")]
    assert [sent(out, VoteReply)[0][1].vote_granted for out in answers] == [True, False, True]
    restarted = One(profile=PAPER, term=3, voted_for="B", variant=variant)
    assert not sent(restarted.hear("C", RequestVote(3, "C", 0, 0)), VoteReply)[0][1].vote_granted


@claim(20)
def test_claim_1_20_a_majority_elects_and_without_one_a_new_term_begins(variant):
    for members, needed in [("AB", 1), ("ABC", 1), ("ABCD", 2), ("ABCDE", 2)]:
        one = One(members=members, profile=PAPER, variant=variant).standing()
        for number, voter in enumerate(members[1:], 1):
            assert (one.node.role == "LEADER") == (number > needed), (members, number)
            one.hear(voter, VoteReply(1, True))
        assert one.node.role == "LEADER"
        loser = One(members=members, profile=PAPER, variant=variant).standing()
        loser.time_out()
        assert (loser.node.role, loser.node.term) == ("CANDIDATE", 2)


@claim(21)
def test_claim_1_21_a_candidate_follows_a_leader_of_its_term_or_a_later_one_at_once(variant):
    for ahead, follows in [(-1, False), (0, True), (1, True)]:
        one = One(profile=PAPER, term=4, variant=variant).standing()
        out = one.hear("B", heartbeat("B", 5 + ahead))
        assert (one.node.role == "FOLLOWER") == follows
        assert sent(out, AppendReply)[0][1].success == follows
        assert (one.node.leader == "B") == follows


@claim(22)
def test_claim_1_22_followers_wait_between_150_and_300_ms_at_random(variant):
    waits = []
    for seed in range(300):
        one = One(profile=PAPER, variant=variant)
        one.rng = Rng(seed).stream("wait")
        one.follow("B", term=1)
        began = one.now
        while one.node.role == "FOLLOWER":
            one.fire("election", after_ms=1)
        waits.append((one.now - began) // MS)
    assert uniform(waits, 150, 302)


@claim(23)
def test_claim_1_23_candidates_that_tied_wait_for_a_random_time(variant):
    waits = []
    for seed in range(150):
        world = World("AB", seed=seed, profile=PAPER, variant=variant, delay=(5, 5), sync=(0, 0))
        world.campaign("A")
        world.campaign("B")
        began = world.now
        world.run(1000, until=lambda world=world: max(box.node.term for box in world.boxes.values()) > 1)
        waits.append((world.now - began) / MS)
    # the first of two: 1 - (1 - F)^2 is uniform
    assert uniform([1 - (1 - (wait - 150) / 150) ** 2 for wait in waits], 0, 1)


@claim(24)
def test_claim_1_24_one_leader_takes_all_reads_and_writes(variant):
    world = world_of("ABCDE", variant=variant)
    assert world.ask("A", Append("k", 1)) == Ok(2, 2, 1)
    assert world.ask("A", Get("k")) == Ok([1])
    for name in "BCDE":
        for body in (Append("k", 2), Get("k")):
            assert world.ask(name, body) == NotLeader("A")
    assert [box.name for box in world.boxes.values() if box.node.leading] == ["A"]


@claim(25)
def test_claim_1_25_entries_go_to_all_and_a_majority_must_have_them(variant):
    one = One(members="ABCDE", variant=variant).leading(votes="BC")
    out = one.ask(Append("k", 1))
    told = {to for to, body in sent(out, AppendEntries) if body.entries}
    index = one.node.log.end
    seq = one.node.leading.seq
    answered = replies(out)
    for number, peer in enumerate("BCDE", 2):
        assert (bool(answered), number > 3) in {(False, False), (True, True)}
        more = one.hear(peer, AppendReply(1, True, index, 0, seq))
        answered += replies(more)
        told |= {to for to, body in sent(more, AppendEntries) if body.entries}
    assert answered == [Ok(index, index, 1)]
    assert told | {to for to, body in sent(out, AppendEntries)} <= set("BCDE")
    assert set(one.node.leading.progress) == set("BCDE")


@claim(26)
def test_claim_1_26_a_minority_that_is_down_changes_nothing(variant):
    for nodes, down in [("ABC", "B"), ("ABCDE", "BD"), ("ABCDE", "AE")]:
        world = World(nodes, variant=variant)
        for name in down:
            world.kill(name)
        assert world.run(5000, until=lambda world=world: world.leader() is not None)
        for value in range(5):
            assert world.write(world.leader(), value)


@claim(27)
def test_claim_1_27_the_leader_sends_heartbeats_to_all_followers(variant):
    world = win(World("ABCDE", variant=variant), "A")
    world.sent.clear()
    world.run(1000)
    heard = {name: len(world.messages(AppendEntries, src="A", dst=name)) for name in "BCDE"}
    assert all(count >= 18 for count in heard.values()), heard
    assert world.leader() == "A"


@claim(28)
def test_claim_1_28_a_dead_leader_is_replaced_and_nobody_is_served_meanwhile(variant):
    world = world_of(variant=variant)
    world.kill("A")
    while world.leader() is None and world.now < 10 * SECOND:
        for name in "BC":
            answer = world.ask(name, Append("k", 1), ms=1)
            assert answer is None or isinstance(answer, NotLeader)
        world.run(10)
    assert world.leader() is not None
    assert world.now < 5 * SECOND
    assert world.write(world.leader(), 2)


@claim(29)
def test_claim_1_29_the_leader_appends_locally_before_it_replicates(variant):
    one = One(variant=variant).leading()
    for peer in "BC":
        one.hear(peer, AppendReply(1, True, 1, 0, one.node.leading.seq))
    one.slow = True
    out = one.ask(Append("k", 1))
    written = next(k for k, e in enumerate(out) if isinstance(e, Disk))
    replicated = [k for k, e in enumerate(out) if isinstance(e, Send) and e.body.entries]
    assert names(out)[0] == "append"
    assert replicated
    assert written < min(replicated)


@claim(30)
def test_claim_1_30_a_follower_out_of_reach_is_sent_everything_however_long_it_takes(variant):
    world = world_of(variant=variant)
    world.isolate("C")
    for value in range(20):
        assert world.write("A", value)
        world.run(1000)
    assert world.boxes["C"].node.log.end == 1
    world.heal()
    assert world.run(3000, until=world.converged)
    assert world.boxes["C"].node.machine.read("k") == list(range(20))
    assert world.leader() == "A"


@claim(31)
def test_claim_1_31_followers_apply_once_they_are_told_of_a_majority(variant):
    one = One(variant=variant).following("B", term=1)
    one.hear("B", heartbeat("B", 1, seq=2, new=entries(1, 1)))
    assert (one.node.log.end, one.node.commit, one.node.applied) == (2, 0, 0)
    out = one.hear("B", heartbeat("B", 1, 2, 1, commit=1, seq=3))
    assert names(out) == ["commit", "apply"]
    assert (one.node.commit, one.node.applied) == (1, 1)
    world = world_of("ABCDE", variant=variant)
    world.partition("AB", "CDE")
    assert not world.write("A", 1, ms=100)
    assert {box.node.commit for box in world.boxes.values()} == {1}


@claim(32)
def test_claim_1_32_followers_drop_what_follows_the_last_common_entry(variant):
    one = One(term=3, log=(1, 2, 2, 2), variant=variant)
    refused = sent(one.hear("B", heartbeat("B", 4, 4, 3)), AppendReply)[0][1]
    assert not refused.success
    one.hear("B", heartbeat("B", 4, 1, 1, seq=2, new=entries(3, 4, first=2)))
    assert [entry.term for entry in one.node.log.entries] == [1, 3, 4]
    for seed in range(12):
        world = World("ABC", seed=seed, variant=variant)
        play(world, drawn(World, Rng(seed).stream("diverge"), "ABC", count=40))
        world.mend()
        assert world.run(5000, until=lambda world=world: world.converged())
        assert world.judge.logs_match()
