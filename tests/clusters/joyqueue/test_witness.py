"""The witness: what it reads off wire and disk equals what an honest core notes, and what a broken one hides."""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.storage import TOPIC, metadata_ops
from dethrone.clusters.targets.joyqueue.witness import OPEN_MAX, JoyQueueWitness
from tests.clusters.joyqueue.spec import entries, metadata_of


def told(events, name):
    return [(event.term, dict(event.data)) for event in events if event.name == name]


def asks(term, candidate="A", number=1, *, pre=False):
    return VoteRequest(TOPIC, term, candidate, 0, 0, pre, number)


def answers(term, voter="A", number=1, *, granted=True, candidate="B"):
    return VoteResponse(TOPIC, term, candidate, voter, granted, number)


def beat(term, leader="A", commit=0, number=1, new=()):
    return AppendEntriesRequest(TOPIC, term, leader, -1, 0, 0, commit, 0, 0, tuple(new), number)


def took(term, index, number=1, *, success=True):
    return AppendEntriesResponse(TOPIC, term, success, index, index, "A", 0, number)


def stored(witness, term, voted_for):
    return witness.synced(metadata_ops(TOPIC, metadata_of("A", "ABC", term, voted_for)))


def test_the_own_request_is_a_vote_for_itself_if_the_disk_says_so_and_only_once():
    witness = JoyQueueWitness("A")
    stored(witness, 3, "A")
    assert told(witness.sent("B", asks(3)), "vote") == [(3, {"candidate": "A"})]
    assert witness.sent("C", asks(3, number=2)) == []


def test_a_late_request_in_a_term_without_a_candidacy_is_no_vote():
    witness = JoyQueueWitness("A")
    stored(witness, 5, None)
    assert witness.sent("B", asks(5)) == []


def test_a_granted_answer_to_a_vote_request_is_a_vote_and_one_to_a_pre_vote_is_none():
    witness = JoyQueueWitness("A")
    witness.received("B", asks(3, "B", 1))
    assert told(witness.sent("B", answers(3)), "vote") == [(3, {"candidate": "B"})]
    witness.received("C", asks(3, "C", 2, pre=True))
    assert witness.sent("C", answers(3, number=2, candidate="C")) == []
    witness.received("C", asks(3, "C", 3))
    assert witness.sent("C", answers(3, number=3, granted=False, candidate="C")) == []
    witness.received("C", asks(3, "C", 4))
    assert told(witness.sent("C", answers(3, number=4, candidate="C")), "vote") == [(3, {"candidate": "C"})]


def test_an_elections_voters_are_those_whose_grants_of_votes_arrived():
    witness = JoyQueueWitness("A")
    stored(witness, 3, "A")
    witness.sent("B", asks(3, number=1))
    witness.sent("C", asks(3, number=2, pre=True))
    witness.sent("D", asks(3, number=3))
    witness.received("B", answers(3, "B", 1))
    witness.received("C", answers(3, "C", 2))
    witness.received("D", answers(3, "D", 3, granted=False))
    assert told(witness.sent("B", beat(3)), "elected") == [(3, {"voters": ["A", "B"]})]
    assert witness.sent("C", beat(3)) == []


def test_an_election_without_a_campaign_shows_no_voters():
    assert told(JoyQueueWitness("A").sent("B", beat(7)), "elected") == [(7, {"voters": []})]


def test_only_answers_to_requests_with_entries_are_acknowledgements():
    witness = JoyQueueWitness("A")
    witness.received("B", beat(2, "B", number=1))
    assert told(witness.sent("B", took(2, 9, 1)), "acked") == []
    witness.received("B", beat(2, "B", number=2, new=entries(2)))
    assert told(witness.sent("B", took(2, 1, 2)), "acked") == [(2, {"index": 1, "leader": "B"})]
    witness.received("B", beat(2, "B", number=3, new=entries(2)))
    assert told(witness.sent("B", took(2, 4, 3, success=False)), "acked") == []


def test_a_term_that_is_only_answered_is_told_once():
    witness = JoyQueueWitness("A")
    assert told(witness.sent("B", took(2, 0)), "answered") == [(2, {"to": "B"})]
    assert witness.sent("B", took(2, 0)) == []
    assert told(witness.sent("B", answers(3, granted=False)), "answered") == [(3, {"to": "B"})]


def test_commits_are_told_when_they_rise():
    witness = JoyQueueWitness("A")
    assert told(witness.sent("B", beat(2, commit=4)), "commit") == [(2, {"index": 4})]
    assert told(witness.sent("C", beat(2, commit=3)), "commit") == []


def test_a_group_without_any_file_is_found_absent_with_its_first_write():
    witness = JoyQueueWitness("A")
    assert witness.booted({}) == []
    assert told(stored(witness, 1, None), "found") == [(0, {"voted_for": None, "file": "absent"})]
    assert told(stored(witness, 2, None), "found") == []


def test_several_groups_are_told_apart():
    witness = JoyQueueWitness("A")
    for number in range(2):
        group = f"topic/{number}"
        events = witness.synced(metadata_ops(group, metadata_of("A", "ABC", 4 + number, "A")))
        assert {event.data["group"] for event in events} == {group}
        assert witness.sent("B", VoteRequest(group, 4 + number, "A", 0, 0, pre_vote=False, id=number))[0].data == {
            "candidate": "A",
            "group": group,
        }


def test_its_tables_are_bounded():
    witness = JoyQueueWitness("A")
    for number in range(3 * OPEN_MAX):
        witness.received("B", asks(3, "B", number))
        witness.received("B", beat(3, "B", number=number, new=entries(3)))
        witness.sent("B", asks(3, "A", number))
    assert max(len(witness._requests), len(witness._appends), len(witness._sent)) <= OPEN_MAX
