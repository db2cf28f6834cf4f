"""The witness: what it reads off wire and disk equals what an honest core notes, and what a broken one hides."""

from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply, RequestVote, VoteReply
from dethrone.clusters.targets.raft.witness import RaftWitness


def told(events, name):
    return [(event.term, dict(event.data)) for event in events if event.name == name]


def append(term=1, leader="A", commit=0, prev=0):
    return AppendEntries(term, leader, prev, 0, (), commit, 1)


def test_the_own_request_is_a_vote_for_itself_once():
    witness = RaftWitness("A")
    assert told(witness.sent("B", RequestVote(3, "A", 0, 0)), "vote") == [(3, {"candidate": "A"})]
    assert witness.sent("C", RequestVote(3, "A", 0, 0)) == []


def test_a_granted_answer_is_a_vote_and_a_refusal_is_none():
    witness = RaftWitness("A")
    assert told(witness.sent("B", VoteReply(3, True)), "vote") == [(3, {"candidate": "B"})]
    assert witness.sent("C", VoteReply(3, False)) == []
    assert told(witness.sent("C", VoteReply(3, True)), "vote") == [(3, {"candidate": "C"})]


def test_the_first_append_of_a_term_is_an_election_with_the_voters_whose_grants_arrived():
    witness = RaftWitness("A")
    witness.sent("B", RequestVote(3, "A", 0, 0))
    witness.received("B", VoteReply(3, True))
    witness.received("C", VoteReply(2, True))
    witness.received("D", VoteReply(3, False))
    assert told(witness.sent("B", append(3)), "elected") == [(3, {"voters": ["A", "B"]})]
    assert witness.sent("C", append(3)) == []


def test_an_election_without_a_campaign_shows_no_voters():
    assert told(RaftWitness("A").sent("B", append(7)), "elected") == [(7, {"voters": []})]


def test_acknowledgements_and_commits_are_told_once():
    witness = RaftWitness("A")
    assert told(witness.sent("B", AppendReply(2, True, 5, 0, 1)), "acked") == [(2, {"index": 5, "leader": "B"})]
    assert witness.sent("B", AppendReply(2, True, 5, 0, 2)) == []
    assert witness.sent("B", AppendReply(2, False, 0, 3, 2)) == []
    assert told(witness.sent("B", append(2, commit=4)), "commit") == [(2, {"index": 4})]
    assert told(witness.sent("B", append(2, commit=4)), "commit") == []


def test_a_vote_that_was_given_away_is_refused_once_a_candidate_and_term_and_other_refusals_are_not():
    witness = RaftWitness("A")
    refusal = VoteReply(3, vote_granted=False, reason="voted")
    assert told(witness.sent("C", refusal), "refused") == [(3, {"candidate": "C", "why": "voted"})]
    assert told(witness.sent("C", refusal), "refused") == []
    assert told(witness.sent("B", refusal), "refused") == [(3, {"candidate": "B", "why": "voted"})]
    for reason in ("lower_term", "sticky", "log"):
        assert told(witness.sent("D", VoteReply(3, vote_granted=False, reason=reason)), "refused") == []
