"""What the shell sees, in the numbers of observers, whatever the core says."""

import pytest

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.storage import TERM, TermState, term_ops
from dethrone.clusters.targets.dledger.witness import DledgerWitness
from tests.clusters.dledger.spec import disk

CALL = {"group": "", "opaque": 1}


def told(events, name):
    return [(event.term, dict(event.data)) for event in events if event.name == name]


def vote(term, to="A", result="ACCEPT"):
    return m.VoteResponse(**CALL, local_id="X", remote_id=to, leader_id=to, term=term, vote_result=result)


def ask(term, me="A"):
    return m.VoteRequest(
        **CALL, local_id=me, remote_id="B", leader_id=me, term=term, ledger_end_index=-1, ledger_end_term=-1
    )


def beat(term, me="A"):
    return m.HeartBeatRequest(**CALL, local_id=me, remote_id="B", leader_id=me, term=term)


def test_a_grant_is_a_vote_when_it_leaves_and_counted_once():
    witness = DledgerWitness("A")
    assert told(witness.sent("B", vote(0, "B")), "vote") == [(1, {"candidate": "B"})]
    assert witness.sent("B", vote(0, "B")) == []
    assert told(witness.sent("C", vote(0, "C")), "vote") == [(1, {"candidate": "C"})]  # a second vote is seen


def test_a_refusal_shows_the_term_that_the_node_is_in_but_never_that_of_its_log():
    witness = DledgerWitness("A")
    assert witness.sent("B", vote(9, "B", m.TERM_SMALL_THAN_LEDGER)) == []
    assert told(witness.sent("B", vote(4, "B", m.ALREADY_VOTED)), "answered") == [(5, {"to": "B"})]
    assert witness.sent("B", vote(4, "B", m.EXPIRED_VOTE_TERM)) == []


def test_a_request_shows_the_candidates_vote_for_itself_unless_its_vote_is_known_to_be_anothers():
    witness = DledgerWitness("A")
    assert told(witness.sent("B", ask(3)), "vote") == [(4, {"candidate": "A"})]
    stored = DledgerWitness("A")
    stored.booted(disk(3, "B"))
    assert stored.sent("B", ask(3)) == []
    assert told(stored.sent("B", ask(4)), "vote") == [(5, {"candidate": "A"})]
    granted = DledgerWitness("A")
    granted.sent("C", vote(3, "C"))
    assert granted.sent("B", ask(3)) == []


def test_the_first_heartbeat_of_a_term_is_an_election_by_those_whose_votes_arrived():
    witness = DledgerWitness("A")
    witness.received("B", vote(2))
    witness.received("C", vote(3))
    witness.received("D", vote(3, result=m.TERM_NOT_READY))
    witness.sent("B", ask(3))
    assert told(witness.sent("B", beat(3)), "elected") == [(4, {"voters": ["A", "C"]})]
    assert witness.sent("C", beat(3)) == []


def test_a_push_shows_the_election_and_the_committed_index():
    witness = DledgerWitness("A")
    push = m.PushEntryRequest(
        **CALL, local_id="A", remote_id="B", leader_id="A", term=3, type="COMMIT", entry=None, commit_index=6
    )
    events = witness.sent("B", push)
    assert [event.name for event in events] == ["elected", "commit"]
    assert told(events, "commit") == [(4, {"index": 7})]
    assert witness.sent("C", push) == []


def test_an_acknowledgement_is_a_success_that_names_an_entry():
    witness = DledgerWitness("A")
    answer = {**CALL, "local_id": "A", "remote_id": "B", "leader_id": "B", "term": 3, "count": 1}
    stored = m.PushEntryResponse(**answer, code=200, index=4, begin_index=0, end_index=9)
    assert told(witness.sent("B", stored), "acked") == [(4, {"index": 5, "leader": "B"})]
    assert witness.sent("B", stored) == []
    for code, index in ((200, -1), (406, 4)):
        assert (
            witness.sent("B", m.PushEntryResponse(**answer, code=code, index=index, begin_index=0, end_index=9)) == []
        )


def test_a_stored_state_needs_its_rename_and_its_sync():
    witness = DledgerWitness("A")
    assert told(witness.synced(term_ops(TermState(0, "B"))), "persisted") == [(1, {"voted_for": "B"})]
    assert witness.synced(term_ops(TermState(1, "B"), "upstream")) == []


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, (0, "absent", None)),
        ({TERM: "unreadable"}, (0, "unreadable", None)),
        ({TERM: b"?"}, (0, "unreadable", None)),
        (disk(0), (1, "read", None)),
        (disk(4, "B"), (5, "read", "B")),
    ],
)
def test_a_start_tells_what_it_found(image, expected):
    ((term, data),) = told(DledgerWitness("A").booted(image), "found")
    assert (term, data["file"], data["voted_for"]) == expected
