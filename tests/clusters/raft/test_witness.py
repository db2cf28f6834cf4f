"""The witness: what it reads off wire and disk equals what an honest core notes, and what a broken one hides."""

import pytest

from dethrone.clusters.targets.kit.files import append_ops, cut_ops
from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply, RequestVote, VoteReply
from dethrone.clusters.targets.raft.storage import LOG, VOTE, HardState, record, vote_ops
from dethrone.clusters.targets.raft.witness import RaftWitness
from tests.clusters.raft.spec import disk, entries


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


def test_a_vote_is_persisted_by_its_last_fsync_and_not_before():
    witness = RaftWitness("A")
    ops = vote_ops(HardState(4, "B"))
    assert witness.synced(ops[:3]) == []
    assert told(witness.synced(ops), "persisted") == [(4, {"voted_for": "B"})]
    assert witness.synced(vote_ops(HardState(5, "B"), sync=False)) == []


def test_log_batches_are_appends_and_truncations():
    witness = RaftWitness("A")
    rows = [record(entry) for entry in entries(1, 1, 2)]
    data = b"".join(row[0] for row in rows)
    assert told(witness.synced(append_ops(LOG, data, 0)), "log_append") == [
        (2, {"from": 1, "entries": [(1, 1, rows[0][1]), (2, 1, rows[1][1]), (3, 2, rows[2][1])]})
    ]
    end = len(rows[0][0])
    cut = witness.synced((*cut_ops(LOG, end), *append_ops(LOG, record(entries(3, first=2)[0])[0], end)))
    assert [event.name for event in cut] == ["log_truncate", "log_append"]
    assert cut[0].data == {"from": 2}
    assert cut[1].data["entries"][0][:2] == (2, 3)


def test_a_boot_tells_the_log_that_the_disk_holds_and_goes_on_from_there():
    witness = RaftWitness("A")
    image = disk(3, "B", (1, 3))
    events = witness.booted(image)
    assert told(events, "log_truncate") == [(0, {"from": 3})]
    assert [row[:2] for row in told(events, "log_append")[0][1]["entries"]] == [(1, 1), (2, 3)]
    more = witness.synced(append_ops(LOG, record(entries(4, first=3)[0])[0], len(image["log"])))
    assert more[0].data["from"] == 3


@pytest.mark.parametrize(
    "image", [{VOTE: "unreadable"}, {VOTE: b"?"}, {"log": "unreadable"}, {"log": b"garbage" * 9}, {}]
)
def test_a_damaged_or_empty_disk_does_not_stop_the_witness(image):
    RaftWitness("A").booted(image)


def test_a_vote_that_was_given_away_is_refused_once_a_candidate_and_term_and_other_refusals_are_not():
    witness = RaftWitness("A")
    refusal = VoteReply(3, vote_granted=False, reason="voted")
    assert told(witness.sent("C", refusal), "refused") == [(3, {"candidate": "C", "why": "voted"})]
    assert told(witness.sent("C", refusal), "refused") == []
    assert told(witness.sent("B", refusal), "refused") == [(3, {"candidate": "B", "why": "voted"})]
    for reason in ("lower_term", "sticky", "log"):
        assert told(witness.sent("D", VoteReply(3, vote_granted=False, reason=reason)), "refused") == []
