"""Pre-votes: both tables of raft-ext 2, row by row, and its pitfalls."""

import pytest

from dethrone.clusters.targets.raft.messages import AppendReply, PreVote, PreVoteReply, RequestVote, VoteReply
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Disk
from tests.clusters.raft.spec import One, heartbeat
from tests.world.effects import answer, names, note, sent


def ask(req_term, candidate="B", index=0, last_term=0, no=1):
    return PreVote(req_term, candidate, index, last_term, no)


def state(one):
    node = one.node
    return node.term, node.voted_for, node.role, node.reset_at, node.armed


# --- the receiver ---------------------------------------------------------------------------------------------------


def test_row_1_a_lower_term_is_refused_with_the_own_term():
    assert answer(One(term=5).hear("B", ask(4))) == PreVoteReply(5, 4, 1, False, 1)


def test_row_2_no_pre_vote_while_a_leader_is_heard():
    one = One(term=5).following("C")
    assert answer(one.hear("B", ask(6), after_ms=149)).reason == 2
    assert answer(one.hear("B", ask(6), after_ms=1)).granted


def test_row_2_no_pre_vote_from_a_leader():
    one = One().leading()
    assert answer(one.hear("B", ask(9))).reason == 2


def test_row_2_is_the_knob_prevote_leader_check():
    one = One(term=5, prevote_leader_check="off", stickiness="off").following("C")
    assert answer(one.hear("B", ask(6))).granted


@pytest.mark.parametrize(("voted_for", "granted"), [("C", False), ("B", True), (None, True)])
def test_row_3_in_the_own_term_the_vote_given_decides(voted_for, granted):
    assert answer(One(term=5, voted_for=voted_for).hear("B", ask(5))).granted == granted


@pytest.mark.parametrize(("index", "last_term", "row"), [(1, 3, 4), (9, 2, 4), (2, 3, 5), (1, 4, 5)])
def test_row_4_an_older_log_is_refused(index, last_term, row):
    assert answer(One(term=3, log=(1, 3)).hear("B", ask(4, "B", index, last_term))).reason == row


def test_row_5_granting_changes_nothing_and_is_not_exclusive():
    one = One(term=3, voted_for="A")
    before = state(one)
    for candidate in "BC":
        out = one.hear(candidate, ask(9, candidate, no=4), after_ms=1)
        assert answer(out) == PreVoteReply(3, 9, 4, True, 5)
        assert not [e for e in out if type(e) is Disk]
        assert note(out, "prevote_decision") == {"candidate": candidate, "reqTerm": 9, "round": 4, "row": 5}
    assert state(one) == before


def test_a_started_node_with_holdoff_grants_no_pre_vote():
    one = One(reads="lease")
    assert not answer(one.hear("B", ask(9))).granted
    assert answer(one.hear("B", ask(9), after_ms=150)).granted


# --- the asker ------------------------------------------------------------------------------------------------------


def opened(**more):
    one = One(**more).standing()
    return one, one.node.round.no


def test_a_passed_deadline_opens_a_round_and_raises_no_term():
    one = One(term=4, log=(3, 4))
    out = one.time_out()
    assert (one.node.term, one.node.role, one.node.leader) == (4, "FOLLOWER", None)
    assert sent(out) == [(peer, PreVote(5, "A", 2, 4, 1)) for peer in "BC"]
    assert note(out, "prevote_started") == {"reqTerm": 5, "round": 1, "log": (4, 2)}
    assert not [e for e in out if type(e) is Disk]


def test_pre_vote_requests_are_repeated_every_heartbeat_to_the_silent():
    one, no = opened(members="ABCDE")
    one.hear("B", PreVoteReply(0, 1, no, True, 5))
    one.hear("C", PreVoteReply(0, 1, no, False, 4))
    assert [to for to, _ in sent(one.fire("retry", after_ms=50))] == ["D", "E"]


def test_row_1_a_refusal_with_a_higher_term_is_adopted_and_the_deadline_kept():
    one, _ = opened()
    before = one.node.reset_at
    out = one.hear("B", PreVoteReply(9, 1, 1, False, 1), after_ms=5)
    assert (one.node.term, one.node.round, one.node.reset_at) == (9, None, before)
    assert note(out, "prevote_result")["result"] == "closed"
    one.time_out()
    assert one.node.round.req_term == 10


def test_row_1_holds_for_answers_of_rounds_long_gone():
    one = One(term=2)
    one.hear("B", PreVoteReply(9, 1, 1, False, 1))
    assert one.node.term == 9


@pytest.mark.parametrize("stale", [("B", 1, 0), ("B", 2, 1), ("X", 1, 1)])
def test_row_2_answers_of_other_rounds_terms_and_nodes_are_ignored(stale):
    src, req_term, no = stale
    one, _ = opened()
    out = one.hear(src, PreVoteReply(0, req_term, no, True, 5))
    assert one.node.role == "FOLLOWER"
    assert note(out, "prevote_answer")["counted"] is False


@pytest.mark.parametrize("term", [0, 3, 7])
def test_row_3_a_grant_counts_whatever_term_it_carries(term):
    one = One(term=3).standing()
    out = one.hear("B", PreVoteReply(term, 4, 1, True, 5))
    assert (one.node.role, one.node.term) == ("CANDIDATE", 4)
    assert note(out, "prevote_result")["result"] == "won"
    assert sent(out, RequestVote)


def test_row_3_the_real_election_starts_with_an_empty_set_of_votes():
    one, no = opened(members="ABCDE")
    one.hear("B", PreVoteReply(0, 1, no, True, 5))
    one.hear("C", PreVoteReply(0, 1, no, True, 5))
    assert one.node.votes == {"A"}
    one.hear("B", VoteReply(1, True))
    assert one.node.role == "CANDIDATE"


def test_row_4_when_a_quorum_is_out_of_reach_the_round_is_lost():
    one, no = opened()
    one.hear("B", PreVoteReply(0, 1, no, False, 4))
    assert one.node.round is not None
    out = one.hear("C", PreVoteReply(0, 1, no, False, 4))
    assert one.node.round is None
    assert note(out, "prevote_result")["result"] == "lost"
    assert one.node.term == 0


def test_a_candidate_whose_deadline_passes_asks_again_instead_of_raising_its_term():
    one, no = opened()
    one.hear("B", PreVoteReply(0, 1, no, True, 5))
    assert one.node.role == "CANDIDATE"
    out = one.time_out()
    assert (one.node.role, one.node.term, one.node.round.no) == ("FOLLOWER", 1, no + 1)
    assert sent(out, PreVote)[0][1].req_term == 2


def test_an_expired_round_is_followed_by_the_next_number():
    one, no = opened()
    out = one.time_out()
    assert "prevote_result" in names(out)
    assert one.node.round.no == no + 1


def test_a_leaders_heartbeat_closes_the_round():
    one, _ = opened()
    one.hear("B", heartbeat("B", 0))
    assert one.node.round is None


def test_a_granted_vote_closes_the_round():
    one, _ = opened()
    out = one.hear("B", RequestVote(3, "B", 0, 0))
    assert answer(out).vote_granted
    assert one.node.round is None


def test_a_node_outside_the_voters_never_campaigns():
    one = One(members="BC", membership="single_server")
    out = []
    for _ in range(5):
        out += one.fire("election", after_ms=400)
    assert not sent(out)
    assert one.node.term == 0


# --- pitfalls -------------------------------------------------------------------------------------------------------


def test_d2_an_asker_of_a_lower_term_is_answered_and_catches_up():
    behind, ahead = One(term=2, log=(2, 2)), One(node="B", term=9, log=(1,))
    behind.time_out()
    refusal = answer(ahead.hear("A", PreVote(3, "A", 2, 2, 1)))
    behind.hear("B", refusal)
    assert behind.node.term == 9
    behind.time_out()
    assert answer(ahead.hear("A", PreVote(10, "A", 2, 2, 2))).granted


def test_d3_a_follower_of_a_higher_term_answers_the_leader_who_steps_down():
    ahead, leader = One(node="B", term=9), One()
    leader.lead()
    refusal = answer(ahead.hear("A", heartbeat("A", 1)))
    assert refusal == AppendReply(9, False, 0, 0, 1)
    leader.hear("B", refusal)
    assert (leader.node.role, leader.node.term) == ("FOLLOWER", 9)


def test_an_ex_leader_grants_its_successor_a_pre_vote_at_once():
    one = One().leading()
    one.follow("B", term=1) if one.node.role == "FOLLOWER" else None
    one.hear("B", AppendReply(5, False, 0, 0, 1))
    assert (one.node.leader, one.status().extra["heard"]) == (None, False)
    assert answer(one.hear("B", ask(6, "B", 9, 5))).granted
    assert one.node.contact < -(10**6) * MS
