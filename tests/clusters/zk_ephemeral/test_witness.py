from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral import tree
from dethrone.clusters.targets.zk_ephemeral.log import LOG, Log
from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from dethrone.harness.core.machine import Unlink
from tests.clusters.zk_ephemeral.spec import NAMES, World


def witness(node="a"):
    return TARGET.witness(node=node, members=NAMES)


def publish(epoch, leader="a"):
    state = {"leader": leader, "leader_epoch": epoch, "isr": [leader], "controller_epoch": 0}
    return m.Call(5, 9, m.SetNode(m.STATE_PATH, state, 1))


def named(events):
    return [(event.name, event.term) for event in events]


def test_a_race_is_won_when_the_service_confirms_the_epoch():
    w = witness()
    assert w.sent("zk", publish(4)) == []
    assert named(w.received("zk", m.Answer(5, 9, m.OK, 1))) == [("elected", 4)]
    w.sent("zk", publish(5))
    assert w.received("zk", m.Answer(5, 9, m.BAD_VERSION, 1)) == []


def test_a_state_that_names_another_is_no_election():
    w = witness()
    w.sent("zk", publish(4, leader="b"))
    assert w.received("zk", m.Answer(5, 9, m.OK, 1)) == []


def test_answering_a_fetch_as_the_leader_is_leading_once_an_epoch():
    w = witness()
    reply = m.FetchReply(m.FETCH_OK, 4, 1, 2)
    assert named(w.sent("b", reply)) == [("elected", 4), ("commit", 4)]
    assert w.sent("b", reply) == []
    assert named(w.sent("b", m.FetchReply(m.FETCH_OK, 4, 1, 3))) == [("commit", 4)]
    assert w.sent("b", m.FetchReply(m.NOT_LEADER, 9, 1)) == []


def test_an_accepted_command_to_lead_is_an_election_and_a_refused_one_is_not():
    for code, elected in ((m.ACCEPTED, [("elected", 4)]), (m.OLD_EPOCH, [])):
        w = witness()
        w.received("c", m.LeaderAndIsr(2, "a", 4, ("a",), 7, 5))
        assert named(w.sent("c", m.LeaderAndIsrReply(2, 4, 7, code))) == elected


def test_the_log_is_read_off_the_disk_at_boot_and_at_every_write():
    log = Log(sync=True)
    for index in (1, 2, 3):
        log.append(m.Record(index, 4, Append("k", index)))
    ops = log.take_ops()
    w = witness()
    (appended,) = w.synced(ops)
    assert [entry[:2] for entry in appended.data["entries"]] == [(1, 4), (2, 4), (3, 4)]
    (cut,) = w.synced(log.cut_now(1))
    assert cut.data == {"from": 2}
    booted = witness().booted({LOG: ops[0].data})
    assert named(booted) == [("log_truncate", 0), ("log_append", 4)]
    assert w.synced((Unlink(LOG),))[0].data == {"from": 1}
    assert witness().booted({LOG: b"nonsense" * 9}) == []


def test_in_a_whole_cluster_witness_and_core_tell_the_same_elections():
    for profile in ("race", "controller"):
        world = World(NAMES, profile=profile, zookeeper_session_timeout_ms=2000)
        world.run(3000)
        for _ in range(3):
            (old,) = world.with_role()
            world.kill(old)
            world.run(6000)
            world.start(old)
            world.run(4000)
        for box in world.boxes.values():
            seen = [event.term for event in box.witnessed if event.name == "elected"]
            said = [note.data["term"] for note in box.notes if note.name == "elected"]
            assert sorted(set(seen)) == sorted(set(said))
        assert len(world.judge.leaders) == 4


def test_the_service_grants_an_epoch_when_it_confirms_it_and_its_disk_is_looked_at():
    w = witness("zk")
    assert [(one.term, one.data["file"]) for one in w.booted({})] == [(0, "absent")]
    w.received("a", publish(4))
    assert named(w.sent("a", m.Answer(5, 9, m.OK, 1))) == [("granted", 4), ("answered", 4)]
    w.received("a", publish(4))
    assert w.sent("a", m.Answer(5, 9, m.OK, 1)) == []
    w.received("b", publish(5, leader="b"))
    assert w.sent("b", m.Answer(5, 9, m.BAD_VERSION, 1)) == []
    stored = tree.Stored(m.STATE_PATH, publish(4).op.data, 1, 0, 5, 9)
    assert [(one.name, one.term) for one in w.booted({tree.TREE: tree.encode([stored])})] == [("found", 4)]
    assert w.booted({tree.TREE: "unreadable"})[0].data == {"file": "unreadable"}


def test_a_broker_with_an_empty_disk_has_found_nothing_that_it_ever_said():
    assert witness("a").booted({}) == []
