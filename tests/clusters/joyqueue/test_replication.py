"""Vectors of replication and clients: one event at a prepared node."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import (
    Acquire,
    Append,
    Cas,
    Failed,
    Get,
    NotLeader,
    Ok,
    Put,
    Refused,
    Unknown,
)
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
)
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Fired, SendFailed
from tests.clusters.joyqueue.spec import One, entries
from tests.world.effects import answer, names, note, replies, sent, timers

SECOND = 1000 * MS


# --- replication ------------------------------------------------------------------------------------------------


def test_an_append_that_fits_is_stored_before_it_is_answered():
    one = One(term=2, slow=True)
    one.hear_append("B", 2)
    one.batches.clear()
    out = one.hear_append("B", 2, new=entries(2, 2))
    kinds = [type(e).__name__ for e in out if type(e).__name__ in {"Disk", "Await", "Send"}]
    assert kinds == ["Disk", "Await", "Send"]
    reply = answer(out)
    assert (reply.success, reply.next_position, reply.write_position) == (True, 2, 2)


def test_a_gap_is_answered_with_the_own_right_end():
    one = One(term=2, log=(1,))
    reply = answer(one.hear_append("B", 2, start=5, prev_term=2, new=entries(2)))
    assert (reply.success, reply.next_position) == (False, 1)


def test_another_term_before_the_entries_is_answered_with_one_entry_back():
    one = One(term=3, log=(1, 1))
    reply = answer(one.hear_append("B", 3, start=2, prev_term=2, new=entries(3)))
    assert (reply.success, reply.next_position) == (False, -1)
    assert one.group.log.end == 2


def test_conflicting_entries_are_removed_and_equal_ones_kept():
    one = One(term=3, log=(1, 2, 2))
    out = one.hear_append("B", 3, start=1, prev_term=1, new=entries(2, 3, first=2))
    assert [entry.term for entry in one.group.log.entries] == [1, 2, 3]
    assert note(out, "truncate")["from"] == 3
    same = one.hear_append("B", 3, start=1, prev_term=1, new=entries(2, first=2))
    assert one.group.log.end == 3
    assert "truncate" not in names(same)


def test_a_leader_commits_what_a_majority_stores_and_answers_the_client():
    one = One().leading()
    appends = dict(sent(one.ask(Append("k", 7)), AppendEntriesRequest))
    out = one.answer_append(("B", appends["B"]))
    assert replies(out) == [Ok(1, 1, 1)]
    assert note(out, "commit")["new"] == 1
    beat = sent(one.fire("heartbeat", after_ms=1000), AppendEntriesRequest)
    assert {to: body.commit_position for to, body in beat} == {"B": 1, "C": 0}


def test_a_refused_append_is_sent_from_one_entry_earlier():
    one = One(term=1, log=(1, 1, 1))
    first = next(pair for pair in sent(one.lead(), AppendEntriesRequest) if pair[1].entries and pair[0] == "B")
    assert first[1].start_position == 2
    again = dict(sent(one.answer_append(first, success=False, next_position=-1), AppendEntriesRequest))["B"]
    assert (again.start_position, again.prev_position, again.prev_term) == (1, 0, 1)
    again = dict(sent(one.answer_append(("B", again), success=False, next_position=1), AppendEntriesRequest))["B"]
    assert (again.start_position, again.prev_position, again.prev_term) == (0, -1, 0)


def test_entries_of_an_older_term_wait_for_one_of_the_own():
    for word, committed in (("true", 0), ("false", 1)):
        one = One(term=1, log=(1,), commit_current_term_only=word)
        first = next(pair for pair in sent(one.lead(), AppendEntriesRequest) if pair[1].entries and pair[0] == "B")
        one.answer_append(first)
        assert one.group.commit == committed
        appends = dict(sent(one.ask(Put("x", 1)), AppendEntriesRequest))
        one.answer_append(("B", appends["B"]))
        assert one.group.commit == 2


def test_an_append_that_nobody_answers_is_sent_again_after_its_time():
    one = One().leading()
    one.ask(Append("k", 1))
    for _ in range(4):
        assert not [b for _, b in sent(one.fire("heartbeat", after_ms=1000), AppendEntriesRequest) if b.entries]
    again = [to for to, b in sent(one.fire("heartbeat", after_ms=1000), AppendEntriesRequest) if b.entries]
    assert again == ["B", "C"]


def test_a_transport_error_is_noted_and_frees_the_replica():
    one = One().leading()
    appends = dict(sent(one.ask(Append("k", 1)), AppendEntriesRequest))
    assert names(one.give(SendFailed("B", appends["B"], "refused"))) == ["send_failed"]
    again = [to for to, b in sent(one.fire("heartbeat"), AppendEntriesRequest) if b.entries]
    assert again == ["B"]


def test_a_commit_that_is_told_at_once_does_not_put_the_next_round_off():
    one = One(variant="harmless-eager-commit").leading()
    appends = dict(sent(one.ask(Append("k", 1), after_ms=500), AppendEntriesRequest))
    out = one.answer_append(("B", appends["B"]))
    assert [(to, b.commit_position) for to, b in sent(out, AppendEntriesRequest)] == [("B", 1), ("C", 0)]
    assert "heartbeat" not in timers(out)


# --- clients ----------------------------------------------------------------------------------------------------


def test_only_a_leader_serves_and_others_name_it():
    one = One(term=2)
    assert replies(one.ask(Get("k"))) == [NotLeader(None)]
    one.hear_append("B", 2)
    assert replies(one.ask(Put("k", 1))) == [NotLeader("B")]


def test_reads_go_through_the_log_or_not_by_the_knob():
    one = One().leading()
    out = one.ask(Get("k"))
    assert replies(out) == []
    assert replies(one.answer_append(("B", dict(sent(out, AppendEntriesRequest))["B"]))) == [Ok(None, 1, 1)]
    local = One(reads="local").leading()
    assert replies(local.ask(Get("k"))) == [Ok(None)]


def test_a_cas_says_whether_it_was_set_and_a_foreign_form_fails():
    one = One(members="A")
    one.expire()
    assert replies(one.ask(Cas("x", None, 1))) == [Ok(True, 1, 0)]
    assert replies(one.ask(Cas("x", 5, 6))) == [Ok(False, 2, 0)]
    assert replies(one.ask(Append("x", 1))) == [Failed("not a list")]
    assert replies(one.ask(Acquire("l", "me", 1))) == [Refused("not served by joyqueue")]


def test_a_leader_that_steps_down_says_unknown_of_writes_and_failed_of_reads():
    one = One().leading()
    one.ask(Append("k", 1))
    one.ask(Get("k"))
    out = one.hear_append("B", 5)
    assert [type(body) for body in replies(out)] == [Unknown, Failed]


def test_clients_of_several_groups_are_told_no_index_for_it_means_nothing_to_them():
    one = One(members="A", groups=3, image={})
    for group in one.core.groups:
        one.give(Fired(group.election_timer))
        group.reset_at, group.deadline = one.now - 10**12, one.now
        one.give(Fired(group.election_timer))
        assert group.role == "LEADER"
    (reply,) = replies(one.ask(Put("k", 1)))
    assert reply == Ok(None)
    assert sum(group.log.end for group in one.core.groups) == 1
    assert one.core.group_of("k").log.end == 1
