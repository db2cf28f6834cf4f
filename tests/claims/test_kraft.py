"""The 32 claims about KRaft: each holds for the honest core, and its test turns red under the claim's flip."""

from __future__ import annotations

from math import sqrt

import msgspec
import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EpochEnd,
    FetchRequest,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.rules import LEADER
from dethrone.clusters.targets.kraft.storage import LOG, STATE, read_state
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Note, Send
from dethrone.harness.core.rng import Rng
from tests.clusters.kraft.spec import NO, A, B, C, One, World, begin, change, disk, granted, records, refused, vote
from tests.world.effects import answer, names, sent


def claim(number, *, flip=True):
    return pytest.mark.claim(f"4-{number}", flip=f"flip-4-{number}" if flip else None)


def uniform(draws, lo, hi):
    """Whether integer draws fit the uniform distribution on [lo, hi] (Kolmogorov-Smirnov, 1 %)."""
    n, size = len(draws), hi - lo + 1
    worst = 0.0
    for i, draw in enumerate(sorted(draws)):
        assert lo <= draw <= hi
        below, upto = (draw - lo) / size, (draw - lo + 1) / size
        worst = max(worst, (i + 1) / n - upto, below - i / n)
    return worst < 1.63 / sqrt(n)


@claim(1, flip=False)
def test_claim_4_1_metadata_lives_in_the_internal_log_and_nothing_else_is_needed(variant):
    world, leader = World.with_leader(variant=variant)
    assert world.write(leader, 1)
    world.run(1000)
    for box in world.boxes.values():
        assert {path.split("/")[0] for path in box.disk.shown} == {"__cluster_metadata-0"}
    assert {dst for _, _, dst, _ in world.sent} <= set("ABC")


@claim(2)
def test_claim_4_2_observers_do_not_vote_campaign_or_lead(variant):
    world = World("ABCDE", variant=variant, observers="D,E", seed=3)
    world.elect()
    world.run(5_000)
    for name in "ABC":
        world.kill(name)
    world.run(15_000)
    assert not [who for _, who, _ in world.judge.votes if who in "DE"]
    assert not world.messages(VoteRequest, src="D")
    assert world.boxes["D"].status().role in ("Unattached", "Follower")


@claim(3)
def test_claim_4_3_the_start_state_is_computed_from_the_file(variant):
    starts = {}
    for leader, voted in ((NO, NO), (NO, A), (NO, B), (A, NO), (B, NO)):
        one = One(disk(7, leader=leader, voted=voted), variant=variant)
        starts[leader, voted] = (one.node.state, one.node.epoch)
    assert starts == {
        (NO, NO): ("Unattached", 7),
        (NO, A): ("Candidate", 7),
        (NO, B): ("Voted", 7),
        (A, NO): ("Resigned", 7),
        (B, NO): ("Follower", 7),
    }


@claim(4)
def test_claim_4_4_a_log_ahead_of_the_file_means_unattached_in_its_epoch(variant):
    for more in ({}, {"leader": A}, {"leader": B}, {"voted": A}, {"voted": B}):
        one = One(disk(3, log=(1, 5), **more), variant=variant)
        assert (one.node.state, one.node.epoch, one.node.leader, one.node.voted) == ("Unattached", 5, NO, NO)
        assert read_state(one.disk.shown[STATE]).leader_epoch == 5


@claim(5)
def test_claim_4_5_a_killed_leader_comes_back_resigned(variant):
    world, leader = World.with_leader(variant=variant)
    epoch = world.boxes[leader].node.epoch
    world.isolate(leader)
    world.sent.clear()
    world.restart(leader)
    assert world.boxes[leader].node.state == "Resigned"
    world.run(50)
    assert not world.messages(BeginQuorumEpochRequest, src=leader)
    assert world.messages(EndQuorumEpochRequest, src=leader)
    assert (world.boxes[leader].node.epoch, world.boxes[leader].leads) == (epoch, False)


@claim(6)
def test_claim_4_6_a_killed_candidate_comes_back_as_candidate_of_the_same_epoch(variant):
    world = World("ABC", variant=variant)
    world.isolate("A")
    world.campaign("A")
    world.run(20)
    epoch = world.boxes["A"].node.epoch
    world.sent.clear()
    world.restart("A")
    assert (world.boxes["A"].node.state, world.boxes["A"].node.epoch) == ("Candidate", epoch)
    assert world.boxes["A"].node.votes == {A: True}
    world.run(20)
    assert {body.candidate_epoch for _, _, _, body in world.messages(VoteRequest, src="A")} == {epoch}


@claim(7)
def test_claim_4_7_a_killed_voter_comes_back_voted(variant):
    one = One(disk(4), variant=variant)
    one.hear("B", vote(B, 4))
    again = one.again(variant=variant)
    assert (again.node.state, again.node.epoch, again.node.voted) == ("Voted", 4, B)


@claim(8)
def test_claim_4_8_a_killed_follower_comes_back_as_follower(variant):
    one = One(disk(4), variant=variant)
    one.follow(C, epoch=4)
    again = one.again(variant=variant)
    assert (again.node.state, again.node.epoch, again.node.leader) == ("Follower", 4, C)
    assert sent(again.booted, FetchRequest)[0][0] == "C"


@claim(9)
def test_claim_4_9_an_empty_disk_means_unattached(variant):
    one = One({}, variant=variant)
    assert (one.node.state, one.node.epoch, one.node.leader, one.node.voted) == ("Unattached", 0, NO, NO)


@claim(10)
def test_claim_4_10_the_file_holds_its_seven_fields(variant):
    one = One(disk(4), variant=variant)
    one.hear("B", vote(B, 6))
    words = msgspec.json.decode(one.disk.shown[STATE])
    assert words == {
        "clusterId": "dethrone",
        "leaderId": -1,
        "leaderEpoch": 6,
        "votedId": B,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }


@claim(11)
def test_claim_4_11_a_candidate_raises_the_epoch_and_votes_for_itself_before_it_asks(variant):
    for image in (disk(4), disk(4, leader=B), disk(4, leader=A)):
        one = One(image, variant=variant)
        out = one.time_out()
        assert (one.node.state, one.node.epoch, one.node.voted) == ("Candidate", 5, A)
        told = next(i for i, e in enumerate(out) if isinstance(e, Note) and e.name == "persisted")
        assert (out[told].data["leaderEpoch"], out[told].data["votedId"]) == (5, A)
        assert told < next(i for i, e in enumerate(out) if isinstance(e, Send))


@claim(12)
def test_claim_4_12_voted_means_voted_for_another(variant):
    one = One(disk(4), variant=variant)
    assert answer(one.hear("B", vote(B, 4))).partition.vote_granted
    status = one.status()
    assert (status.role, status.term, status.voted_for) == ("Voted", 4, "B")
    assert read_state(one.disk.shown[STATE]).voted_id == B


@claim(13)
def test_claim_4_13_more_than_half_of_the_votes_elect(variant):
    for size, needed in ((2, 2), (3, 2), (4, 3), (5, 3)):
        members = "ABCDE"[:size]
        one = One(disk(3, voters=tuple(range(1, size + 1))), members=members, variant=variant)
        one.stand()
        for votes, voter in enumerate(members[1:], 2):
            one.hear(voter, granted(4))
            assert (one.node.state == "Leader") == (votes >= needed), size


@claim(14)
def test_claim_4_14_a_new_leader_tells_all_other_voters(variant):
    one = One(disk(3, voters=(1, 2, 3, 4, 5)), members="ABCDE", variant=variant)
    out = one.lead(votes="CD")
    told = sent(out, BeginQuorumEpochRequest)
    assert [to for to, _ in told] == ["B", "C", "D", "E"]
    assert {(body.leader_id, body.leader_epoch) for _, body in told} == {(A, 4)}
    last_note = max(i for i, e in enumerate(out) if isinstance(e, Note) and e.name == "elected")
    assert last_note < next(i for i, e in enumerate(out) if isinstance(e, Send))


@claim(15)
@pytest.mark.parametrize("state", ["Unattached", "Voted", "Candidate", "Follower"])
def test_claim_4_15_a_voter_that_is_told_becomes_follower(variant, state):
    images = {"Unattached": {}, "Voted": {"voted": B}, "Candidate": {"voted": A}, "Follower": {"leader": B}}
    one = One(disk(4, **images[state]), variant=variant)
    epoch = 5 if state == "Follower" else 4
    assert answer(one.hear("C", begin(C, epoch)), BeginQuorumEpochResponse).error_code == "NONE"
    assert (one.node.state, one.node.leader, one.node.epoch) == ("Follower", C, epoch)
    assert read_state(one.disk.shown[STATE]).leader_id == C


@claim(16)
def test_claim_4_16_a_vote_stays_within_its_epoch_also_across_a_restart(variant):
    one = One(disk(4), variant=variant)
    one.hear("B", vote(B, 5))
    assert not answer(one.hear("C", vote(C, 5, 3, 99))).partition.vote_granted
    again = one.again(variant=variant)
    assert not answer(again.hear("C", vote(C, 5, 3, 99))).partition.vote_granted
    assert answer(again.hear("B", vote(B, 5))).partition.vote_granted
    assert answer(again.hear("C", vote(C, 6, 3, 99)), VoteResponse).partition.vote_granted


@claim(17)
def test_claim_4_17_every_change_is_stored_before_it_shows_and_the_epoch_cannot_fall_back(variant):
    one = One(disk(1), variant=variant)
    changes = (
        lambda: one.hear("B", vote(B, 3)),
        lambda: one.hear("C", begin(C, 3)),
        lambda: one.hear("B", refused(6)),
        one.time_out,
        lambda: one.hear("B", granted(one.node.epoch)),
        lambda: one.hear("C", refused(12)),
    )
    states = []
    for happen in changes:
        out = happen()
        states.append(one.node.state)
        told = [i for i, e in enumerate(out) if isinstance(e, Note) and e.name == "persisted"]
        shown = [i for i, e in enumerate(out) if isinstance(e, Send)]
        assert told, one.node.state
        assert not shown or told[0] < shown[0]
        stored = read_state(one.disk.shown[STATE])
        assert (stored.leader_epoch, stored.voted_id, stored.leader_id) == (
            one.node.epoch,
            one.node.voted,
            one.node.leader,
        )
        assert one.again().node.epoch == one.node.epoch
    assert states == ["Voted", "Follower", "Unattached", "Candidate", "Leader", "Unattached"]


@claim(18)
def test_claim_4_18_a_vote_request_tells_partition_candidate_and_the_end_of_its_log(variant):
    one = One(disk(4, log=(1, 2, 2)), variant=variant)
    words = msgspec.json.decode(msgspec.json.encode(sent(one.time_out(), VoteRequest)[0][1]))
    del words["correlationId"]
    assert words == {
        "type": "vote_request",
        "clusterId": "dethrone",
        "partitionIndex": 0,
        "candidateEpoch": 5,
        "candidateId": A,
        "lastOffsetEpoch": 2,
        "lastOffset": 3,
    }


@claim(19)
def test_claim_4_19_a_candidate_with_an_older_log_gets_no_vote(variant):
    for candidate, given in (((2, 2), True), ((3, 1), True), ((2, 1), False), ((1, 9), False)):
        one = One(disk(4, log=(2, 2)), variant=variant)
        made = answer(one.hear("B", vote(B, 5, *candidate)), VoteResponse)
        assert made.partition.vote_granted == given, candidate


@claim(20, flip=False)
def test_claim_4_20_a_round_without_a_majority_is_repeated_after_a_random_bounded_delay(variant):
    timeouts, delays = [], {1: [], 2: [], 3: [], 7: []}
    for seed in range(300):
        one = One(variant=variant, seed=seed)
        one.stand()
        for retries in range(1, 8):
            timeouts.append((one.node.election_at - one.now) // MS)
            epoch = one.node.epoch
            one.time_out()
            assert (one.node.epoch, one.node.backing_off) == (epoch, True)
            delay = (one.node.backoff_at - one.now) // MS
            assert 0 <= delay <= 1000
            if retries in delays:
                delays[retries].append(delay)
            one.time_out()
            assert (one.node.epoch, one.node.retries) == (epoch + 1, retries + 1)
    assert uniform(timeouts, 1000, 1999)
    for retries in (1, 2, 3):
        assert {delay % 100 for delay in delays[retries]} == {0}
        assert uniform([delay // 100 for delay in delays[retries]], 0, 2**retries - 1)
    assert 250 <= sum(delay == 1000 for delay in delays[7]) < 300  # 118 of 128 draws are above the bound


@claim(21, flip=False)
def test_claim_4_21_split_votes_of_four_voters_end(variant):
    splits = 0
    for seed in range(25):
        world = World("ABCD", seed=seed, variant=variant)
        world.campaign("A")
        world.campaign("B")  # A and C against B and D is a dead lock
        world.hold = lambda src, dst, body: isinstance(body, VoteRequest) and (src, dst) in {("A", "D"), ("B", "C")}
        world.run(200)
        splits += world.leader() is None
        world.hold = None
        assert world.run(10_000, until=lambda w=world: w.leader() is not None)
        assert world.problems == []
    assert splits == 25


@claim(22, flip=False)
@pytest.mark.parametrize(("word", "window"), [("1.0", 2000), ("1.5", 3000)])
def test_claim_4_22_a_leader_without_fetches_of_a_majority_starts_an_election(variant, word, window):
    for seed in range(5):
        world, leader = World.with_leader("ABCDE", seed=seed, variant=variant, check_quorum=word)
        world.run(2_000)
        world.isolate(leader)
        cut = world.now
        assert world.run(window + 10, until=lambda w=world, x=leader: w.boxes[x].status().role == "Resigned")
        assert world.now - cut >= (window - 520) * MS  # the last majority fetched at most one parked fetch ago
        assert world.run(2_010, until=lambda w=world, x=leader: w.boxes[x].status().role == "Candidate")


@claim(23, flip=False)
def test_claim_4_23_a_follower_without_answers_starts_an_election_after_the_fetch_timeout(variant):
    for seed in range(10):
        world, leader = World.with_leader(seed=seed, variant=variant)
        world.run(2_000 + 37 * seed)
        follower = next(name for name in "ABC" if name != leader)
        last = max(
            at for at, _, _, body in world.messages(FetchRequest, src=follower, dst=leader)
        )  # it was sent upon an answer
        world.cut = {(leader, follower)}
        box = world.boxes[follower]
        assert world.run(2_600, until=lambda b=box: b.node.state == "Candidate")
        assert world.now - last >= 2_000 * MS - 5 * MS
        assert box.node.epoch > world.boxes[leader].node.epoch or not world.boxes[leader].leads


@claim(24)
def test_claim_4_24_a_record_is_committed_only_when_a_majority_fetched_it(variant):
    one = One(disk(3, voters=(1, 2, 3, 4, 5)), members="ABCDE", variant=variant)
    one.lead(votes="BC")
    assert (one.status().log_end.index, one.status().commit) == (1, 0)
    one.fetched("B", 1)
    one.fetched("C", 0)
    assert one.status().commit == 0
    one.fetched("C", 1)
    assert one.status().commit == 1


@claim(25)
def test_claim_4_25_the_log_end_counts_what_is_not_committed_and_the_high_watermark_stays_below(variant):
    one = One(disk(3), variant=variant)
    one.lead(votes="B")
    one.fetched("B", 1)
    one.ask(Append("k", 1))
    one.fire("linger", after_ms=25)
    assert (one.status().log_end.index, one.status().hw) == (2, 1)
    follower = One(disk(3, leader=B, log=(1, 3)), variant=variant)
    follower.answered(hw=9)
    assert (follower.status().log_end.index, follower.status().hw) == (2, 2)


@claim(26)
def test_claim_4_26_a_new_leader_knows_only_its_own_position(variant):
    one = One(disk(3, log=(1, 2, 2)), variant=variant)
    one.lead(votes="B")
    extra = one.status().extra
    assert [extra["voterStates"][name]["endOffset"] for name in "ABC"] == [4, None, None]
    assert (one.status().hw, extra["highWatermark"], extra["epochStartOffset"]) == (None, -1, 3)


@claim(27)
def test_claim_4_27_a_follower_fetches_again_at_once_from_its_log_end(variant):
    one = One(disk(3, leader=B, log=(1, 1)), variant=variant)
    assert sent(one.booted, FetchRequest)[0][1].fetch_offset == 2
    out = one.answered(records(3, 3, first=2))
    assert answer(out, FetchRequest).fetch_offset == 4
    assert answer(one.answered(), FetchRequest).fetch_offset == 4
    assert answer(one.answered(diverging=EpochEnd(1, 1)), FetchRequest).fetch_offset == 1


@claim(28)
def test_claim_4_28_records_of_earlier_epochs_on_a_majority_do_not_move_the_high_watermark(variant):
    one = One(disk(3, log=(1, 1, 1, 1)), variant=variant)
    one.lead(votes="B")
    out = one.fetched("B", 2)
    assert (one.status().hw, one.status().commit) == (None, 0)
    assert len(answer(out).records) == 3
    one.fetched("B", 4)
    one.fetched("C", 4)
    assert (one.status().hw, one.status().commit) == (None, 0)


@claim(29)
def test_claim_4_29_a_record_of_the_epoch_on_a_majority_moves_it(variant):
    one = One(disk(3, log=(1, 1, 1, 1)), variant=variant)
    one.lead(votes="B")
    one.fetched("B", 2)
    out = one.fetched("B", 5)
    assert one.status().hw == 5
    assert answer(out).high_watermark == 5
    assert "hw_advance" in names(out)


@claim(30)
def test_claim_4_30_a_follower_learns_the_high_watermark_from_the_answer(variant):
    one = One(disk(4, leader=B, log=(1, 1, 1, 1)), variant=variant)
    one.answered([change(4, 4)], hw=-1)
    assert one.status().hw == 0
    one.answered(hw=5)
    assert (one.status().hw, one.status().commit) == (5, 5)


@claim(31, flip=False)
def test_claim_4_31_a_leader_keeps_voters_and_observers_apart(variant):
    world, leader = World.with_leader("ABCDE", variant=variant, observers="D,E")
    assert world.write(leader, 1)
    world.run(1_200)
    extra = world.boxes[leader].status().extra
    assert sorted(extra["voterStates"]) == ["A", "B", "C"]
    assert sorted(extra["observerStates"]) == ["D", "E"]
    assert {state["endOffset"] for state in extra["observerStates"].values()} == {2}
    for name in "ABC":
        if name != leader:
            world.kill(name)
    world.request(leader, Append("k", 2))
    world.run(1_000)
    assert world.boxes[leader].status().commit == 2  # two observers are no majority
    assert world.with_role(LEADER) == [leader]


@claim(32)
def test_claim_4_32_the_log_grows_with_every_change_and_every_election(variant):
    one = One(disk(0), variant=variant)
    for election in range(1, 4):
        one.lead(votes="B")
        assert one.status().log_end == (one.status().log_end.__class__)(one.node.epoch, 2 * election - 1)
        one.ask(Append("k", election))
        one.fire("linger", after_ms=25)
        assert one.status().log_end.index == 2 * election
        one.hear("C", refused(one.node.epoch + 1))
    kinds = [type(record.command).__name__ for record in one.node.log.entries]
    assert kinds == ["LeaderChange", "Append"] * 3
    assert LOG in one.disk.shown


def test_the_random_stream_decides_every_draw():
    knobs = TARGET.knobs({})
    rules = TARGET.core(node="A", members=("A", "B", "C"), knobs=knobs, variant=None).node.rules
    assert [rules.election_timeout_ms(Rng(1)) for _ in range(2)] == [rules.election_timeout_ms(Rng(1))] * 2
