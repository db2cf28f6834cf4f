from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Cas, Failed, Get, Ok, Refused, Unknown
from dethrone.clusters.targets.kit.files import record
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.log import HW, LOG, Log, hw_ops, read_hw
from dethrone.harness.core.machine import Disk, Write
from tests.clusters.zk_ephemeral.spec import One
from tests.world.effects import bodies, halted, names, note, replies

STATE = {"leader": "b", "leader_epoch": 4, "isr": ["a", "b"], "controller_epoch": 0}


def records(*epochs, first=1):
    return tuple(m.Record(first + i, epoch, Append("k", first + i)) for i, epoch in enumerate(epochs))


def disk(*epochs, hw=None):
    """A log with records of these epochs."""
    log = Log(sync=True)
    for one in records(*epochs):
        log.append(one)
    image = {LOG: b"".join(log.records)}
    if hw is not None:
        image[HW] = next(op.data for op in hw_ops(hw) if isinstance(op, Write))
    return image


def leader(**more):
    one = One("a", **more)
    one.lead(stored=STATE)
    return one


def joined(one, who="b"):
    """That follower caught up and is in the published ISR."""
    one.fetch_from(who, one.core.log.end)
    state = dict(one.calling().data)
    return one.answer(m.OK, state, version=one.core.leading.version + 1)


# --- clients ------------------------------------------------------------------------------------------------------


def test_acks_1_confirms_after_the_local_append_and_not_before():
    one = leader(slow=True)
    assert not replies(one.ask(Append("k", 1)))
    out = one.done()
    assert replies(out) == [Ok(None)]
    assert note(out, "write_acked")["acks"] == "1"


def test_acks_all_confirms_when_the_isr_holds_it():
    one = leader(acks="all")
    joined(one)
    assert not replies(one.ask(Append("k", 1)))
    out = one.fetch_from("b", 1)
    assert replies(out) == [Ok(1, 1, 5)]
    assert one.status().commit == 1


def test_acks_all_refuses_below_the_least_isr():
    one = leader(acks="all", min_insync_replicas=2)
    assert replies(one.ask(Append("k", 1))) == [Failed("NOT_ENOUGH_REPLICAS")]
    joined(one)
    assert not replies(one.ask(Append("k", 1)))


def test_acks_1_does_not_care():
    one = leader(min_insync_replicas=2)
    assert replies(one.ask(Append("k", 1))) == [Ok(None)]


def test_the_leader_reads_what_the_high_watermark_covers():
    one = leader(acks="all")
    joined(one)
    one.ask(Append("k", 1))
    assert replies(one.ask(Get("k"))) == [Ok(None)]
    one.fetch_from("b", 1)
    assert replies(one.ask(Get("k"))) == [Ok([1])]


def test_other_operations_are_refused():
    assert isinstance(replies(leader().ask(Cas("k", 1, 2)))[0], Refused)


def test_a_leader_that_gives_up_knows_nothing_of_its_pending_writes():
    one = leader(acks="all")
    joined(one)
    one.ask(Append("k", 1))
    assert [type(body) for body in replies(one.hear("zk", m.SessionExpired(5)))] == [Unknown]


# --- ISR and high watermark ---------------------------------------------------------------------------------------


def test_a_follower_that_caught_up_joins_with_compare_and_set():
    one = leader()
    one.fetch_from("b", 0)
    op = one.calling()
    assert (op.path, op.data["isr"], op.version) == (m.STATE_PATH, ["a", "b"], 1)
    out = one.answer(m.OK, op.data, version=2)
    assert note(out, "isr_change") == {"old": ["a"], "new": ["a", "b"], "why": "caught up"}


def test_a_follower_behind_the_high_watermark_does_not_join():
    one = leader()
    one.ask(Append("k", 1))
    one.fetch_from("b", 0)
    assert one.calling() is None


def test_a_follower_that_lacks_what_the_leader_began_with_does_not_join_however_old_the_high_watermark():
    one = One("a", disk=disk(4, 4, 4, hw=1), truncate="epoch")
    one.lead(stored=STATE)
    one.fetch_from("b", 2, last_epoch=4)
    assert one.calling() is None
    one.fetch_from("b", 3, last_epoch=4)
    assert one.calling().data["isr"] == ["a", "b"]


def test_a_joining_follower_counts_before_it_is_published():
    one = leader(acks="all")
    one.fetch_from("b", 0)
    assert not replies(one.ask(Append("k", 1)))


def lagging(**more):
    """A leader with b in its ISR, which then falls silent while a write waits for it."""
    one = leader(acks="all", replica_lag_time_max_ms=3000, **more)
    joined(one)
    one.ask(Append("k", 1))
    one.fire("lag", after_ms=1500)
    return one


def test_a_silent_follower_leaves_the_isr_and_stops_counting_when_the_service_knows():
    one = lagging()
    assert one.calling() is None
    out = one.fire("lag", after_ms=1600)
    assert one.calling().data["isr"] == ["a"]
    assert not replies(out)
    out = one.answer(m.OK, one.calling().data, version=3)
    assert replies(out) == [Ok(1, 1, 5)]


def test_the_knob_lets_it_stop_counting_before():
    one = lagging(isr_in_force="local")
    assert replies(one.fire("lag", after_ms=1600)) == [Ok(1, 1, 5)]


def test_a_follower_that_fetches_and_never_catches_up_leaves_as_well():
    one = leader(acks="1", replica_lag_time_max_ms=3000, replica_fetch_wait_max_ms=100)
    joined(one)
    for value in range(8):
        one.ask(Append("k", value))
        one.now += 500_000_000
        one.fetch_from("b", 0)
    out = one.fire("lag")
    assert one.calling().data["isr"] == ["a"], names(out)


def test_a_leader_whose_state_names_another_stops():
    one = leader()
    one.fetch_from("b", 0)
    out = one.answer(m.BAD_VERSION, {**STATE, "leader": "c", "leader_epoch": 6}, version=9)
    assert "fenced" in names(out)
    assert one.status().role == "FOLLOWER"


def test_a_leader_whose_state_only_moved_on_leads_on_with_it():
    one = leader()
    one.fetch_from("b", 0)
    state = {"leader": "a", "leader_epoch": 5, "isr": ["a", "c"], "controller_epoch": 0}
    one.answer(m.BAD_VERSION, state, version=9)
    assert (one.status().role, one.status().extra["isr"]) == ("LEADER", ["a", "c"])


# --- fetching -----------------------------------------------------------------------------------------------------


def test_an_empty_fetch_waits_and_is_answered_when_something_comes_or_when_it_waited_long_enough():
    one = leader()
    joined(one)
    assert not bodies(one.fetch_from("b", 0), m.FetchReply)
    (body,) = bodies(one.ask(Append("k", 1)), m.FetchReply)
    assert [record.command.value for record in body.records] == [1]
    assert not bodies(one.fetch_from("b", 1, hw=1), m.FetchReply)
    (body,) = bodies(one.fire("parked", after_ms=500), m.FetchReply)
    assert (body.records, body.hw) == ((), 1)


def test_a_high_watermark_that_moved_is_told_at_once():
    one = leader(acks="all")
    joined(one)
    one.ask(Append("k", 1))
    (body,) = bodies(one.fetch_from("b", 1), m.FetchReply)
    assert (body.code, body.hw) == (m.FETCH_OK, 1)


def test_fetches_of_other_epochs_are_refused_with_fencing_only():
    one = leader(fencing="epochs")
    (body,) = bodies(one.fetch_from("b", 0, epoch=4), m.FetchReply)
    assert body.code == m.FENCED
    out = one.fetch_from("b", 0, epoch=6)
    assert one.status().role == "FOLLOWER"
    assert "step_down" in names(out)
    one = leader()
    assert "fenced" not in names(one.fetch_from("b", 0, epoch=4))


def test_who_does_not_lead_says_so():
    one = One("a")
    one.follow("b", 4)
    (body,) = bodies(one.hear("c", m.Fetch(4, 0, 0, 0, 1, 1)), m.FetchReply)
    assert (body.code, body.leader) == (m.NOT_LEADER, "b")


def test_an_old_fetch_of_the_same_life_is_passed_over():
    one = leader()
    one.fetch_from("b", 0, seq=5)
    assert not bodies(one.fetch_from("b", 0, seq=4), m.FetchReply)


def test_a_follower_acknowledges_only_what_is_durable():
    one = One("a", slow=True)
    one.follow("b", 4)
    out = one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 0, records(4, 4)))
    assert not bodies(out, m.Fetch)
    (body,) = bodies(one.done(), m.Fetch)
    assert (body.log_end, body.last_epoch) == (2, 4)


def test_a_followers_high_watermark_stays_within_its_log_and_never_falls():
    one = One("a")
    one.follow("b", 4)
    one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 9, records(4, 4)))
    assert one.status().commit == 2
    one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 1))
    assert one.status().commit == 2


def test_answers_that_nobody_waits_for_are_passed_over():
    one = One("a")
    one.follow("b", 4)
    assert one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq - 1, 0, records(4))) == []
    assert one.hear("c", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 0, records(4))) == []


@pytest.mark.parametrize(("truncate", "left"), [("hw", 2), ("epoch", 4), ("off", 4)])
def test_a_new_follower_cuts_to_its_high_watermark_or_leaves_that_to_epochs(truncate, left):
    one = One("a", disk=disk(1, 1, 1, 2, hw=2), truncate=truncate)
    out = one.follow("b", 4)
    assert one.core.log.end == left
    assert ("truncated" in names(out)) is (left < 4)


def test_a_leader_tells_where_the_logs_part_and_the_follower_cuts_there():
    one = leader(truncate="epoch", disk=disk(1, 1, 1, 2, 2))
    (body,) = bodies(one.fetch_from("b", 6, last_epoch=3), m.FetchReply)
    assert (body.code, body.end_epoch, body.end) == (m.DIVERGING, 2, 5)
    follower = One("a", truncate="epoch", disk=disk(1, 1, 1, 1, 1, 3))
    follower.follow("b", 5)
    out = follower.hear("b", m.FetchReply(m.DIVERGING, 5, follower.core.fetch_seq, end=5, end_epoch=2))
    assert follower.core.log.end == 5
    assert [body.log_end for body in bodies(out, m.Fetch)] == [5]
    follower.hear("b", m.FetchReply(m.DIVERGING, 5, follower.core.fetch_seq, end=3, end_epoch=1))
    assert follower.core.log.end == 3


def test_a_follower_beyond_the_leaders_end_is_cut_back():
    one = leader()
    (body,) = bodies(one.fetch_from("b", 3, last_epoch=4), m.FetchReply)
    assert (body.code, body.end) == (m.OUT_OF_RANGE, 0)


# --- disk ---------------------------------------------------------------------------------------------------------


def test_a_restarted_replica_has_its_log_and_nothing_of_the_election():
    one = One("a", disk=disk(1, 2, hw=1))
    status = one.status()
    assert (status.log_end.term, status.log_end.index, status.commit) == (2, 2, 1)
    assert (status.term, status.leader, status.role) == (0, None, "DISCONNECTED")


@pytest.mark.parametrize(
    "image",
    [
        {LOG: "unreadable"},
        {LOG: b"nonsense" * 8},
        {LOG: record(b"{}")},
        {**disk(1), HW: "unreadable"},
        {**disk(1), HW: b"x"},
        {**disk(1), HW: b"00000000 1\n"},
    ],
)
def test_an_unreadable_file_stops_the_broker(image):
    one = One("a", disk=image)
    assert halted(one.booted)
    assert one.fire("ping") == []


def test_a_failed_write_stops_the_broker():
    one = leader(slow=True)
    one.ask(Append("k", 1))
    out = one.done("ENOSPC")
    assert note(out, "persist_failed")["error"] == "ENOSPC"
    assert halted(out)


def test_writes_that_come_while_a_batch_is_under_way_go_together():
    one = leader(slow=True)
    one.ask(Append("k", 1))
    one.ask(Append("k", 2))
    one.ask(Append("k", 3))
    assert len(one.batches) == 1
    out = one.done()
    assert len(replies(out)) == 1
    assert len(replies(one.done())) == 2


def test_the_checkpoint_is_written_once_in_a_while():
    one = leader()
    one.ask(Append("k", 1))
    out = one.fire("checkpoint", after_ms=5000)
    (batch,) = [effect for effect in out if isinstance(effect, Disk)]
    assert read_hw(batch.ops[0].data) == 1
    assert not [e for e in one.fire("checkpoint", after_ms=5000) if isinstance(e, Disk)]
