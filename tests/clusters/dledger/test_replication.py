"""The log: every row of leader, pusher and follower, in DLedger's own numbers."""

import pytest

from dethrone.clusters.targets.client_api import Acquire, Append, Cas, Failed, Get, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.messages import Noop, PushEntryRequest
from dethrone.clusters.targets.dledger.storage import LOG
from dethrone.harness.core.machine import Disk, SendFailed
from tests.clusters.dledger.spec import One, World, disk, entries


def pushes(one, kind=None, to="B"):
    """Pushes sent to a peer so far."""
    return [p for p in one.sent(PushEntryRequest) if p.remote_id == to and (kind is None or p.type == kind)]


def matched(one, peer="B", *, end=None):
    """Answer a peer's first COMPARE: its log equals this node's up to its end."""
    push = pushes(one, "COMPARE", peer)[-1]
    return one.answer_push(peer, push, m.SUCCESS, end=push.entry.index if end is None else end)


# --- the leader's own side --------------------------------------------------------------------------------------------


def test_appends_go_to_the_leader():
    one = One(term=4).follow("B")
    number = one.request(Append("k", 1))
    assert one.replies()[number] == NotLeader("B")
    assert one.ask(Get("k")) == NotLeader("B")
    assert one.notes("append_refused")[0]["code"] == m.NOT_LEADER


def test_above_the_limit_appends_are_refused():
    one = One(term=4, max_pending_requests_num=2).lead()
    numbers = [one.request(Append("k", i)) for i in range(4)]
    assert one.replies() == {numbers[3]: Refused("503 LEADER_PENDING_FULL")}


def test_an_append_is_answered_when_a_majority_stores_it_and_only_then():
    one = One(members="ABCDE", term=4, log=(1,)).lead()
    for peer in "BCDE":
        matched(one, peer)
    number = one.request(Append("k", 7))
    assert number not in one.replies()
    one.answer_push("B", pushes(one, "APPEND", "B")[-1], m.SUCCESS, end=1)
    assert number not in one.replies()
    one.answer_push("C", pushes(one, "APPEND", "C")[-1], m.SUCCESS, end=1)
    assert one.replies()[number] == Ok(2, 2, 5)
    assert one.node.committed == 1
    assert one.node.machine.read("k") == [0, 7]


def test_nothing_is_pushed_or_counted_before_the_own_disk_has_it():
    one = One(term=4, log=(1,)).lead()
    matched(one)
    one.slow = True
    one.request(Append("k", 7))
    assert pushes(one, "APPEND") == []
    assert one.node.leading.marks["A"] == 0
    one.sync()
    assert [push.entry.index for push in pushes(one, "APPEND")] == [1]
    assert one.node.leading.marks["A"] == 1


def test_appends_that_arrive_during_a_write_share_the_next_batch():
    one = One(term=4).lead()
    one.slow = True
    before = len([e for e in one.out if isinstance(e, Disk)])
    for i in range(5):
        one.request(Append("k", i))
    one.sync()
    assert len([e for e in one.out if isinstance(e, Disk)]) - before == 2


def test_an_append_without_a_majority_is_unknown_after_its_time_and_its_entry_stays():
    one = One(term=4, members="ABCDE").lead()
    one.node.last_success = one.node.now()
    number = one.request(Append("k", 1))
    one.run(2490)
    assert number not in one.replies()
    one.run(20)
    assert one.replies()[number] == Unknown("502 WAIT_QUORUM_ACK_TIMEOUT")
    assert one.node.log.last == 0


@pytest.mark.parametrize(("answers", "code"), [(True, "501 TERM_CHANGED"), (False, None)])
def test_a_deposed_leader_answers_its_callers_unless_it_is_upstreams(answers, code):
    one = One(term=4, fail_pending_on_step_down=answers).lead()
    number = one.request(Append("k", 1))
    one.beaten("B", term=9)
    assert one.node.role == "CANDIDATE"
    assert one.replies().get(number) == (Unknown(code) if code else None)
    one.run(3000)
    assert (number in one.replies()) == answers  # only a leader looks at overdue ones


def test_upstreams_forgotten_callers_are_told_once_the_node_leads_another_term():
    one = One(term=4, fail_pending_on_step_down=False).lead()
    number = one.request(Append("k", 1))
    one.beaten("B", term=9)
    while one.node.waits is None or one.node.waits.term != 9:
        one.run(10)
    one.answer_vote("B", "ACCEPT", term=9)
    assert one.node.role == "LEADER"
    assert one.replies()[number] == Unknown("501 TERM_CHANGED")


@pytest.mark.parametrize("own_only", [True, False])
def test_copies_commit_entries_of_older_terms_only_with_the_knob_of_upstream(own_only):
    one = One(term=4, log=(1, 1), commit_own_term_only=own_only).lead()
    matched(one)
    assert one.node.committed == (-1 if own_only else 1)
    one.request(Append("k", 5))
    one.answer_push("B", pushes(one, "APPEND")[-1], m.SUCCESS, end=2)
    assert one.node.committed == 2


def test_a_blank_entry_commits_what_was_inherited():
    one = One(term=4, log=(1, 1), noop_on_elect=True).lead()
    assert one.node.log.entries[-1].command == Noop()
    matched(one)
    one.answer_push("B", pushes(one, "APPEND")[-1], m.SUCCESS, end=2)
    assert one.node.committed == 2


def test_marks_of_the_same_term_are_kept_and_never_fall():
    one = One(term=4, log=(4,)).lead()
    matched(one)
    assert one.node.leading.marks == {"A": 0, "B": 0, "C": -1}
    one.run(2100)  # no round of heartbeats succeeded: it steps down, and campaigns again in its term
    assert one.node.role == "CANDIDATE"
    one.run(20)
    one.answer_vote("B", "ACCEPT")
    assert (one.node.role, one.node.term) == ("LEADER", 4)
    assert one.node.leading.marks["B"] == 0


def test_commands_change_lists_and_registers():
    world, leader = World.with_leader()
    assert world.ask(leader, Put("r", 1)).value is None
    assert world.ask(leader, Cas("r", 1, 2)).value is True
    assert world.ask(leader, Cas("r", 1, 3)).value is False
    assert world.ask(leader, Get("r")).value == 2
    assert world.ask(leader, Append("r", 1)) == Failed("not a list")
    assert isinstance(world.ask(leader, Acquire("l", "o", 5)), Refused)


# --- reads ------------------------------------------------------------------------------------------------------------


def test_reading_an_index_gives_its_code():
    one = One(term=4, log=(1, 1)).lead()
    ask = {key: one.request(Get(key, mode="index")) for key in ("0", "1", "2", "3", "x")}
    replies = one.replies()
    assert replies[ask["0"]] == replies[ask["3"]] == Failed("410 INDEX_OUT_OF_RANGE")
    assert replies[ask["1"]] == Failed("505 LEADER_NOT_READY")
    assert isinstance(replies[ask["x"]], Refused)
    loose = One(term=4, log=(1, 1), get_committed_only=False).lead()
    assert loose.ask(Get("2", mode="index")) == Ok(1, 2, 2)
    begin = One(log=(1,)).node.rules.may_get(3, begin=5, end=9, committed=9)
    assert begin == m.INDEX_BEFORE_BEGIN


def test_a_key_is_not_read_before_all_that_may_be_committed_is_known():
    one = One(term=4, log=(4, 4)).lead()
    assert one.ask(Get("k")) == Failed("505 LEADER_NOT_READY")
    matched(one)
    assert one.ask(Get("k")) == Ok([0, 1])
    one.request(Append("k", 9))  # not committed yet
    assert one.ask(Get("k")) == Ok([0, 1])


# --- the pusher -------------------------------------------------------------------------------------------------------


def test_a_leader_with_an_empty_log_says_nothing():
    one = One(term=4).lead()
    one.run(1500)
    assert one.sent(PushEntryRequest) == []
    one.request(Append("k", 1))
    assert [push.type for push in pushes(one)] == ["COMPARE"]


@pytest.mark.parametrize(
    ("code", "begin", "end", "expected"),
    [
        (m.SUCCESS, 0, 3, ("COMMIT", -1)),  # equal, and nothing is left to push
        (m.SUCCESS, 0, 5, ("TRUNCATE", 3)),
        (m.INCONSISTENT_STATE, -1, -1, ("TRUNCATE", 0)),  # an empty follower
        (m.INCONSISTENT_STATE, 9, 12, ("TRUNCATE", 0)),
        (m.INCONSISTENT_STATE, 0, 1, ("COMPARE", 1)),  # shorter: jump to its end
        (m.INCONSISTENT_STATE, 0, 3, ("COMPARE", 2)),
        (m.INCONSISTENT_STATE, 0, 9, ("COMPARE", 2)),
    ],
)
def test_after_a_comparison(code, begin, end, expected):
    one = One(term=4, log=(1, 1, 2, 4)).lead()
    compare = pushes(one)[-1]
    assert (compare.type, compare.entry.index) == ("COMPARE", 3)
    (push,) = one.answer_push("B", compare, code, begin=begin, end=end)
    assert (push.type, -1 if push.entry is None else push.entry.index) == expected


def test_stepping_down_to_the_last_equal_entry_and_truncating_there():
    one = One(term=4, log=(1, 1, 2)).lead()
    for index in (2, 1):
        push = pushes(one)[-1]
        assert (push.type, push.entry.index) == ("COMPARE", index)
        one.answer_push("B", push, m.INCONSISTENT_STATE, end=4)
    push = pushes(one)[-1]
    assert (push.type, push.entry.index) == ("COMPARE", 0)
    (cut,) = one.answer_push("B", push, m.SUCCESS, end=4)
    assert (cut.type, cut.entry.index) == ("TRUNCATE", 0)
    sent = one.answer_push("B", cut, m.SUCCESS, end=0)
    assert [(push.type, push.entry.index) for push in sent if push.entry] == [("APPEND", 1), ("APPEND", 2)]
    assert one.node.leading.marks["B"] == 0


def test_a_first_entry_that_differs_is_truncated_at():
    one = One(term=4, log=(2,)).lead()
    (push,) = one.answer_push("B", pushes(one)[-1], m.INCONSISTENT_STATE, end=0)
    assert (push.type, push.entry.index) == ("TRUNCATE", 0)


def test_a_failed_truncation_compares_again():
    one = One(term=4, log=(1, 1)).lead()
    (cut,) = one.answer_push("B", pushes(one)[-1], m.SUCCESS, end=4)
    (push,) = one.answer_push("B", cut, m.INCONSISTENT_STATE, end=4)
    assert (push.type, push.entry.index) == ("COMPARE", 1)


@pytest.mark.parametrize("code", [m.INCONSISTENT_TERM, m.INCONSISTENT_LEADER, m.NOT_FOLLOWER])
def test_a_refused_comparison_starts_over_after_half_a_second(code):
    one = One(term=4, log=(1, 1), members="ABCDE").lead()
    assert one.answer_push("B", pushes(one)[-1], code) == []
    one.run(490)
    assert len(pushes(one)) == 1
    one.run(20)
    assert [push.type for push in pushes(one)] == ["COMPARE"] * 2


def test_an_unanswered_comparison_starts_over_after_three_seconds_and_a_half_and_an_error_after_half_a_second():
    one = One(term=4, log=(1,), members="ABCDE", heart_beat_time_interval_ms=20_000).lead()
    one.give(SendFailed("C", pushes(one, to="C")[-1], "refused"))
    one.run(510)
    assert (len(pushes(one, to="B")), len(pushes(one, to="C"))) == (1, 2)
    one.run(2950)
    assert len(pushes(one, to="B")) == 1
    one.run(60)
    assert len(pushes(one, to="B")) == 2


def test_appends_are_pipelined_up_to_the_limit():
    one = One(term=4, log=(1,), max_in_flight=3).lead()
    matched(one)
    for i in range(5):
        one.request(Append("k", i))
    assert [push.entry.index for push in pushes(one, "APPEND")] == [1, 2, 3]
    one.answer_push("B", pushes(one, "APPEND")[0], m.SUCCESS, end=1)
    assert [push.entry.index for push in pushes(one, "APPEND")] == [1, 2, 3, 4]


def test_the_first_unanswered_entry_is_pushed_again_after_a_second():
    one = One(term=4, log=(1,), heart_beat_time_interval_ms=20_000).lead()
    matched(one)
    for i in range(2):
        one.request(Append("k", i))
    one.run(990)
    assert len(pushes(one, "APPEND")) == 2
    one.run(20)
    assert [push.entry.index for push in pushes(one, "APPEND")] == [1, 2, 1]
    one.answer_push("B", pushes(one, "APPEND")[-1], m.SUCCESS, end=1)  # now the next has waited for a second, too
    assert [push.entry.index for push in pushes(one, "APPEND")] == [1, 2, 1, 2]


def test_an_inconsistency_compares_again_and_old_answers_are_ignored():
    one = One(term=4, log=(1,)).lead()
    matched(one)
    one.request(Append("k", 1))
    (append,) = pushes(one, "APPEND")
    (push,) = one.answer_push("B", append, m.INCONSISTENT_STATE, end=0)
    assert push.type == "COMPARE"
    assert one.answer_push("B", append, m.SUCCESS, end=1) == []
    assert one.node.leading.marks["B"] == 0


@pytest.mark.parametrize("code", [m.NOT_FOLLOWER, m.INCONSISTENT_TERM, m.REPEATED_PUSH])
def test_other_codes_for_an_append_mean_nothing(code):
    one = One(term=4, log=(1,)).lead()
    matched(one)
    one.request(Append("k", 1))
    assert one.answer_push("B", pushes(one, "APPEND")[-1], code) == []
    assert one.node.leading.pushers["B"].state == "APPEND"


def test_the_committed_index_is_told_every_second_when_there_is_nothing_to_push():
    one = One(term=4, log=(4,), heart_beat_time_interval_ms=60_000).lead()
    matched(one)
    one.run(5000)
    commits = pushes(one, "COMMIT")
    assert [push.commit_index for push in commits] == [0] * 6
    assert {push.entry for push in commits} == {None}


# --- the follower -----------------------------------------------------------------------------------------------------


def follower(log=(), **more):
    one = One(term=4, log=log, **more).follow("B")
    one.out.clear()
    return one


def test_pushes_need_a_follower_its_term_and_its_leader():
    entry = entries(4, first=0)[0]
    candidate = One(term=4)
    for kind in ("COMPARE", "TRUNCATE", "APPEND", "COMMIT"):
        (answer,) = candidate.pushed(kind, None if kind == "COMMIT" else entry)
        assert answer.code == m.NOT_FOLLOWER
        one = follower()
        assert one.pushed(kind, entry, term=3)[0].code == m.INCONSISTENT_TERM
        assert one.pushed(kind, entry, term=5)[0].code == m.INCONSISTENT_TERM
        assert one.pushed(kind, entry, src="C")[0].code == m.INCONSISTENT_LEADER
        assert one.node.log.last == -1


def test_upstreams_check_is_for_append_and_truncate_only():
    one = follower((4,), push_checks_leader=False)
    equal = one.node.log.entries[0]
    assert one.pushed("APPEND", equal, term=3)[0].code == m.INCONSISTENT_STATE
    assert one.pushed("TRUNCATE", equal, src="C")[0].code == m.INCONSISTENT_STATE
    assert one.pushed("COMPARE", equal, term=3, src="C")[0].code == m.SUCCESS
    assert one.pushed("COMMIT", term=3, commit=0)[0].code == m.SUCCESS
    assert one.node.committed == -1


def test_the_next_entry_is_stored_and_answered_and_commits_what_the_leader_says():
    one = follower((1,))
    (answer,) = one.pushed("APPEND", entries(4, first=1)[0], commit=0)
    assert (answer.code, answer.term, answer.index, answer.count) == (m.SUCCESS, 4, 1, 1)
    assert (answer.begin_index, answer.end_index) == (0, 1)
    assert (one.node.log.last, one.node.end_term, one.node.committed) == (1, 4, 0)
    one.pushed("COMMIT", commit=99)
    assert one.node.committed == 1


def test_an_answer_waits_for_the_disk_and_so_does_the_commit():
    one = follower((1,))
    one.slow = True
    assert one.pushed("APPEND", entries(4, first=1)[0], commit=1) == []
    assert one.pushed("COMPARE", entries(4, first=1)[0]) == []
    one.pushed("COMMIT", commit=1)
    assert one.node.committed == 0
    before = len(one.out)
    one.sync()
    assert [type(e.body).__name__ for e in one.out[before:] if hasattr(e, "body")] == ["PushEntryResponse"] * 2
    assert one.node.committed == 1


def test_entries_that_arrive_out_of_order_wait_for_the_gap():
    one = follower()
    first, second, third = entries(4, 4, 4)
    assert one.pushed("APPEND", third) == []
    assert one.pushed("APPEND", third)[0].code == m.REPEATED_PUSH
    assert one.pushed("APPEND", second) == []
    assert [answer.index for answer in one.pushed("APPEND", first)] == [0, 1, 2]


def test_a_gap_that_stays_is_told_for_its_smallest_entry():
    one = follower()
    _, _, third, fourth = entries(4, 4, 4, 4)
    one.pushed("APPEND", fourth)
    one.pushed("APPEND", third)
    one.run(900)
    assert one.sent(m.PushEntryResponse) == []
    one.run(1200)
    assert [(a.index, a.code) for a in one.sent(m.PushEntryResponse)][:1] == [(2, m.INCONSISTENT_STATE)]


def test_an_entry_that_is_there_is_compared_within_a_second():
    one = follower((1, 1))
    one.pushed("APPEND", one.node.log.entries[0])
    one.pushed("APPEND", entries(4, first=1)[0])
    one.run(1010)
    assert [(a.index, a.code) for a in one.sent(m.PushEntryResponse)] == [
        (0, m.SUCCESS),
        (1, m.INCONSISTENT_STATE),
    ]
    assert [entry.term for entry in one.node.log.entries] == [1, 1]


def test_a_comparison_is_by_index_term_and_body_and_clears_what_was_buffered():
    one = follower((1, 2))
    one.pushed("APPEND", entries(4, first=3)[0])
    assert one.pushed("COMPARE", one.node.log.entries[1])[0].code == m.SUCCESS
    assert one.node.buffer == {}
    assert one.pushed("COMPARE", entries(1, first=1)[0])[0].code == m.INCONSISTENT_STATE
    other = m.Entry(1, 2, Append("other", 1))
    assert one.pushed("COMPARE", other)[0].code == m.INCONSISTENT_STATE
    answer = one.pushed("COMPARE", entries(4, first=7)[0])[0]
    assert (answer.code, answer.begin_index, answer.end_index) == (m.INCONSISTENT_STATE, 0, 1)


def test_a_truncation_drops_all_behind_it_and_writes_what_differs_or_is_missing():
    one = follower((1, 2, 2))
    one.pushed("COMPARE", one.node.log.entries[0])
    (answer,) = one.pushed("TRUNCATE", one.node.log.entries[0])
    assert (answer.code, one.node.log.last, one.node.end_term) == (m.SUCCESS, 0, 1)
    assert one.notes("truncate")[0] == {"to": 1, "dropped": [[2, 3], [3, 3]]}
    (answer,) = one.pushed("TRUNCATE", entries(3, first=0)[0])
    assert (answer.code, [entry.term for entry in one.node.log.entries]) == (m.SUCCESS, [3])
    empty = follower()
    empty.pushed("COMPARE", entries(3, first=0)[0])
    assert empty.pushed("TRUNCATE", entries(3, first=0)[0])[0].code == m.SUCCESS
    assert empty.pushed("TRUNCATE", entries(3, first=5)[0])[0].code == m.INCONSISTENT_STATE


def test_a_truncation_of_committed_entries_is_obeyed_and_noted():
    one = follower((4, 4))
    one.pushed("COMMIT", commit=1)
    one.pushed("COMPARE", one.node.log.entries[0])
    one.pushed("TRUNCATE", one.node.log.entries[0])
    assert one.notes("violation")
    assert (one.node.log.last, one.node.committed, one.node.machine.read("k")) == (0, 0, [0])


def test_pushes_that_were_overtaken_by_a_comparison_are_dropped():
    one = follower((1, 2))
    one.pushed("COMPARE", one.node.log.entries[1], opaque=50)
    assert one.pushed("TRUNCATE", one.node.log.entries[0], opaque=49) == []
    assert one.pushed("APPEND", entries(4, first=2)[0], opaque=49) == []
    assert one.pushed("COMPARE", one.node.log.entries[0], opaque=50) == []
    assert one.node.log.last == 1
    fresh = follower((1, 2))  # no comparison in this life of the follower: nothing may be cut
    assert fresh.pushed("TRUNCATE", fresh.node.log.entries[0], opaque=49) == []
    other_life = 1 << 30
    assert one.pushed("TRUNCATE", one.node.log.entries[0], opaque=other_life) == []
    assert one.pushed("COMPARE", one.node.log.entries[1], opaque=other_life + 1)[0].code == m.SUCCESS


def test_an_entry_that_shares_the_next_batch_is_acknowledged_when_that_one_is_done():
    one = follower((1,))
    one.slow = True
    for index in (1, 2, 3):
        assert one.pushed("APPEND", entries(4, first=index)[0]) == []
    one.done()
    assert [a.index for a in one.sent(m.PushEntryResponse)] == [1]
    one.run(50)  # passes of the maintenance loop
    assert [a.index for a in one.sent(m.PushEntryResponse)] == [1]
    one.sync()
    assert [a.index for a in one.sent(m.PushEntryResponse)] == [1, 2, 3]


def test_an_entry_that_came_while_the_torn_end_was_cut_off_is_stored_after_it():
    image = disk(4, "B", (1,))
    one = One(image={**image, LOG: image[LOG] + b"torn"}, slow_start=True).follow("B")
    one.out.clear()
    assert one.pushed("APPEND", entries(4, first=1)[0]) == []
    one.sync()
    assert one.node.log.stored == 1
    assert [(a.code, a.index) for a in one.sent(m.PushEntryResponse)] == [(m.SUCCESS, 1)]


def test_an_answer_about_what_was_cut_meanwhile_is_never_given():
    one = follower((1,))
    one.slow = True
    one.pushed("APPEND", entries(4, first=1)[0], opaque=5)
    one.pushed("COMPARE", one.node.log.entries[0], opaque=6)
    one.pushed("TRUNCATE", one.node.log.entries[0], opaque=7)
    one.sync()
    assert [(a.opaque, a.code) for a in one.sent(m.PushEntryResponse)] == [(6, m.SUCCESS), (7, m.SUCCESS)]
