"""The witness sees what a core says of itself, and sees it also when the core says nothing."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.nacos import storage
from dethrone.clusters.targets.nacos.messages import BeatAnswer, BeatRequest, RaftPeer, VoteAnswer, VoteRequest
from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.machine import Witnessed
from dethrone.harness.core.rng import Rng
from tests.clusters.nacos.spec import World

MEMBERS = ("n1", "n2", "n3")


def fresh(disk=None):
    witness = TARGET.witness(node="n1", members=MEMBERS)
    assert [seen.name for seen in witness.booted(disk or {})] == ["found"]
    return witness


def record(ip, vote_for, term, state="FOLLOWER"):
    return RaftPeer(ip, vote_for, term, state=state)


def request(candidate, term):
    return VoteRequest(record(candidate, candidate, term, "CANDIDATE"))


def vote(term, candidate, cause):
    return Witnessed("vote", term, {"candidate": candidate, "cause": cause})


def test_a_campaign_is_one_vote_for_oneself_however_many_requests_leave():
    witness = fresh()
    assert witness.sent("n2", request("n1", 1)) == [vote(1, "n1", "campaign")]
    assert witness.sent("n3", request("n1", 1)) == []
    assert witness.sent("n2", request("n1", 2)) == [vote(2, "n1", "campaign")]


def test_a_grant_is_a_vote_and_a_refusal_with_the_same_name_is_none():
    witness = fresh()
    witness.received("n2", request("n2", 1))
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 1))) == [vote(1, "n2", "grant")]
    witness.received("n2", request("n2", 1))
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 1))) == []
    witness.received("n3", request("n3", 1))
    assert witness.sent("n3", VoteAnswer(record("n1", "n2", 1))) == []


def test_a_label_after_a_beat_is_no_vote():
    witness = fresh()
    assert [one.name for one in witness.sent("n3", BeatAnswer(record("n1", "n3", 4)))] == ["answered"]
    witness.received("n3", request("n3", 4))
    assert witness.sent("n3", VoteAnswer(record("n1", "n3", 4))) == []


@pytest.mark.parametrize("stored", [True, False])
def test_a_label_of_a_term_in_which_it_campaigned_is_no_vote_although_the_disk_was_slow(stored):
    witness = fresh()
    witness.received("n3", request("n3", 4))  # it had campaigned in term 4 by then, and followed n3; none of it was out
    if stored:
        witness.synced(storage.write_meta(storage.Meta(4, "n1")))
    else:
        assert witness.sent("n2", request("n1", 4)) == [vote(4, "n1", "campaign")]
    witness.synced(storage.write_meta(storage.Meta(4, "n3")))
    assert witness.sent("n3", VoteAnswer(record("n1", "n3", 4))) == []


def test_a_label_of_a_term_in_which_it_voted_for_another_is_no_vote_although_the_disk_was_slow():
    witness = fresh()
    witness.received("n2", request("n2", 4))
    witness.received("n3", request("n3", 4))
    witness.synced(storage.write_meta(storage.Meta(4, "n2")))
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 4))) == [vote(4, "n2", "grant")]
    witness.synced(storage.write_meta(storage.Meta(4, "n3")))
    assert witness.sent("n3", VoteAnswer(record("n1", "n3", 4))) == []


def test_a_request_that_never_gets_its_answer_does_not_hide_the_next_vote():
    witness = fresh()
    witness.received("n2", request("n2", 1))
    witness.received("n2", request("n2", 2))
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 2))) == [vote(2, "n2", "grant")]
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 2))) == []


def test_a_vote_that_is_synced_before_it_leaves_is_still_seen_when_it_leaves():
    witness = fresh()
    witness.received("n2", request("n2", 1))
    witness.synced(storage.write_meta(storage.Meta(1, "n2")))
    assert witness.sent("n2", VoteAnswer(record("n1", "n2", 1))) == [vote(1, "n2", "grant")]


def test_messages_of_an_older_term_that_leave_late_do_not_turn_back_time():
    witness = fresh()
    witness.sent("n2", request("n1", 1))
    witness.received("n2", VoteAnswer(record("n2", "n1", 1)))
    witness.sent("n2", BeatRequest(record("n1", "n1", 1, "LEADER")))
    witness.sent("n2", request("n1", 2))
    witness.received("n2", VoteAnswer(record("n2", "n1", 2)))
    assert witness.sent("n3", BeatRequest(record("n1", "n1", 1, "LEADER"))) == []
    assert witness.sent("n3", request("n1", 1)) == []
    seen = witness.sent("n2", BeatRequest(record("n1", "n1", 2, "LEADER")))
    assert seen == [Witnessed("elected", 2, {"voters": ["n1", "n2"]})]
    witness.received("n3", request("n3", 2))
    assert witness.sent("n3", VoteAnswer(record("n1", "n3", 2))) == []


def test_a_double_vote_across_a_restart_is_seen():
    witness = fresh()
    witness.received("n2", request("n2", 1))
    witness.sent("n2", VoteAnswer(record("n1", "n2", 1)))
    witness.booted({})
    witness.received("n3", request("n3", 1))
    assert witness.sent("n3", VoteAnswer(record("n1", "n3", 1))) == [vote(1, "n3", "grant")]


def test_a_term_stored_with_its_vote_is_a_floor_and_a_term_alone_is_none():
    for content, seen in [(b"term=1\nvoteFor=n2\n", []), (b"term=1\n", [vote(1, "n3", "grant")])]:
        witness = fresh({storage.META: content})
        witness.received("n3", request("n3", 1))
        assert witness.sent("n3", VoteAnswer(record("n1", "n3", 1))) == seen
    assert fresh({storage.META: "unreadable"}).sent("n2", request("n1", 1)) == [vote(1, "n1", "campaign")]


def test_an_election_is_the_first_message_as_leader_with_the_voters_of_that_term():
    witness = fresh()
    witness.sent("n2", request("n1", 2))
    witness.received("n2", VoteAnswer(record("n2", "n1", 2)))
    witness.received("n3", VoteAnswer(record("n3", "n1", 1)))
    beat = BeatRequest(record("n1", "n1", 2, "LEADER"))
    assert witness.sent("n2", beat) == [Witnessed("elected", 2, {"voters": ["n1", "n2"]})]
    assert witness.sent("n3", beat) == []


def test_a_term_jump_within_one_leadership_is_no_election():
    witness = fresh()
    witness.sent("n2", BeatRequest(record("n1", "n1", 2, "LEADER")))
    assert witness.sent("n2", BeatRequest(record("n1", "n1", 102, "LEADER"))) == []


def test_a_batch_with_meta_properties_is_persisted():
    seen = fresh().synced(storage.write_meta(storage.Meta(3, "n2")))
    assert seen == [Witnessed("persisted", 3, {"voted_for": "n2"})]
    assert fresh().synced(storage.delete_datum("public", "x")) == []


def core_votes(world: World) -> list[tuple[int, str, int, str]]:
    votes = []
    for at, node, _, note in world.noted:
        if note.name == "campaign":
            votes.append((at, node, note.term, node))
        elif note.name == "vote_decision" and note.data["action"] == "grant":
            votes.append((at, node, note.data["candidate_term"], note.data["candidate"]))
    return votes


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(("profile", "settings"), [(None, {}), (None, {"restart_term": "zero"}), ("nacos-mended", {})])
@pytest.mark.parametrize("seed", range(4))
def test_the_witness_and_the_notes_of_an_honest_core_agree(seed, profile, settings, writes):
    world = World("n1 n2 n3", seed=seed, profile=profile, time_factor="0.1", **settings)
    world.disturb(Rng(seed), steps=25, writes=writes)
    seen = [(at, node, vote.term, vote.data["candidate"]) for at, node, _, vote in world.seen if vote.name == "vote"]
    assert seen == core_votes(world)
    elected = {(node, note.term) for _, node, _, note in world.noted if note.name == "elected"}
    assert {(node, seen.term) for node, seen in world.witnessed("elected")} <= elected


@pytest.mark.slow
def test_random_faults_break_the_original_within_two_minutes_and_nearly_always():
    broken = 0
    for seed in range(12):
        world = World("n1 n2 n3 n4 n5", seed=seed, time_factor="0.1")
        world.disturb(Rng(seed + 1000), steps=40)
        broken += bool(world.double_votes() or world.twice_elected())
    assert broken >= 10


@pytest.mark.slow
@pytest.mark.parametrize(("writes", "disk_ms"), [(False, 0), (True, 0), (False, 40), (True, 40), (True, 300)])
@pytest.mark.parametrize("seed", range(6))
def test_random_faults_do_not_break_the_mended_profile(seed, writes, disk_ms):
    world = World("n1 n2 n3 n4 n5", seed=seed, profile="nacos-mended", time_factor="0.1", disk_ms=disk_ms)
    world.disturb(Rng(seed + 2000), steps=40, writes=writes)
    assert world.double_votes() == []
    assert world.twice_elected() == []
    assert len(world.witnessed("elected")) > 3
    for node, seen in world.witnessed("elected"):
        assert len(seen.data["voters"]) >= 3, node


@pytest.mark.parametrize("seed", range(6))
def test_after_the_heal_one_node_leads_and_everybody_holds_its_keys(seed):
    """Keys, not values: a follower keeps a version that is newer than the leader's, for ever (5.7 row 7)."""
    world = World("n1 n2 n3", seed=seed, time_factor="0.1")
    world.disturb(Rng(seed + 3000), steps=15, writes=True)
    world.release()
    world.heal()
    for name in world.names:
        if world.boxes[name].paused:
            world.resume(name)
        if not world.boxes[name].alive:
            world.start(name)
    world.run(12_000)
    leaders = [name for name in world.names if world.status(name).role == "LEADER"]
    assert len(leaders) == 1
    assert {world.status(name).leader for name in world.names} == set(leaders)
    assert len({frozenset(world.state(name).items.keys()) for name in world.names}) == 1
    for name in world.names:
        stored = storage.load_datums(world.boxes[name].disk.shown, "public")
        assert {datum.key for datum in stored} == set(world.state(name).items.keys())


def test_a_start_tells_the_term_that_was_found_and_never_a_vote():
    for disk, term, file in [
        ({}, 0, "absent"),
        ({storage.META: b"term=4\nvoteFor=n2\n"}, 4, "read"),
        ({storage.META: "unreadable"}, 0, "unreadable"),
        ({storage.META: b"term=?\n"}, 0, "unreadable"),
    ]:
        witness = TARGET.witness(node="n1", members=MEMBERS)
        assert witness.booted(disk) == [Witnessed("found", term, {"file": file})]
