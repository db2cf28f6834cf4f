"""Replication: raft.md 5.5 and 5.7, row by row."""

import pytest

from dethrone.clusters.targets.client_api import Append, Failed, Get, NotLeader, Ok, Refused, Unknown
from dethrone.clusters.targets.raft import client
from dethrone.clusters.targets.raft.messages import AppendReply, Noop
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Note, Reply, Send
from tests.clusters.raft.spec import One, entries, heartbeat, paper
from tests.world.effects import answer, halted, names, note, replies, sent


def terms(one):
    return [entry.term for entry in one.node.log.entries]


# --- the follower: 5.5 ------------------------------------------------------------------------------------------


def test_row_1_a_lower_term_fails_with_the_own_term():
    out = paper(term=4).hear("B", heartbeat("B", 3, seq=9))
    assert answer(out) == AppendReply(4, False, 0, 0, 9)
    assert note(out, "append_refused")["why"] == "lower_term"


@pytest.mark.parametrize(
    ("prev", "hint"), [((3, 1), 3), ((2, 1), 2), ((2, 3), 2), ((1, 2), 1)], ids=["missing", "old", "new", "first"]
)
def test_row_2_without_the_previous_entry_it_fails_with_a_hint(prev, hint):
    out = paper(term=4, log=(1, 2)).hear("B", heartbeat("B", 4, *prev, seq=2))
    assert answer(out) == AppendReply(4, False, 0, hint, 2)
    assert note(out, "append_refused")["why"] == "prev"


def test_row_2_counts_as_contact_all_the_same():
    one = paper(term=4, log=(1, 2))
    one.hear("B", heartbeat("B", 4, 9, 4), after_ms=10)
    assert (one.node.leader, one.node.contact, one.node.reset_at) == ("B", one.now, one.now)


def test_row_2_is_the_knob_prev_check():
    one = paper(term=4, log=(1, 2), prev_check="off")
    assert answer(one.hear("B", heartbeat("B", 4, 2, 3))).success
    assert not answer(one.hear("B", heartbeat("B", 4, 5, 3))).success


def test_row_3_a_conflicting_entry_goes_with_all_after_it():
    one = paper(term=4, log=(1, 2, 2))
    out = one.hear("B", heartbeat("B", 4, 1, 1, new=entries(3, first=2)))
    assert terms(one) == [1, 3]
    assert note(out, "truncate") == {"from": 2, "old_terms": [2, 2], "removed": 2}
    assert answer(out).match_index == 2


def test_row_3_nothing_is_removed_without_a_conflict():
    one = paper(term=4, log=(1, 2, 2))
    out = one.hear("B", heartbeat("B", 4, 0, 0, new=entries(1, 2)))
    assert terms(one) == [1, 2, 2]
    assert answer(out).match_index == 2
    assert not [e for e in out if type(e) is Disk]


def test_row_4_entries_are_on_disk_before_the_answer():
    out = paper(term=4, log=(1,)).hear("B", heartbeat("B", 4, 1, 1, new=entries(4, 4, first=2)))
    kinds = [type(e) for e in out]
    assert kinds.index(Disk) < kinds.index(Await) < kinds.index(Send)
    assert type(out[-2]) is Note
    assert note(out, "append") == {"from": 2, "index": 3, "term": 4}


def test_an_answer_waits_for_entries_that_are_still_being_written():
    one = paper(term=4, slow=True)
    one.hear("B", heartbeat("B", 4, new=entries(4)))
    out = one.hear("B", heartbeat("B", 4, 1, 4, seq=2))
    assert [type(e) for e in out] == [Await, Send]


@pytest.mark.parametrize(("leader_commit", "commit"), [(1, 1), (2, 2), (9, 2)])
def test_row_5_commit_is_bounded_by_what_was_checked(leader_commit, commit):
    one = paper(term=4, log=(1, 2, 2))
    out = one.hear("B", heartbeat("B", 4, 2, 2, commit=leader_commit))
    assert (one.node.commit, one.node.applied) == (commit, commit)
    assert note(out, "commit") == {"old": 0, "new": commit, "entry_term": [1, 2][commit - 1]}
    assert note(out, "apply")["index"] == commit


def test_row_5_commit_never_goes_back():
    one = paper(term=4, log=(1, 2))
    one.hear("B", heartbeat("B", 4, 2, 2, commit=2))
    one.hear("B", heartbeat("B", 4, 2, 2, commit=1))
    assert one.node.commit == 2


def test_a_steady_heartbeat_costs_one_effect():
    one = paper(term=4)
    assert {"leader_seen", "hb_received"} <= set(names(one.follow("B")))
    assert [type(e) for e in one.follow("B", seq=2)] == [Send]


def test_a_failed_log_write_stops_the_node():
    one = paper(term=4, slow=True)
    one.hear("B", heartbeat("B", 4, new=entries(4)))
    assert halted(one.done("disk error"))


# --- the leader: 5.6, 5.7 -----------------------------------------------------------------------------------------


def leader(**more):
    one = paper(**more).leading()
    for peer in one.node.peers:
        one.ack(peer)
    return one


def test_a_command_is_appended_first_and_sent_without_waiting_for_the_own_disk():
    one = leader()
    one.slow = True
    out = one.ask(Append("k", 1))
    kinds = [type(e) for e in out]
    assert names(out)[0] == "append"
    assert Await not in kinds
    assert [body.entries[0].term for _, body in sent(out)] == [1, 1]
    assert kinds.index(Disk) < kinds.index(Send)


def test_a_majority_commits_applies_and_answers_the_client_in_this_order():
    one = leader()
    one.ask(Append("k", 7))
    out = one.ack("B", 1)
    assert replies(out) == [Ok(1, 1, 1)]
    assert names(out)[:3] == ["commit", "apply", "write_acked"]
    assert [type(e) for e in out].index(Reply) == len(names(out))


def test_the_leader_counts_itself_only_when_its_own_write_is_done():
    one = leader(members="ABCDE")
    one.slow = True
    one.ask(Append("k", 7))
    one.ack("B", 1)
    one.ack("C", 1)
    assert one.node.commit == 0
    assert replies(one.done()) == [Ok(1, 1, 1)]


def test_followers_alone_make_a_majority_too():
    one = leader()
    one.slow = True
    one.ask(Append("k", 7))
    one.ack("B", 1)
    assert replies(one.ack("C", 1)) == [Ok(1, 1, 1)]


def test_an_entry_of_an_older_term_is_not_committed_by_counting():
    one = leader(term=3, log=(2, 2))
    one.ack("B", 2)
    one.ack("C", 2)
    assert one.node.commit == 0
    one.ask(Append("k", 1))
    one.ack("B", 3)
    assert one.node.commit == 3


def test_with_commit_current_term_only_off_it_is():
    one = paper(term=3, log=(2, 2), commit_current_term_only="off").leading()
    one.ack("B", 2)
    assert one.node.commit == 2


def test_one_batch_is_in_flight_and_the_next_follows_its_answer():
    one = leader(max_entries_per_append=2)
    first = one.ask(Append("k", 1))
    assert len(sent(first)) == 2
    for value in (2, 3, 4):
        assert not sent(one.ask(Append("k", value)))
    ((to, body),) = sent(one.ack("B", 1))
    assert to == "B"
    assert [entry.index for entry in body.entries] == [2, 3]


def test_an_unanswered_batch_is_sent_again_without_limit_and_heartbeats_go_on_between():
    one = leader(rpcTimeout="120")
    one.ask(Append("k", 1))
    kinds = []
    for _ in range(30):
        out = one.fire("heartbeat", after_ms=50)
        kinds.append([len(body.entries) for to, body in sent(out) if to == "C"])
    assert kinds[:6] == [[0], [0], [1], [0], [0], [1]]
    assert kinds[-1] == [1]


def test_a_refusal_moves_back_by_the_hint_and_tries_again_at_once():
    one = paper(term=3, log=(1, 1, 2, 3)).leading()
    ((to, body),) = sent(one.ack("B", 0, ok=False, hint=2))
    assert (to, body.prev_log_index, len(body.entries)) == ("B", 1, 3)


def test_a_refusal_without_a_hint_moves_back_by_one():
    one = paper(term=3, log=(1, 1)).leading()
    ((_, body),) = sent(one.ack("B", 0, ok=False))
    assert body.prev_log_index == 1


def test_an_old_refusal_changes_nothing():
    one = leader(term=3, log=(1, 1))
    assert not sent(one.ack("B", 0, ok=False, hint=1, seq=0))
    assert one.node.leading.progress["B"].next == 3


def test_a_follower_that_lost_its_disk_is_filled_again():
    one = leader(term=3, log=(1, 1))
    one.fire("heartbeat", after_ms=50)
    ((_, body),) = sent(one.ack("B", 0, ok=False, hint=1))
    assert (body.prev_log_index, len(body.entries)) == (0, 2)
    assert one.node.leading.progress["B"].match == 0


def test_eager_commit_notice_tells_followers_at_once():
    one = leader(eager_commit_notice="on")
    one.ask(Append("k", 1))
    out = one.ack("B", 1)
    assert {body.leader_commit for _, body in sent(out)} == {1}


def test_writes_during_a_batch_share_the_next_one():
    one = leader()
    one.slow = True
    for value in range(4):
        one.ask(Append("k", value))
    assert len(one.batches) == 1
    one.done()
    assert len(one.batches) == 1
    one.done()
    assert one.node.log.durable == 4


# --- clients ------------------------------------------------------------------------------------------------------


def test_who_does_not_lead_redirects_with_the_leader_it_knows():
    one = paper(term=1)
    assert replies(one.ask(Append("k", 1))) == [NotLeader(None)]
    one.follow("B")
    assert replies(one.ask(Append("k", 1))) == [NotLeader("B")]


def test_stepping_down_leaves_writes_unknown_and_reads_failed():
    one = One().leading()
    one.ask(Append("k", 1))
    one.ask(Get("k"))
    one.ask(Get("k", "log"))
    out = one.hear("B", heartbeat("B", 9))
    assert [type(body) for body in replies(out)] == [Unknown, Failed, Failed]


def test_requests_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(client, "PENDING_MAX", 2)
    one = leader()
    one.ask(Append("k", 1))
    one.ask(Append("k", 2))
    assert isinstance(replies(one.ask(Append("k", 3)))[0], Refused)


def test_the_blank_entry_is_not_shown_to_clients():
    one = One().leading()
    assert isinstance(one.node.log.entries[0].command, Noop)
    one.ack("B", 1)
    one.ask(Get("k"))
    one.fire("heartbeat", after_ms=50)
    assert replies(one.ack("B", 1)) == [Ok(None)]


# --- a disk that hangs --------------------------------------------------------------------------------------------


def test_a_leader_whose_disk_hangs_longer_than_a_timeout_falls_silent():
    one = One(profile="raft").leading()
    one.ack("B", 1)
    one.ack("C", 1)
    one.slow = True
    one.ask(Append("k", 1))
    said = []
    for _ in range(9):
        if one.node.leading is None:
            break
        out = one.fire("heartbeat", after_ms=50)
        said.append(len(sent(out)))
        if sent(out) and one.node.leading:
            for peer in "BC":
                one.ack(peer, 2)
    assert said[:5] == [2] * 5
    assert said[-1] == 0


def test_a_late_tick_comes_before_queued_answers():
    one = leader(check_quorum="on")
    seq = one.node.leading.seq
    one.now += 400 * MS
    out = one.hear("B", AppendReply(1, True, 0, 0, seq))
    assert note(out, "step_down")["why"] == "check_quorum"
