"""The witness: what it says comes from the wire and the disk, whatever the core notes."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.zab import messages as m
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, LOG, Log, epoch_ops
from dethrone.clusters.targets.zab.witness import ZabWitness
from tests.clusters.zab.spec import log_bytes

OLD = [m.Txn(m.zxid_of(1, counter), Append("k", counter)) for counter in (1, 2)]


def packet(body):
    return m.Packet(1, 1, body)


def seen(events):
    return [(event.name, event.term, dict(event.data)) for event in events]


def witness(disk=None):
    made = ZabWitness("A")
    made.booted(disk or {})
    return made


def test_it_tells_what_a_new_incarnation_finds():
    found, cut, log = ZabWitness("A").booted({ACCEPTED: b"4\n", LOG: log_bytes(OLD)})
    assert seen([found]) == [("found", 4, {"file": "read"})]
    assert (cut.name, cut.data["from"]) == ("log_truncate", 3)
    assert [entry[:2] for entry in log.data["entries"]] == [(1, 1), (2, 1)]
    assert seen(ZabWitness("A").booted({}))[0] == ("found", 0, {"file": "absent"})
    assert seen(ZabWitness("A").booted({ACCEPTED: b"x"}))[0] == ("found", 0, {"file": "unreadable"})


def test_an_epoch_is_voted_for_once_and_not_by_what_does_not_count():
    one = witness()
    assert seen(one.sent("B", packet(m.AckEpoch(3, m.NOT_COUNTED, 0)))) == []
    assert seen(one.sent("B", packet(m.AckEpoch(3, 0, 0)))) == [("vote", 3, {"candidate": "B"})]
    assert one.sent("B", packet(m.AckEpoch(3, 0, 0))) == []
    assert seen(one.sent("C", packet(m.AckEpoch(3, 0, 0)))) == [("vote", 3, {"candidate": "C"})]


def test_a_leader_is_elected_by_those_whose_ackepoch_counts():
    one = witness()
    assert seen(one.sent("B", packet(m.LeaderInfo(2)))) == [("vote", 2, {"candidate": "A"})]
    one.received("B", packet(m.AckEpoch(2, 1, 0)))
    one.received("C", packet(m.AckEpoch(2, m.NOT_COUNTED, 0)))
    one.received("D", packet(m.AckEpoch(1, 0, 0)))
    assert seen(one.sent("B", packet(m.NewLeader(m.zxid_of(2), 0, 0)))) == [("elected", 2, {"voters": ["A", "B"]})]
    assert one.sent("C", packet(m.NewLeader(m.zxid_of(2), 0, 0))) == []


def test_commits_of_a_sync_say_nothing_and_those_of_an_established_leader_their_place():
    one = witness()
    one.sent("B", packet(m.LeaderInfo(2)))
    assert [name for name, *_ in seen(one.sent("B", packet(m.Commit(m.zxid_of(1, 2)))))] == []
    one.sent("B", packet(m.NewLeader(m.zxid_of(2), 2, 2)))
    assert seen(one.sent("B", packet(m.UpToDate()))) == [("commit", 2, {"index": 2})]
    assert seen(one.sent("B", packet(m.Commit(m.zxid_of(2, 1))))) == [("commit", 2, {"index": 3})]
    assert one.sent("C", packet(m.Commit(m.zxid_of(2, 1)))) == []
    one.sent("B", packet(m.LeaderInfo(3)))
    assert one.sent("B", packet(m.Commit(m.zxid_of(2, 2)))) == []


def test_a_follower_acknowledges_the_history_as_a_whole_and_then_places():
    one = witness()
    assert one.sent("C", packet(m.Ack(m.zxid_of(2)))) == []
    one.received("C", packet(m.NewLeader(m.zxid_of(2), 4, 5)))
    assert seen(one.sent("C", packet(m.Ack(m.zxid_of(2))))) == [("acked", 2, {"index": 5, "leader": "C"})]
    assert one.sent("C", packet(m.Ack(m.zxid_of(2)))) == []
    assert seen(one.sent("C", packet(m.Ack(m.zxid_of(2, 2))))) == [("acked", 2, {"index": 6, "leader": "C"})]


def test_both_epoch_files_are_persisted_once_they_are_renamed_and_synced():
    one = witness()
    ops = epoch_ops(ACCEPTED, 3)
    assert one.synced(ops[:-1]) == []
    assert seen(one.synced(ops[-1:])) == [("persisted", 3, {"voted_for": None, "file": ACCEPTED})]
    assert [event.data["file"] for event in one.synced(epoch_ops(CURRENT, 3))] == [CURRENT]


def test_a_snapshot_removes_only_what_differs():
    one, log = witness(), Log()
    new = m.Txn(m.zxid_of(2, 1), Append("k", 9))
    assert [event.name for event in one.synced(log.extend(OLD))] == ["log_append"]
    cut, appended = one.synced(log.replace([OLD[0], new]))
    assert cut.data["from"] == 2
    assert [entry[:2] for entry in appended.data["entries"]] == [(2, 2)]
    assert seen(one.synced(log.keep(1))) == [("log_truncate", 0, {"from": 2})]
