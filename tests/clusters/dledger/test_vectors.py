"""Handlers of one node: rows that no claim asks about, knobs, the start, and what a failing disk does."""

import pytest

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.messages import HeartBeatRequest, VoteRequest, VoteResponse
from dethrone.clusters.targets.dledger.storage import TERM, TermState, read_term
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Fired, Message, Send, SendFailed
from tests.clusters.dledger.spec import One, disk

# --- votes ------------------------------------------------------------------------------------------------------------


def test_a_log_of_an_older_term_outweighs_any_index_and_a_newer_one_any_length():
    one = One(term=5, log=(1, 3, 3))
    assert one.asked("B", term=5, end_term=2, end_index=99).vote_result == m.EXPIRED_LEDGER_TERM
    assert one.asked("B", term=5, end_term=4, end_index=0).vote_result == m.ACCEPT


def test_a_follower_that_has_not_voted_in_this_term_may_still_vote_for_another():
    one = One(term=5, image={})
    one.node.term = 5
    one.beaten("B", term=5)
    assert one.asked("C", term=5).vote_result == m.ACCEPT
    assert (one.node.role, one.node.leader) == ("FOLLOWER", "B")


def test_granting_a_vote_touches_no_timer():
    one = One(term=5, image=disk(5)).follow()
    one.node.voted_for = None
    before = (one.node.last_beat, one.node.next_vote)
    one.run(700)
    assert one.asked("C", term=5).vote_result == m.ACCEPT
    assert (one.node.last_beat, one.node.next_vote) == before


def test_who_is_taking_leadership_refuses_those_whose_log_is_not_longer():
    one = One(term=5, log=(5, 5))
    one.node.taking_leadership = True
    assert one.asked("B", term=5, end_term=5, end_index=1).vote_result == m.TAKING_LEADERSHIP
    assert one.asked("B", term=5, end_term=5, end_index=2).vote_result == m.ACCEPT


@pytest.mark.parametrize(("counts", "case"), [(True, 4), (False, 7)])
def test_an_expired_ledger_term_counts_as_a_longer_log_unless_a_knob_says_no(counts, case):
    one = One(count_expired_ledger=counts).campaign()
    one.answer_vote("B", m.EXPIRED_LEDGER_TERM)
    one.answer_vote("C", m.EXPIRED_LEDGER_TERM)
    assert one.notes("campaign_result")[0]["case"] == case


@pytest.mark.parametrize(("word", "least"), [("0", 300), ("leak", 6300)])
def test_case_2_waits_as_long_as_its_knob_says(word, least):
    one = One(has_leader_delay=word).campaign()
    one.answer_vote("B", m.ALREADY_HAS_LEADER)
    assert least * MS <= one.node.next_vote - one.node.now() < (least + 700) * MS


def test_with_the_immediate_knob_the_pass_that_raises_the_term_campaigns_at_once():
    for word, campaigns in (("bump_only", 1), ("immediate", 2)):
        one = One(flag_handling=word).follow()
        one.asked("C", term=3)
        one.run(20)
        assert (one.node.term, one.node.flag) == (3, False)
        assert len(one.notes("campaign")) == campaigns


def test_a_raised_term_is_the_largest_heard_of_and_else_the_next():
    one = One(term=4).campaign()
    one.answer_vote("B", m.EXPIRED_VOTE_TERM, term=7)
    one.answer_vote("C", m.EXPIRED_VOTE_TERM, term=9)
    one.run(1010)
    assert [data["why"] for data in one.notes("term_change")] == ["case1"]
    assert one.node.term == 9


def test_answers_to_an_earlier_campaign_or_twice_are_not_counted():
    one = One(term=4).campaign()
    stale = VoteResponse(
        group="",
        local_id="B",
        remote_id="A",
        leader_id="A",
        term=4,
        opaque=one.node.waits.opaque - 1,
        vote_result="ACCEPT",
    )
    one.give(Message("B", stale))
    assert one.node.waits.accepted == 1
    stranger = One(term=4).campaign()
    stranger.answer_vote("X", "ACCEPT")
    assert stranger.node.role == "CANDIDATE"
    five = One(members="ABCDE", term=4).campaign()
    five.answer_vote("B", "ACCEPT")
    five.answer_vote("B", "ACCEPT")
    assert (five.node.waits.accepted, five.node.role) == (2, "CANDIDATE")


def test_peers_that_refuse_connections_end_the_wait():
    one = One(term=4).campaign()
    for request in one.sent(VoteRequest):
        one.give(SendFailed(request.remote_id, request, "refused"))
    assert one.notes("campaign_result")[0]["case"] == 3
    led = One(term=4).lead()
    led.run(10)
    for beat in led.sent(HeartBeatRequest):
        led.give(SendFailed(beat.remote_id, beat, "refused"))
    assert (led.node.waits, led.node.role) == (None, "CANDIDATE")  # no round ever succeeded


def test_a_single_node_leads_at_once():
    one = One(members="A")
    one.run(10)
    assert (one.node.role, one.node.leader) == ("LEADER", "A")
    one.run(60_000)
    assert one.node.role == "LEADER"


def test_a_new_leader_whose_first_round_fails_steps_down_again():
    one = One(term=4).lead()
    one.run(2100)
    assert one.notes("hb_round")[0]["decision"] == 4
    assert one.node.role == "CANDIDATE"


def test_a_leader_that_looks_at_larger_terms_first_steps_down_for_one_late_answer():
    one = One(term=4, leader_checks_max_term_first=True, members="ABCDE").lead()
    one.run(10)
    one.answer_beat("B", m.SUCCESS)
    one.answer_beat("C", m.EXPIRED_TERM, term=9)
    assert one.node.role == "CANDIDATE"
    one.run(10)
    assert one.node.term == 9


def test_votes_wait_for_the_disk_in_the_order_of_their_effects():
    one = One(term=4, slow=True)
    before = len(one.out)
    one.asks("B", term=4)
    kinds = [type(effect) for effect in one.out[before:] if isinstance(effect, Disk | Await | Send)]
    assert kinds == [Disk, Await, Send]
    assert one.status().voted_for is None  # nothing that a crash could take back
    one.sync()
    assert one.status().voted_for == "B"


# --- start and disk ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, (0, None, -1, -1)),
        (disk(7, "B"), (7, "B", -1, -1)),
        (disk(7, None, (1, 1, 4)), (7, None, 2, 4)),
        ({"log": disk(log=(1, 4))["log"]}, (0, None, 1, 4)),
        ({**disk(3, "A", (1,)), "currterm.tmp": b"x", "currterm.bak": b"y"}, (3, "A", 0, 1)),
    ],
)
def test_the_start_takes_what_the_disk_holds(image, expected):
    one = One(image=image)
    node = one.node
    assert (node.term, node.voted_for, node.log.last, node.end_term) == expected
    assert (node.role, node.leader, node.known_max_term, node.flag) == ("CANDIDATE", None, -1, False)
    assert (node.committed, node.last_result) == (-1, "WAIT_TO_REVOTE")
    one.run(10)
    assert one.notes("campaign")[0]["term"] == expected[0] + 1


@pytest.mark.parametrize("content", ["unreadable", b"", b"currTerm=7", b"currTerm=7\nvoteLeader=A\ncrc=00000000\n"])
def test_an_unreadable_term_file_stops_a_safe_node_and_is_a_fresh_one_upstream(content):
    assert "currterm" in One(image={TERM: content}).halted()
    assert One(image={TERM: content}, persist_mode="upstream").node.term == 0


def test_a_fresh_node_writes_its_term_before_it_says_anything():
    one = One(image={}, slow=False)
    (batch,) = [effect for effect in one.out if isinstance(effect, Disk)]
    assert read_term(batch.ops[0].data) == TermState(0, None)
    assert [effect for effect in One(image={}, persist_mode="none").out if isinstance(effect, Disk)] == []


@pytest.mark.parametrize(("mode", "stops"), [("atomic", True), ("upstream", False)])
def test_a_vote_that_cannot_be_written_stops_the_node_or_is_given_all_the_same(mode, stops):
    one = One(term=4, persist_mode=mode)
    one.slow = True
    one.asks("B", term=4)
    assert bool(one.sent(VoteResponse)) == stops  # behind the barrier, which the shell drops; or held back here
    one.sync("ENOSPC")
    assert bool(one.halted()) == stops
    assert one.notes("persist_failed")
    assert [answer.vote_result for answer in one.sent(VoteResponse)] == ["ACCEPT"]
    after = len(one.out)
    one.give(Fired("loop"))
    assert (len(one.out) == after) == stops


def test_upstream_effects_behind_a_write_keep_their_order():
    one = One(term=4, persist_mode="upstream", slow=True)
    for src in "BC":
        one.asks(src, term=4)
    assert one.sent(VoteResponse) == []
    one.sync()
    assert [(answer.remote_id, answer.vote_result) for answer in one.sent(VoteResponse)] == [
        ("B", "ACCEPT"),
        ("C", "REJECT_ALREADY_VOTED"),
    ]


def test_the_status_tells_dledgers_own_names_and_both_numberings():
    one = One(term=4, log=(1, 3)).lead()
    status = one.status()
    assert (status.role, status.term, status.leader, status.voted_for) == ("LEADER", 5, "A", "A")
    assert ((status.log_end.term, status.log_end.index), status.commit) == ((4, 2), 0)
    extra = status.extra
    assert (extra["currTerm"], extra["ledgerEndIndex"], extra["ledgerEndTerm"]) == (4, 1, 3)
    assert (extra["lastParseResult"], extra["needIncreaseTermImmediately"]) == ("PASSED", False)
    assert extra["marks"] == {"A": 1, "B": -1, "C": -1}
    assert extra["pushers"]["B"] == {"state": "COMPARE", "compareIndex": 1, "writeIndex": -1, "inFlight": 0}
    role, term, leader, voted_for, end, commit = one.core.glance()
    assert (role, term, leader, voted_for, end, commit) == ("LEADER", 5, "A", "A", (4, 2), 0)
    before = one.status()
    assert one.status() == before


def test_an_unknown_message_is_noted_and_changes_nothing():
    one = One(term=4)
    one.give(Message("B", object()))
    assert one.notes("violation")
