"""Votes: the eight rows of the table, campaigns, back-off, and the common rule for answers."""

import pytest

from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    VoteRequest,
    VoteResponse,
)
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Note, Send
from tests.clusters.kraft.spec import NO, A, B, C, E, One, begin, disk, granted, refused, vote
from tests.world.effects import answer, names, note, sent


def at(state, *, log=(), **more):
    """Node A in epoch 4, in that state, with that log."""
    images = {
        "Unattached": disk(4, log=log),
        "Voted": disk(4, voted=B, log=log),
        "Candidate": disk(4, voted=A, log=log),
        "Follower": disk(4, leader=B, log=log),
        "Resigned": disk(4, leader=A, log=log),
        "Leader": disk(3, log=log),
    }
    one = One(images[state], **more)
    if state == "Leader":
        one.lead(votes="B")
    assert (one.node.state, one.node.epoch) == (state, 4)
    return one


ALL = ("Unattached", "Voted", "Candidate", "Follower", "Resigned", "Leader")


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize(
    ("request_", "row", "code"),
    [
        (vote(C, 9, cluster="other"), 1, "INCONSISTENT_CLUSTER_ID"),
        (vote(C, 9, 0, -1), 2, "INVALID_REQUEST"),
        (vote(C, 9, -1, 0), 2, "INVALID_REQUEST"),
        (vote(C, 9, 9, 1), 2, "INVALID_REQUEST"),
        (vote(C, 3), 3, "FENCED_LEADER_EPOCH"),
        (vote(-1, 9), 4, "INVALID_REQUEST"),
        (vote(7, 9), 5, "INCONSISTENT_VOTER_SET"),
    ],
)
def test_rows_1_to_5_refuse_whatever_the_state_and_change_nothing(state, request_, row, code):
    one = at(state)
    out = one.hear("C", request_)
    made = answer(out)
    assert isinstance(made, VoteResponse)
    if row == 1:
        assert (made.error_code, made.partition) == (code, None)
    else:
        partition = made.partition
        assert (made.error_code, partition.error_code, partition.vote_granted) == ("NONE", code, False)
        assert (partition.leader_epoch, partition.leader_id) == (4, one.node.leader)
    assert note(out, "vote_decision")["rule"] == row
    assert (one.node.state, one.node.epoch) == (state, 4)
    assert made.correlation_id == request_.correlation_id


def test_an_observer_refuses_to_vote_and_its_candidacy_is_refused():
    one = One(disk(4, voters=(A, B)), observers="C")
    assert answer(one.hear("C", vote(C, 9))).partition.error_code == "INCONSISTENT_VOTER_SET"
    observer = One(disk(4, voters=(A, B)), node="C", observers="C")
    assert answer(observer.hear("A", vote(A, 9)), VoteResponse).partition.error_code == "INCONSISTENT_VOTER_SET"
    assert observer.node.epoch == 4


@pytest.mark.parametrize("state", ALL)
def test_row_6_a_higher_epoch_is_taken_over_even_from_a_candidate_with_an_older_log(state):
    one = at(state, log=(1, 1, 2))
    out = one.hear("C", vote(C, 9, 1, 2))
    assert one.node.epoch == 9
    assert one.node.state == "Unattached"
    assert not answer(out, VoteResponse).partition.vote_granted
    assert note(out, "vote_decision")["rule"] == 7
    assert note(out, "persisted")["leaderEpoch"] == 9


@pytest.mark.parametrize("state", ["Candidate", "Follower", "Resigned", "Leader"])
def test_row_7_these_states_refuse_in_their_own_epoch(state):
    one = at(state)
    made = answer(one.hear("C", vote(C, 4, 3, 99)), VoteResponse)
    assert (made.partition.error_code, made.partition.vote_granted) == ("NONE", False)
    assert one.node.state == state


@pytest.mark.parametrize(
    ("log", "candidate", "given"),
    [
        ((), (0, 0), True),
        ((1, 2), (2, 2), True),
        ((1, 2), (2, 3), True),
        ((1, 2), (3, 1), True),
        ((1, 2), (2, 1), False),
        ((1, 2), (1, 9), False),
    ],
)
def test_row_7_unattached_grants_by_last_epoch_then_end(log, candidate, given):
    one = at("Unattached", log=log)
    out = one.hear("C", vote(C, 4, *candidate))
    assert answer(out).partition.vote_granted == given
    assert note(out, "vote_decision")["rule"] == (8 if given else 7)
    assert one.node.state == ("Voted" if given else "Unattached")


def test_row_7_voted_repeats_its_vote_and_gives_no_other():
    one = at("Voted")
    assert answer(one.hear("B", vote(B, 4))).partition.vote_granted
    assert not answer(one.hear("C", vote(C, 4, 3, 99))).partition.vote_granted
    assert one.status().voted_for == "B"


def test_row_8_the_vote_is_on_disk_before_the_answer_leaves():
    one = at("Unattached", slow=False)
    one.slow = True
    out = one.hear("C", vote(C, 4))
    kinds = [type(effect) for effect in out]
    assert kinds.index(Disk) < kinds.index(Await) < kinds.index(Send)
    assert one.status().voted_for is None
    assert one.done() == []
    assert (one.status().role, one.status().voted_for) == ("Voted", "C")


def test_a_vote_given_starts_a_fresh_timer_and_a_refused_higher_epoch_keeps_what_is_left():
    one = at("Unattached", log=(1, 2))
    left = one.node.election_at
    one.hear("C", vote(C, 9, 1, 1), after_ms=300)
    assert one.node.election_at == left
    one.hear("C", vote(C, 9, 2, 2))
    assert one.now + 1000 * MS <= one.node.election_at <= one.now + 1999 * MS
    follower = at("Follower")
    follower.hear("C", vote(C, 9), after_ms=1500)
    assert follower.node.election_at >= follower.now + 1000 * MS


def test_a_candidate_that_backs_off_has_no_time_left_when_it_gives_up():
    one = at("Candidate", log=(3,))
    one.time_out()
    assert one.node.backing_off
    one.hear("C", vote(C, 9))
    assert one.node.state == "Unattached"
    assert one.status().timers["election"] == 0


# --- campaigns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["Unattached", "Voted", "Resigned", "Follower"])
def test_a_timer_that_runs_out_makes_a_candidate_of_the_next_epoch(state):
    one = at(state, log=(2, 2))
    out = one.time_out()
    assert (one.node.state, one.node.epoch, one.node.voted) == ("Candidate", 5, A)
    assert {to for to, _ in sent(out)} == {"B", "C"}
    request = sent(out, VoteRequest)[0][1]
    assert (request.candidate_epoch, request.candidate_id) == (5, A)
    assert (request.last_offset_epoch, request.last_offset, request.partition_index) == (2, 2, 0)
    persisted = next(i for i, e in enumerate(out) if isinstance(e, Note) and e.name == "persisted")
    assert persisted < next(i for i, e in enumerate(out) if isinstance(e, Send))


def test_a_candidate_waits_in_its_epoch_and_counts_its_rounds():
    one = One()
    one.stand()
    for retries in (1, 2, 3):
        assert (one.node.retries, one.node.epoch) == (retries, retries)
        out = one.time_out()
        assert note(out, "backoff")["retries"] == retries
        assert (one.node.state, one.node.epoch) == ("Candidate", retries)
        one.time_out()


def test_two_refusals_of_three_begin_the_back_off_at_once_and_one_does_not():
    one = at("Candidate")
    assert "backoff" not in names(one.hear("B", refused(4)))
    assert "backoff" in names(one.hear("C", refused(4)))
    assert "backoff" not in names(one.hear("C", refused(4)))


def test_a_grant_that_comes_during_the_back_off_still_elects():
    one = at("Candidate")
    one.time_out()
    assert one.node.backing_off
    one.hear("B", granted(4))
    assert one.node.state == "Leader"


@pytest.mark.parametrize("epoch", [3, 5])
def test_a_grant_of_another_epoch_does_not_count(epoch):
    one = at("Candidate")
    one.hear("B", granted(epoch))
    assert one.node.state == ("Candidate" if epoch < 4 else "Unattached")


def test_votes_of_others_than_voters_do_not_count():
    one = One(disk(4, voted=A), members="ABCD", observers="D")
    one.hear("D", granted(4))
    assert one.node.state == "Candidate"


def test_requests_are_repeated_after_their_time_out_and_after_the_retry_back_off():
    one = at("Candidate", election_timeout_ms=5000)
    assert sent(one.fire("requests", after_ms=1999)) == []
    assert sent(one.fire("requests", after_ms=1)) == []  # they failed just now
    assert [to for to, _ in sent(one.fire("requests", after_ms=20))] == ["B", "C"]
    one.hear("B", VoteResponse(one.node.connections[B].awaits, "INCONSISTENT_CLUSTER_ID"))
    assert sent(one.fire("requests", after_ms=19)) == []
    assert [to for to, _ in sent(one.fire("requests", after_ms=1))] == ["B"]


def test_a_single_voter_is_leader_at_once():
    one = One(members="A")
    assert (one.node.state, one.node.epoch) == ("Leader", 1)
    assert one.status().commit == 1
    again = one.again()
    assert (again.node.state, again.node.epoch) == ("Leader", 2)


# --- the common rule --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["NONE", "FENCED_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"])
def test_an_answer_of_an_older_epoch_is_ignored(code):
    one = at("Candidate")
    one.hear("B", refused(3, leader=C, code=code))
    assert (one.node.state, one.node.epoch) == ("Candidate", 4)


def test_a_request_that_is_too_new_for_its_receiver_is_ignored():
    one = at("Candidate")
    one.hear("B", refused(9, leader=C, code="UNKNOWN_LEADER_EPOCH"))
    assert (one.node.state, one.node.epoch) == ("Candidate", 4)


@pytest.mark.parametrize("state", ["Candidate", "Leader", "Follower", "Resigned", "Voted", "Unattached"])
def test_a_newer_epoch_in_an_answer_is_taken_over_with_or_without_its_leader(state):
    one = at(state)
    one.hear("B", refused(7, leader=C, code="FENCED_LEADER_EPOCH"))
    assert (one.node.state, one.node.epoch, one.node.leader) == ("Follower", 7, C)
    one = at(state)
    one.hear("B", refused(7))
    assert (one.node.state, one.node.epoch, one.node.leader) == ("Unattached", 7, NO)


@pytest.mark.parametrize("state", ["Candidate", "Voted", "Unattached"])
def test_the_leader_of_the_own_epoch_is_followed_once_it_is_named(state):
    one = at(state)
    one.hear("B", refused(4, leader=C))
    assert (one.node.state, one.node.leader) == ("Follower", C)


@pytest.mark.parametrize(("state", "named"), [("Follower", C), ("Leader", B), ("Resigned", B), ("Candidate", A)])
def test_a_leader_that_contradicts_the_known_one_is_a_violation_and_not_followed(state, named):
    one = at(state)
    out = one.hear("C", BeginQuorumEpochResponse(1, "NONE", named, 4))
    assert {"inconsistent_leader", "violation"} <= set(names(out))
    assert one.node.state == state


@pytest.mark.parametrize("state", ["Leader", "Resigned"])
def test_a_former_leader_of_the_epoch_may_be_told_of_itself(state):
    one = at(state)
    assert "violation" not in names(one.hear("B", BeginQuorumEpochResponse(1, "NONE", A, 4)))


# --- announcements ----------------------------------------------------------------------------------------------


def test_an_announcement_of_an_older_epoch_or_of_no_voter_is_refused():
    one = at("Unattached")
    made = answer(one.hear("B", begin(B, 3)))
    assert (made.error_code, made.leader_epoch) == ("FENCED_LEADER_EPOCH", 4)
    assert answer(one.hear("B", begin(9, 5))).error_code == "INCONSISTENT_VOTER_SET"
    assert one.node.state == "Unattached"


@pytest.mark.parametrize(("place", "wait_ms"), [(None, 0), (0, 0), (1, 500), (2, 1000)])
def test_the_leaders_end_cuts_the_fetch_timer_by_the_place_among_the_successors(place, wait_ms):
    one = One(disk(4, leader=E, voters=(1, 2, 3, 4, 5)), members="ABCDE")
    others = [B, C]
    successors = tuple(others if place is None else [*others[:place], A, *others[place:]])[:3]
    if place is None:
        assert A not in successors
    n = len(successors)
    expected = 0 if not place else min(1000, (1000 >> (n - 1)) << (place - 1))
    out = one.hear("E", EndQuorumEpochRequest(1, E, 4, successors))
    assert answer(out).error_code == "NONE"
    assert one.node.fetch_at == one.now + expected * MS
    assert expected <= wait_ms


def test_the_end_of_somebody_elses_leadership_cuts_nothing():
    one = at("Follower")
    before = one.node.fetch_at
    one.hear("C", EndQuorumEpochRequest(1, C, 3, (A, B)))
    assert one.node.fetch_at == before
    out = one.hear("C", EndQuorumEpochRequest(1, C, 4, (A, B)))
    assert "violation" in names(out)
    assert one.node.fetch_at == before


def test_the_end_of_an_unknown_leadership_is_learnt_and_followed_by_a_campaign():
    one = at("Unattached")
    one.hear("C", EndQuorumEpochRequest(1, C, 4, (A, B)))
    assert (one.node.state, one.node.leader) == ("Follower", C)
    one.fire("fetch")
    assert one.node.state == "Candidate"
