"""The 32 testable claims 3-1 … 3-32 of the source on the naming Raft, each as a test of that number."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clusters.protocols import client_api
from clusters.protocols.nacos.messages import (
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
from clusters.protocols.nacos.peers import RaftPeerSet
from harness.core.clock import MS
from harness.core.machine import SetTimer
from tests.clusters.nacos.bench import Bench
from tests.clusters.nacos.minisim import Sim


def started(names: str = "n1 n2 n3", **settings) -> Sim:
    """A cluster whose first node becomes the leader of term 1 at once."""
    sim = Sim(names, **settings)
    sim.start()
    for number, name in enumerate(sim.members):
        sim.state(name).local.leader_due_ms = 500 + 12_000 * number
    sim.run(6_000)
    assert sim.roles()[sim.members[0]] == ("LEADER", 1)
    return sim


def test_claim_3_1_normally_there_is_one_leader_the_others_follow_and_nobody_is_a_candidate():
    sim = started("n1 n2 n3 n4 n5")
    for _ in range(60):
        sim.run(1_000)
        assert sorted(role for role, _ in sim.roles().values()) == ["FOLLOWER"] * 4 + ["LEADER"]


@pytest.mark.parametrize("seed", range(5))
def test_claim_3_2_an_election_happens_at_the_start_and_after_the_leaders_death(seed):
    sim = Sim("n1 n2 n3", seed=seed)
    sim.start()
    sim.run(15_500)
    first = [name for name, (role, _) in sim.roles().items() if role == "LEADER"]
    assert len(first) == 1
    sim.run(30_000)
    died = sim.now
    sim.kill(first[0])
    sim.run(9_000)
    assert "LEADER" not in {role for role, _ in sim.roles().values()}
    sim.run(11_600)
    campaigns = [at for at, _, _, note in sim.notes if note.name == "campaign" and at > died]
    assert 10_000 * MS - 500 * MS <= campaigns[0] - died <= 20_500 * MS


def test_claim_3_3_the_own_vote_comes_first_and_floor_n_half_plus_one_votes_elect():
    bench = Bench("n1 n2 n3 n4 n5").put(leader_due_ms=500)
    bench.fire("election")
    assert {body.vote.vote_for for _, body in bench.sent(VoteRequest)} == {"n1"}
    for number, peer in enumerate(["n2", "n3"], 2):
        bench.tell(peer, VoteAnswer(RaftPeer(peer, "n1", 1)))
        assert bench.note("tally")["best"] == number
        assert (bench.local.state == "LEADER") == (number == 3)


def test_claim_3_4_a_follower_forwards_client_writes_to_the_leader():
    sim = started()
    write = sim.put("n3", "x", 7)
    sim.run(50)
    assert [(src, dst) for _, src, dst, body in sim.sent if isinstance(body, Forward)] == [("n3", "n1")]
    assert sim.replies[write] == client_api.Ok()
    assert {sim.state(name).items.read("x") for name in sim.members} == {7}


@pytest.mark.parametrize(
    ("down", "fine"), [([], True), (["n5"], True), (["n4", "n5"], True), (["n3", "n4", "n5"], False)]
)
def test_claim_3_5_a_write_is_fine_once_a_majority_has_it(down, fine):
    sim = started("n1 n2 n3 n4 n5")
    sim.kill(*down)
    write = sim.put("n1", "x", 7)
    sim.run(5_001)
    assert isinstance(sim.replies[write], client_api.Ok if fine else client_api.Unknown)


def test_claim_3_6_a_follower_long_without_beats_starts_an_election():
    sim = started()
    sim.cut("n1", "n3")
    sim.run(20_500)
    assert sim.named("campaign", "n3")
    assert not sim.named("campaign", "n2")


def test_claim_3_7_the_start_loads_data_then_the_term_which_is_0_by_default():
    sim = started()
    sim.put("n1", "x", 7)
    sim.run(50)
    sim.restart("n2")
    start = sim.named("start", "n2")[-1]
    assert (start.data["loaded_term"], start.data["items"], start.term) == (1, 1, 1)
    assert sim.state("n2").items.read("x") == 7
    assert Bench().boot_out[0].data["loaded_term"] == 0


def test_claim_3_8_both_tasks_tick_every_500_ms():
    for task in ("election", "beat"):
        bench = Bench()
        first = next(effect.at for effect in bench.boot_out if isinstance(effect, SetTimer) and effect.name == task)
        assert first == 0
        times = []
        for _ in range(5):
            bench.fire(task)
            times.append(bench.timers()[task])
            bench.now = times[-1]
        assert times == [500 * MS * number for number in range(1, 6)]


def boots(count: int = 400):
    return [Bench(seed=seed).local for seed in range(count)]


def test_claim_3_9_the_first_leader_due_is_random_in_0_to_15_s():
    drawn = [local.leader_due_ms for local in boots()]
    assert min(drawn) >= 0
    assert max(drawn) < 15_000
    assert min(drawn) < 500
    assert max(drawn) > 14_500
    assert 6_700 < sum(drawn) / len(drawn) < 8_300


def test_claim_3_10_a_reset_leader_due_is_15_to_20_s():
    bench = Bench()
    drawn = []
    for _ in range(400):
        bench.state.reset_leader_due()
        drawn.append(bench.local.leader_due_ms)
    assert min(drawn) >= 15_000
    assert max(drawn) < 20_000
    assert min(drawn) < 15_200
    assert max(drawn) > 19_800


def test_claim_3_11_the_first_heartbeat_due_is_random_in_0_to_5_s_and_later_5_s():
    drawn = [local.heartbeat_due_ms for local in boots()]
    assert min(drawn) >= 0
    assert min(drawn) < 300
    assert 4_700 < max(drawn) < 5_000
    sim = started()
    sim.run(30_000)
    beats = [at for at, _, _, note in sim.notes if note.name == "beat_sent"]
    assert {later - earlier for earlier, later in pairwise(beats)} == {5_000 * MS}


@pytest.mark.parametrize("off", ["stop_work", "not ready"])
def test_claim_3_12_nothing_happens_while_the_work_is_stopped_or_not_ready(off):
    bench = Bench().put(leader_due_ms=1, heartbeat_due_ms=1, state="LEADER")
    bench.state.stop_work = off == "stop_work"
    bench.state.peers.ready = off != "not ready"
    before = bench.state.record()
    for task in ("election", "beat"):
        bench.fire(task)
        assert not bench.sent()
    assert bench.state.record() == before


def test_claim_3_13_at_the_due_both_counters_are_reset_and_then_votes_are_asked_for():
    bench = Bench().put(leader_due_ms=500, heartbeat_due_ms=3)
    bench.fire("election")
    vote = bench.sent(VoteRequest)[0][1].vote
    assert vote.leader_due_ms >= 15_000
    assert vote.heartbeat_due_ms == 5_000


def test_claim_3_14_a_campaign_clears_all_votes_raises_the_term_votes_for_itself_and_asks_all_others():
    bench = Bench().put(leader_due_ms=500, term=4).know("n2", vote_for="n3").know("n3", vote_for="n3")
    bench.fire("election")
    assert [bench.state.peers.peers[peer].vote_for for peer in ("n2", "n3")] == [None, None]
    expected = RaftPeer("n1", "n1", 5, bench.local.leader_due_ms, 5_000, "CANDIDATE")
    assert bench.sent() == [("n2", VoteRequest(expected)), ("n3", VoteRequest(expected))]


def test_claim_3_15_failed_vote_calls_are_ignored():
    bench = Bench().put(leader_due_ms=500)
    bench.fire("election")
    before = bench.core.status(bench.clocks())
    bench.tell("n2", CallError("vote", "illegal state", "no"))
    bench.fail("n3", VoteRequest(bench.state.record()))
    assert bench.core.status(bench.clocks()) == before


def test_claim_3_16_a_vote_request_of_an_unknown_peer_is_an_error():
    assert Bench().vote("stranger", 9) == CallError("vote", "illegal state", "can not find peer: stranger")


def test_claim_3_17_a_term_not_above_the_own_is_refused_an_empty_vote_becomes_the_own_name():
    bench = Bench().put(term=2)
    assert bench.vote("n2", 2) == VoteAnswer(bench.state.record())
    assert bench.local.vote_for == "n1"
    bench.put(vote_for="n3")
    assert bench.vote("n2", 1).peer.vote_for == "n3"


def test_claim_3_18_a_term_above_the_own_is_adopted_with_the_vote():
    bench = Bench().put(term=2, state="CANDIDATE", vote_for="n1", leader_due_ms=1)
    record = bench.vote("n2", 7).peer
    assert (record.state, record.vote_for, record.term) == ("FOLLOWER", "n2", 7)
    assert record.leader_due_ms >= 15_000


def test_claim_3_19_the_larger_term_wins_and_nothing_else_is_compared():
    bench = Bench().put(term=2)
    for number in range(9):
        bench.state.items.put(Datum(f"k{number}", 1, number + 1))
    assert bench.vote("n2", 3).peer.vote_for == "n2"


def test_claim_3_20_with_equal_terms_the_earlier_due_wins():
    for first, second in [("n1", "n2"), ("n2", "n1")]:
        sim = Sim("n1 n2 n3")
        sim.start()
        sim.due(**{first: 2_000, second: 2_500, "n3": 9_000})
        sim.run(8_000)
        assert sim.roles()[first] == ("LEADER", 1)


def test_claim_3_21_the_peer_named_by_a_majority_is_made_leader_and_said_once_a_change():
    bench = Bench().put(leader_due_ms=500)
    bench.fire("election")
    said = 0
    for peer in ("n2", "n3", "n2"):
        bench.tell(peer, VoteAnswer(RaftPeer(peer, "n1", 1)))
        said += len(bench.notes("leader_set"))
    assert said == 1
    assert bench.state.peers.leader_ip == "n1"


@pytest.mark.parametrize(("size", "majority"), [(2, 2), (3, 2), (4, 3), (5, 3)])
def test_claim_3_22_the_majority_is_half_the_size_plus_one(size, majority):
    names = tuple(f"n{number}" for number in range(size))
    assert RaftPeerSet(names[0], names).majority_count() == majority


def test_claim_3_23_only_a_clustered_leader_beats_and_it_resets_its_own_leader_due_by_that():
    for members, state, standalone, beats in [
        ("n1 n2", "LEADER", "false", True),
        ("n1 n2", "CANDIDATE", "false", False),
        ("n1 n2", "FOLLOWER", "false", False),
        ("n1", "LEADER", "true", False),
    ]:
        bench = Bench(members, standalone=standalone)
        bench.put(state=state, heartbeat_due_ms=500, leader_due_ms=3)
        bench.fire("beat")
        assert bool(bench.sent(BeatRequest)) == beats
        assert (bench.local.leader_due_ms >= 15_000) == beats


@pytest.mark.parametrize(("only", "stamps"), [("false", (DatumStamp("x", 4),)), ("true", ())])
def test_claim_3_24_beats_carry_key_and_timestamp_of_every_item_unless_send_beat_only(only, stamps):
    bench = Bench(send_beat_only=only).put(state="LEADER", heartbeat_due_ms=500)
    bench.state.items.put(Datum("x", 1, 4))
    bench.fire("beat")
    assert {body.datums for _, body in bench.sent(BeatRequest)} == {stamps}


def test_claim_3_25_a_beat_of_a_node_that_does_not_lead_is_refused():
    for state in ("FOLLOWER", "CANDIDATE"):
        assert isinstance(Bench().beat("n2", 9, state=state), CallError)


def test_claim_3_26_a_beat_of_a_lower_term_is_refused():
    bench = Bench().put(term=3)
    assert isinstance(bench.beat("n2", 2), CallError)
    assert isinstance(bench.beat("n2", 3), BeatAnswer)


def test_claim_3_27_an_accepted_beat_turns_a_non_follower_into_a_follower_labelled_with_the_sender():
    for state in ("CANDIDATE", "LEADER"):
        record = Bench().put(state=state, vote_for="n1", term=3).beat("n2", 3).peer
        assert (record.state, record.vote_for) == ("FOLLOWER", "n2")


def test_claim_3_28_an_accepted_beat_resets_both_dues():
    bench = Bench().put(leader_due_ms=1, heartbeat_due_ms=1)
    bench.beat("n2", 3)
    assert bench.local.leader_due_ms >= 15_000
    assert bench.local.heartbeat_due_ms == 5_000


def test_claim_3_29_while_beats_arrive_no_follower_starts_an_election():
    sim = started("n1 n2 n3 n4 n5")
    sim.run(600_000)
    assert [note.term for note in sim.named("campaign")] == [1]


def test_claim_3_30_a_new_leader_is_recorded_said_and_the_former_leaders_record_refreshed_from_it():
    bench = Bench().follow("n3", 1)
    bench.beat("n2", 2)
    assert bench.note("leader_set")["leader"] == "n2"
    assert bench.sent() == [("n3", PeerRequest())]
    bench.tell("n3", PeerAnswer(RaftPeer("n3", "n2", 2)))
    assert bench.state.peers.peers["n3"].state == "FOLLOWER"


def test_claim_3_31_switching_to_the_new_version_stops_the_protocol():
    sim = Sim("n1 n2 n3", version_switch_ms="30000")
    sim.start()
    sim.run(30_000)
    before = len(sim.sent)
    sim.run(60_000)
    assert len(sim.sent) == before
    assert all(sim.status(name).extra["stop_work"] for name in sim.members)


def test_claim_3_32_permanent_items_are_published_by_this_protocol_and_lie_on_every_disk():
    """Temporary instances (memory, copied asynchronously) are no part of it: documentary only."""
    sim = started()
    sim.put("n2", "x", 7)
    sim.run(50)
    for name in sim.members:
        assert sim.nodes[name].disk["data/naming/data/public/x"] == b'{"key":"x","value":7,"timestamp":1}'
