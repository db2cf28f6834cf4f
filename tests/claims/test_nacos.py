"""Claims 3-1 … 3-32: the naming Raft of Nacos 1.4.1."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos.messages import (
    BeatAnswer,
    BeatRequest,
    CallError,
    Datum,
    DatumStamp,
    Forward,
    PeerAnswer,
    PeerRequest,
    RaftPeer,
    VoteAnswer,
    VoteRequest,
)
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import SetTimer
from tests.claims.distributions import uniform
from tests.clusters.nacos.spec import One, World


def claim(n):
    return pytest.mark.claim(f"3-{n}", flip=f"flip-3-{n}")


def started(names: str = "n1 n2 n3", *, variant=None, **settings) -> World:
    """A cluster whose first node becomes the leader of term 1 at once."""
    world = World(names, variant=variant, **settings)
    world.start()
    for number, name in enumerate(world.names):
        world.state(name).local.leader_due_ms = 500 + 12_000 * number
    world.run(6_000)
    assert world.roles()[world.names[0]] == ("LEADER", 1)
    return world


@claim(1)
def test_claim_3_1_normally_there_is_one_leader_the_others_follow_and_nobody_is_a_candidate(variant):
    world = started("n1 n2 n3 n4 n5", variant=variant)
    for _ in range(60):
        world.run(1_000)
        assert sorted(role for role, _ in world.roles().values()) == ["FOLLOWER"] * 4 + ["LEADER"]


@claim(2)
def test_claim_3_2_an_election_happens_at_the_start_and_after_the_leaders_death(variant):
    for seed in range(5):
        world = World("n1 n2 n3", variant=variant, seed=seed)
        world.start()
        world.run(15_500)
        first = [name for name, (role, _) in world.roles().items() if role == "LEADER"]
        assert len(first) == 1
        world.run(30_000)
        died = world.now
        world.kill(first[0])
        world.run(9_000)
        assert "LEADER" not in {role for role, _ in world.roles().values()}
        world.run(11_600)
        campaigns = [at for at, _, _, note in world.noted if note.name == "campaign" and at > died]
        assert 10_000 * MS - 500 * MS <= campaigns[0] - died <= 20_500 * MS


@claim(3)
def test_claim_3_3_the_own_vote_comes_first_and_floor_n_half_plus_one_votes_elect(variant):
    bench = One("n1 n2 n3 n4 n5", variant=variant).put(leader_due_ms=500)
    bench.fire("election")
    assert {body.vote.vote_for for _, body in bench.sent(VoteRequest)} == {"n1"}
    for number, peer in enumerate(["n2", "n3"], 2):
        bench.tell(peer, VoteAnswer(RaftPeer(peer, "n1", 1)))
        assert bench.note("tally")["best"] == number
        assert (bench.local.state == "LEADER") == (number == 3)


@claim(4)
def test_claim_3_4_a_follower_forwards_client_writes_to_the_leader(variant):
    world = started(variant=variant)
    write = world.put("n3", "x", 7)
    world.run(50)
    assert [(src, dst) for _, src, dst, body in world.sent if isinstance(body, Forward)] == [("n3", "n1")]
    assert world.replies[write] == client_api.Ok()
    assert {world.state(name).items.read("x") for name in world.names} == {7}


@claim(5)
def test_claim_3_5_a_write_is_fine_once_a_majority_has_it(variant):
    for down, fine in [([], True), (["n5"], True), (["n4", "n5"], True), (["n3", "n4", "n5"], False)]:
        world = started("n1 n2 n3 n4 n5", variant=variant)
        world.kill(*down)
        write = world.put("n1", "x", 7)
        world.run(5_001)
        assert isinstance(world.replies[write], client_api.Ok if fine else client_api.Unknown)


@claim(6)
def test_claim_3_6_a_follower_long_without_beats_starts_an_election(variant):
    world = started(variant=variant)
    world.sever("n1", "n3")
    world.run(20_500)
    assert world.notes("campaign", of="n3")
    assert not world.notes("campaign", of="n2")


@claim(7)
def test_claim_3_7_the_start_loads_data_then_the_term_which_is_0_by_default(variant):
    world = started(variant=variant)
    world.put("n1", "x", 7)
    world.run(50)
    world.restart("n2")
    start = world.notes("start", of="n2")[-1]
    assert (start.data["loaded_term"], start.data["items"], start.term) == (1, 1, 1)
    assert world.state("n2").items.read("x") == 7
    assert One(variant=variant).booted[0].data["loaded_term"] == 0


@claim(8)
def test_claim_3_8_both_tasks_tick_every_500_ms(variant):
    for task in ("election", "beat"):
        bench = One(variant=variant)
        first = next(effect.at for effect in bench.booted if isinstance(effect, SetTimer) and effect.name == task)
        assert first == 0
        times = []
        for _ in range(5):
            bench.fire(task)
            times.append(bench.alarms()[task])
            bench.now = times[-1]
        assert times == [500 * MS * number for number in range(1, 6)]


def boots(variant, count: int = 400):
    return [One(seed=seed, variant=variant).local for seed in range(count)]


@claim(9)
def test_claim_3_9_the_first_leader_due_is_random_in_0_to_15_s(variant):
    assert uniform([local.leader_due_ms for local in boots(variant)], 0, 15_000)


@claim(10)
def test_claim_3_10_a_reset_leader_due_is_15_to_20_s(variant):
    bench = One(variant=variant)
    drawn = []
    for _ in range(400):
        bench.state.reset_leader_due()
        drawn.append(bench.local.leader_due_ms)
    assert uniform(drawn, 15_000, 20_000)


@claim(11)
def test_claim_3_11_the_first_heartbeat_due_is_random_in_0_to_5_s_and_later_5_s(variant):
    assert uniform([local.heartbeat_due_ms for local in boots(variant)], 0, 5_000)
    world = started(variant=variant)
    world.run(30_000)
    beats = [at for at, _, _, note in world.noted if note.name == "beat_sent"]
    assert {later - earlier for earlier, later in pairwise(beats)} == {5_000 * MS}


@claim(12)
def test_claim_3_12_nothing_happens_while_the_work_is_stopped_or_not_ready(variant):
    for off in ("stop_work", "not ready"):
        bench = One(variant=variant).put(leader_due_ms=1, heartbeat_due_ms=1, state="LEADER")
        bench.state.stop_work = off == "stop_work"
        bench.state.peers.ready = off != "not ready"
        before = bench.state.record()
        for task in ("election", "beat"):
            bench.fire(task)
            assert not bench.sent()
        assert bench.state.record() == before


@claim(13)
def test_claim_3_13_at_the_due_both_counters_are_reset_and_then_votes_are_asked_for(variant):
    bench = One(variant=variant).put(leader_due_ms=500, heartbeat_due_ms=3)
    bench.fire("election")
    vote = bench.sent(VoteRequest)[0][1].vote
    assert vote.leader_due_ms >= 15_000
    assert vote.heartbeat_due_ms == 5_000


@claim(14)
def test_claim_3_14_a_campaign_clears_all_votes_raises_the_term_votes_for_itself_and_asks_all_others(variant):
    bench = One(variant=variant).put(leader_due_ms=500, term=4).know("n2", vote_for="n3").know("n3", vote_for="n3")
    bench.fire("election")
    assert [bench.state.peers.peers[peer].vote_for for peer in ("n2", "n3")] == [None, None]
    expected = RaftPeer("n1", "n1", 5, bench.local.leader_due_ms, 5_000, "CANDIDATE")
    assert bench.sent() == [("n2", VoteRequest(expected)), ("n3", VoteRequest(expected))]


@claim(15)
def test_claim_3_15_failed_vote_calls_are_ignored(variant):
    bench = One(variant=variant).put(leader_due_ms=500)
    bench.fire("election")
    before = bench.core.status(bench.clocks())
    bench.tell("n2", CallError("vote", "illegal state", "no"))
    bench.fail("n3", VoteRequest(bench.state.record()))
    assert bench.core.status(bench.clocks()) == before


@claim(16)
def test_claim_3_16_a_vote_request_of_an_unknown_peer_is_an_error(variant):
    assert One(variant=variant).vote("stranger", 9) == CallError("vote", "illegal state", "can not find peer: stranger")


@claim(17)
def test_claim_3_17_a_term_not_above_the_own_is_refused_an_empty_vote_becomes_the_own_name(variant):
    bench = One(variant=variant).put(term=2)
    assert bench.vote("n2", 2) == VoteAnswer(bench.state.record())
    assert bench.local.vote_for == "n1"
    bench.put(vote_for="n3")
    assert bench.vote("n2", 1).peer.vote_for == "n3"


@claim(18)
def test_claim_3_18_a_term_above_the_own_is_adopted_with_the_vote(variant):
    bench = One(variant=variant).put(term=2, state="CANDIDATE", vote_for="n1", leader_due_ms=1)
    record = bench.vote("n2", 7).peer
    assert (record.state, record.vote_for, record.term) == ("FOLLOWER", "n2", 7)
    assert record.leader_due_ms >= 15_000


@claim(19)
def test_claim_3_19_the_larger_term_wins_and_nothing_else_is_compared(variant):
    bench = One(variant=variant).put(term=2)
    for number in range(9):
        bench.state.items.put(Datum(f"k{number}", 1, number + 1))
    assert bench.vote("n2", 3).peer.vote_for == "n2"


@claim(20)
def test_claim_3_20_with_equal_terms_the_earlier_due_wins(variant):
    for first, second in [("n1", "n2"), ("n2", "n1")]:
        world = World("n1 n2 n3", variant=variant)
        world.start()
        world.due(**{first: 2_000, second: 2_500, "n3": 9_000})
        world.run(8_000)
        assert world.roles()[first] == ("LEADER", 1)


@claim(21)
def test_claim_3_21_the_peer_named_by_a_majority_is_made_leader_and_said_once_a_change(variant):
    bench = One(variant=variant).put(leader_due_ms=500)
    bench.fire("election")
    said = 0
    for peer in ("n2", "n3", "n2"):
        bench.tell(peer, VoteAnswer(RaftPeer(peer, "n1", 1)))
        said += len(bench.notes("leader_set"))
    assert said == 1
    assert bench.state.peers.leader_ip == "n1"


@claim(22)
def test_claim_3_22_the_majority_is_half_the_size_plus_one(variant):
    for size, majority in [(2, 2), (3, 2), (4, 3), (5, 3)]:
        bench = One(" ".join(f"n{number}" for number in range(1, size + 1)), variant=variant)
        assert bench.state.peers.majority_count() == majority


@claim(23)
def test_claim_3_23_only_a_clustered_leader_beats_and_it_resets_its_own_leader_due_by_that(variant):
    for members, state, standalone, beats in [
        ("n1 n2", "LEADER", "false", True),
        ("n1 n2", "CANDIDATE", "false", False),
        ("n1 n2", "FOLLOWER", "false", False),
        ("n1", "LEADER", "true", False),
    ]:
        bench = One(members, standalone=standalone, variant=variant)
        bench.put(state=state, heartbeat_due_ms=500, leader_due_ms=3)
        bench.fire("beat")
        assert bool(bench.sent(BeatRequest)) == beats
        assert (bench.local.leader_due_ms >= 15_000) == beats


@claim(24)
def test_claim_3_24_beats_carry_key_and_timestamp_of_every_item_unless_send_beat_only(variant):
    for only, stamps in [("false", (DatumStamp("x", 4),)), ("true", ())]:
        bench = One(send_beat_only=only, variant=variant).put(state="LEADER", heartbeat_due_ms=500)
        bench.state.items.put(Datum("x", 1, 4))
        bench.fire("beat")
        assert {body.datums for _, body in bench.sent(BeatRequest)} == {stamps}


@claim(25)
def test_claim_3_25_a_beat_of_a_node_that_does_not_lead_is_refused(variant):
    for state in ("FOLLOWER", "CANDIDATE"):
        assert isinstance(One(variant=variant).beat("n2", 9, state=state), CallError)


@claim(26)
def test_claim_3_26_a_beat_of_a_lower_term_is_refused(variant):
    bench = One(variant=variant).put(term=3)
    assert isinstance(bench.beat("n2", 2), CallError)
    assert isinstance(bench.beat("n2", 3), BeatAnswer)


@claim(27)
def test_claim_3_27_an_accepted_beat_turns_a_non_follower_into_a_follower_labelled_with_the_sender(variant):
    for state in ("CANDIDATE", "LEADER"):
        record = One(variant=variant).put(state=state, vote_for="n1", term=3).beat("n2", 3).peer
        assert (record.state, record.vote_for) == ("FOLLOWER", "n2")


@claim(28)
def test_claim_3_28_an_accepted_beat_resets_both_dues(variant):
    bench = One(variant=variant).put(leader_due_ms=1, heartbeat_due_ms=1)
    bench.beat("n2", 3)
    assert bench.local.leader_due_ms >= 15_000
    assert bench.local.heartbeat_due_ms == 5_000


@claim(29)
def test_claim_3_29_while_beats_arrive_no_follower_starts_an_election(variant):
    world = started("n1 n2 n3 n4 n5", variant=variant)
    world.run(600_000)
    assert [note.term for note in world.notes("campaign")] == [1]


@claim(30)
def test_claim_3_30_a_new_leader_is_recorded_said_and_the_former_leaders_record_refreshed_from_it(variant):
    bench = One(variant=variant).follow("n3", 1)
    bench.beat("n2", 2)
    assert bench.note("leader_set")["leader"] == "n2"
    assert bench.sent() == [("n3", PeerRequest())]
    bench.tell("n3", PeerAnswer(RaftPeer("n3", "n2", 2)))
    assert bench.state.peers.peers["n3"].state == "FOLLOWER"


@claim(31)
def test_claim_3_31_switching_to_the_new_version_stops_the_protocol(variant):
    world = World("n1 n2 n3", variant=variant, version_switch_ms="30000")
    world.start()
    world.run(30_000)
    before = len(world.sent)
    world.run(60_000)
    assert len(world.sent) == before
    assert all(world.status(name).extra["stop_work"] for name in world.names)


@claim(32)
def test_claim_3_32_permanent_items_are_published_by_this_protocol_and_lie_on_every_disk(variant):
    """Temporary instances (memory, copied asynchronously) are no part of it: documentary only."""
    world = started(variant=variant)
    world.put("n2", "x", 7)
    world.run(50)
    for name in world.names:
        assert world.boxes[name].disk.shown.get("data/naming/data/public/x") == b'{"key":"x","value":7,"timestamp":1}'
