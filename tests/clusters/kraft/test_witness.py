"""What the witness tells, read off wire and disk."""

from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.storage import STATE, QuorumState, Voter, state_bytes, state_ops
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.machine import Fsync, Unlink
from tests.clusters.kraft.spec import CLUSTER, A, B, World, disk, granted, refused


def fresh(image=None, members="ABC"):
    witness = TARGET.witness(node="A", members=tuple(members))
    return witness, witness.booted(image or {})


def told(events):
    return [(event.name, event.term, dict(event.data)) for event in events]


def request(epoch, candidate=A):
    return VoteRequest(1, CLUSTER, 0, epoch, candidate, 0, 0)


def fetch(offset, epoch=4, last=4):
    return FetchRequest(1, A, CLUSTER, 500, epoch, offset, last)


def leads(epoch, hw=-1, code="NONE"):
    return FetchResponse(1, code, hw, 0, CurrentLeader(A, epoch))


def state(**more):
    return QuorumState(CLUSTER, current_voters=tuple(Voter(v) for v in (1, 2, 3)), **more)


def test_a_vote_request_is_a_vote_for_itself_and_a_grant_is_one_for_its_receiver():
    witness, _ = fresh()
    assert told(witness.sent("B", request(4))) == [("vote", 4, {"candidate": "A"})]
    assert witness.sent("C", request(4)) == []
    assert told(witness.sent("B", granted(5))) == [("vote", 5, {"candidate": "B"})]
    assert told(witness.sent("C", granted(5))) == [("vote", 5, {"candidate": "C"})]
    assert witness.sent("C", request(7, candidate=B)) == []


def test_an_answer_that_grants_nothing_tells_its_epoch_once():
    witness, _ = fresh()
    assert told(witness.sent("B", refused(5))) == [("answered", 5, {"to": "B"})]
    assert witness.sent("C", refused(5)) == []
    assert witness.sent("C", BeginQuorumEpochResponse(1, "NONE", B, 5)) == []
    assert told(witness.sent("C", leads(6, code="NOT_LEADER_OR_FOLLOWER"))) == [("answered", 6, {"to": "C"})]
    assert witness.sent("C", VoteResponse(1, "INCONSISTENT_CLUSTER_ID")) == []


def test_an_election_is_told_by_the_file_with_the_votes_that_arrived():
    witness, _ = fresh()
    witness.sent("B", request(4))
    witness.received("C", granted(4))
    witness.received("B", granted(3))
    witness.received("B", refused(4))
    events = told(witness.synced(state_ops(state_bytes(state(leader_id=A, leader_epoch=4)))))
    assert events[0] == ("elected", 4, {"voters": ["A", "C"], "config": {"voters": ["A", "B", "C"]}})
    assert events[1] == ("persisted", 4, {"voted_for": None, "leader": "A"})
    assert witness.sent("B", BeginQuorumEpochRequest(1, A, 4)) == []


def test_an_election_that_was_not_written_is_told_by_what_it_says():
    for body in (BeginQuorumEpochRequest(1, A, 4), leads(4)):
        witness, _ = fresh()
        assert told(witness.sent("B", body)) == [("elected", 4, {"voters": []})]


def test_a_commit_is_told_by_the_high_watermark_sent():
    witness, _ = fresh()
    witness.sent("B", leads(4))
    assert told(witness.sent("B", leads(4, 3))) == [("commit", 4, {"index": 3})]
    assert witness.sent("C", leads(4, 3)) == []


def test_a_fetch_acknowledges_only_what_ends_in_the_leaders_epoch():
    witness, _ = fresh()
    assert witness.sent("B", fetch(9, last=3)) == []
    assert told(witness.sent("B", fetch(5))) == [("acked", 4, {"index": 5, "leader": "B"})]
    assert witness.sent("B", fetch(5)) == []
    assert told(witness.sent("B", fetch(6))) == [("acked", 4, {"index": 6, "leader": "B"})]


def test_only_rename_and_fsync_persist():
    witness, _ = fresh()
    ops = state_ops(state_bytes(state(leader_epoch=4, voted_id=B)))
    assert witness.synced(ops[:3]) == []
    assert told(witness.synced(ops[3:])) == [("persisted", 4, {"voted_for": "B", "leader": None})]
    assert witness.synced((Unlink(STATE), Fsync(STATE))) == []


def test_a_new_incarnation_tells_what_it_finds():
    assert told(fresh()[1])[0] == ("found", 0, {"voted_for": None, "file": "absent"})
    for content in (b"{", "unreadable"):
        assert told(fresh({STATE: content})[1])[0][2]["file"] == "unreadable"
    assert told(fresh(disk(4, voted=B))[1])[0] == ("found", 4, {"voted_for": "B", "file": "read"})
    events = told(fresh(disk(4, leader=B, log=(1, 4)))[1])
    assert events[0] == ("found", 4, {"file": "read"}), "nothing of a vote is in this file"
    assert events[1] == ("log_truncate", 0, {"from": 3})
    assert [(index, epoch) for index, epoch, _ in events[2][2]["entries"]] == [(1, 1), (2, 4)]


def test_a_restarted_leader_is_not_elected_by_its_old_file():
    witness, _ = fresh(disk(4, leader=A))
    assert told(witness.synced((Fsync(STATE),))) == [("persisted", 4, {"voted_for": None, "leader": "A"})]


def test_a_candidate_that_comes_back_counts_its_stored_vote():
    witness, _ = fresh(disk(4, voted=A))
    witness.received("B", granted(4))
    assert told(witness.sent("B", leads(4)))[0][2]["voters"] == ["A", "B"]


def test_an_election_of_one_voter_is_seen_on_its_disk():
    world = World("A")
    world.run(20)
    (elected,) = [event for event in world.boxes["A"].witnessed if event.name == "elected"]
    assert elected.data["voters"] == ["A"]
