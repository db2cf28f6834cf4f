"""Handler vectors: one event at a prepared node, row by row of the specification's tables."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import (
    Append,
    Failed,
    NotLeader,
    Ok,
    Refused,
    Transfer,
    Unknown,
)
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    NullAnswer,
    TimeoutNowRequest,
    TimeoutNowResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.storage import TOPIC
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Message
from tests.clusters.joyqueue.spec import One, entries
from tests.world.effects import answer, halted, names, note, replies, sent, timers

SECOND = 1000 * MS


# --- 5.2 election timer -----------------------------------------------------------------------------------------


def test_a_start_is_a_follower_with_an_election_timer_and_its_metadata_on_disk():
    one = One(fresh=True)
    assert names(one.booted) == ["persisted", "start"]
    assert (one.group.role, one.group.term, one.group.leader) == ("FOLLOWER", 0, None)
    assert timers(one.booted)["election"] == one.now + 5 * SECOND


def test_an_expiry_asks_everybody_clears_the_leader_and_arms_the_timer_again():
    one = One(term=3)
    one.hear_append("B", 3)
    assert one.group.leader == "B"
    out = one.expire()
    asked = sent(out, VoteRequest)
    assert [to for to, _ in asked] == ["B", "C"]
    assert all((body.term, body.pre_vote) == (3, True) for _, body in asked)
    assert one.group.leader is None
    assert timers(out)["election"] == one.now + 5 * SECOND
    assert one.group.flags == {"A": True, "B": False, "C": False}


def test_an_expiry_without_a_pending_timer_is_noted_and_goes_on():
    one = One()
    one.group.cancel_election_timer()
    out = one.fire("election")
    assert note(out, "election_timeout") == {"state": "FOLLOWER", "pending": False}
    assert len(sent(out, VoteRequest)) == 2


def test_a_candidates_expiry_pre_votes_again_whose_answers_count_nothing():
    one = One(members="ABCDE").campaigning(voters="BC")
    out = one.expire()
    assert one.group.role == "CANDIDATE"
    for request in sent(out, VoteRequest):
        assert "vote_answer_ignored" in names(one.answer_vote(request))
    assert one.group.flags == {"A": True, "B": False, "C": False, "D": False, "E": False}


def test_a_ring_before_the_drawn_delay_expires_nothing():
    one = One()
    out = one.fire("election", after_ms=5000)
    assert names(out) == []
    due = timers(out)["election"]
    assert one.now <= due < one.now + 5 * SECOND
    out = one.fire("election", after_ms=(due - one.now) // MS)
    assert "election_timeout" in names(out)


# --- 5.5, 5.6 pre-vote answers and campaign ---------------------------------------------------------------------


def test_a_won_pre_vote_raises_the_term_and_asks_with_the_own_log():
    one = One(term=3, log=(1, 3))
    asked = dict(sent(one.expire(), VoteRequest))
    out = one.answer_vote(("C", asked["C"]))
    group = one.group
    assert (group.role, group.term, group.voted_for, group.leader) == ("CANDIDATE", 4, "A", None)
    assert [(to, b.term, b.pre_vote, b.last_log_term, b.last_log_pos) for to, b in sent(out, VoteRequest)] == [
        ("B", 4, False, 3, 2),
        ("C", 4, False, 3, 2),
    ]
    assert timers(out)["vote"] == one.now + 5 * SECOND
    assert "election" not in timers(out)
    assert names(out)[:5] == ["prevote_answer", "prevote_result", "persisted", "term_change", "role_change"]


def test_an_answer_of_a_request_of_another_term_is_dropped():
    one = One()
    asked = dict(sent(one.expire(), VoteRequest))
    one.hear_append("C", 1)
    out = one.answer_vote(("B", asked["B"]), term=1)
    assert names(out) == []
    assert one.group.counters["answers_of_old_terms"] == 1
    assert not one.group.flags["B"]


def test_without_the_callbacks_check_it_counts():
    one = One(callback_term_check="false")
    asked = dict(sent(one.expire(), VoteRequest))
    one.hear_append("C", 1)
    one.answer_vote(("B", asked["B"]), term=1)
    assert one.group.flags["B"]


@pytest.mark.parametrize("kind", ["null", "other"])
def test_null_answers_and_answers_of_another_type_are_ignored(kind):
    one = One()
    asked = dict(sent(one.expire(), VoteRequest))
    number = asked["B"].id
    body = (
        NullAnswer(TOPIC, number)
        if kind == "null"
        else AppendEntriesResponse(
            TOPIC, 9, success=True, next_position=0, write_position=0, replica_id="B", entries_term=0, id=number
        )
    )
    out = one.hear("B", body)
    assert names(out) == ["vote_answer_ignored"]
    assert (one.group.term, one.group.role) == (0, "FOLLOWER")


def test_answers_nobody_waits_for_change_nothing():
    one = One()
    asked = dict(sent(one.expire(), VoteRequest))
    assert one.hear("C", VoteResponse(TOPIC, 0, "A", "C", vote_granted=True, id=asked["B"].id)) == []
    one = One()
    asked = dict(sent(one.expire(), VoteRequest))
    one.now += 5 * SECOND
    assert one.answer_vote(("B", asked["B"])) == []
    assert one.group.role == "FOLLOWER"


def test_an_unknown_voter_is_an_error_that_is_only_noted():
    one = One()
    asked = dict(sent(one.expire(), VoteRequest))
    out = one.answer_vote(("B", asked["B"]), voter="Z")
    assert names(out) == ["error"]
    assert one.group.role == "FOLLOWER"


@pytest.mark.parametrize(("members", "needed"), [("AB", 1), ("ABC", 1), ("ABCD", 2), ("ABCDE", 2)])
def test_more_than_half_of_all_nodes_elect(members, needed):
    one = One(members=members)
    asked = dict(sent(one.expire(), VoteRequest))
    out = []
    for position, voter in enumerate(members[1 : needed + 1]):
        assert one.group.role == "FOLLOWER", position
        out = one.answer_vote((voter, asked[voter]))
    assert one.group.role == "CANDIDATE"
    asked = dict(sent(out, VoteRequest))
    for voter in members[1 : needed + 1]:
        assert one.group.role == "CANDIDATE"
        out = one.answer_vote((voter, asked[voter]))
    assert one.group.role == "LEADER"
    assert note(out, "elected")["voters"] == sorted("A" + members[1 : needed + 1])


# --- 5.7, 5.8, 5.10 vote answers, vote timer, leadership --------------------------------------------------------


def test_a_leader_beats_at_once_clears_flags_and_timers_and_goes_online():
    one = One(term=2, log=(1,))
    out = one.lead()
    group = one.group
    assert (group.leader, group.online, set(group.flags.values())) == ("A", True, {False})
    assert timers(out)["election"] is None
    assert timers(out)["vote"] is None
    assert timers(out)["heartbeat"] == one.now + SECOND
    beats = [(to, b.term) for to, b in sent(out, AppendEntriesRequest) if not b.entries]
    assert beats == [("B", 3), ("C", 3)]
    order = names(out)
    assert order.index("persisted") < order.index("elected") < order.index("become_leader")


def test_the_vote_timer_ends_a_campaign_in_the_same_term_with_the_vote_kept():
    one = One().campaigning()
    out = one.fire("vote", after_ms=5000)
    group = one.group
    assert (group.role, group.term, group.voted_for) == ("FOLLOWER", 1, "A")
    assert timers(out)["election"] == one.now + 5 * SECOND
    assert names(one.fire("vote")) == ["vote_timeout"]


def test_a_heartbeat_answer_of_a_higher_term_deposes_and_any_other_does_not():
    one = One()
    beats = [pair for pair in sent(one.lead(), AppendEntriesRequest) if not pair[1].entries]
    assert one.answer_append(beats[0]) == []
    out = one.answer_append(beats[1], term=7)
    assert (one.group.role, one.group.term, one.group.voted_for) == ("FOLLOWER", 7, None)
    assert timers(out)["heartbeat"] is None
    assert "store_offline" in names(out)


def test_a_replica_that_took_nothing_for_too_long_gets_no_heartbeat_with_that_knob():
    one = One(heartbeat_max_timeout_ms=3000).leading()
    appends = [pair for pair in sent(one.ask(Append("k", 1)), AppendEntriesRequest) if pair[1].entries]
    one.answer_append(next(pair for pair in appends if pair[0] == "B"))
    one.answer_append(next(pair for pair in appends if pair[0] == "C"))
    assert [to for to, _ in sent(one.fire("heartbeat", after_ms=3000))] == ["B", "C"]
    assert sent(one.fire("heartbeat", after_ms=1)) == []


# --- 5.11 vote requests -----------------------------------------------------------------------------------------


def test_an_unknown_candidate_gets_a_null_answer():
    one = One(term=2)
    assert isinstance(answer(one.hear("B", VoteRequest(TOPIC, 9, "Z", 0, 0, pre_vote=False, id=1))), NullAnswer)
    assert isinstance(answer(one.hear("B", VoteRequest(TOPIC, 9, "Z", 0, 0, pre_vote=True, id=1))), NullAnswer)
    assert one.group.term == 2


@pytest.mark.parametrize(
    ("own", "asked", "granted", "after"),
    [
        ({"term": 5}, (4, (9, 9)), False, (5, None)),
        ({"term": 4}, (4, (0, 0)), True, (4, "B")),
        ({"term": 3}, (4, (0, 0)), True, (4, "B")),
        ({"term": 4, "voted_for": "C"}, (4, (9, 9)), False, (4, "C")),
        ({"term": 4, "voted_for": "B"}, (4, (0, 0)), True, (4, "B")),
        ({"term": 4, "voted_for": "C"}, (5, (0, 0)), True, (5, "B")),
        ({"term": 4, "log": (2, 2)}, (5, (1, 9)), False, (5, None)),
        ({"term": 4, "log": (2, 2)}, (5, (2, 1)), False, (5, None)),
        ({"term": 4, "log": (2, 2)}, (5, (2, 2)), True, (5, "B")),
        ({"term": 4, "log": (2, 2)}, (5, (3, 0)), True, (5, "B")),
    ],
)
def test_the_rows_of_a_vote_request(own, asked, granted, after):
    one = One(**own)
    term, log = asked
    out = one.hear_vote_request("B", term, log)
    reply = answer(out)
    assert (reply.vote_granted, reply.term) == (granted, after[0])
    assert (one.group.term, one.group.voted_for) == after
    assert note(out, "vote_decision")["granted"] is granted
    assert (reply.candidate_id, reply.vote_node_id) == ("B", "A")


def test_a_granted_vote_is_stored_before_its_answer_and_resets_the_timer():
    one = One(term=1, slow=True)
    out = one.hear_vote_request("B", 2)
    assert [type(e).__name__ for e in out if type(e).__name__ in {"Disk", "Await", "Send"}] == [
        *("Disk", "Await", "Disk", "Await", "Send")
    ]
    assert one.group.reset_at == one.now


def test_a_leader_that_grants_a_vote_steps_down():
    one = One().leading()
    one.hear_vote_request("C", 2)
    assert (one.group.role, one.group.term, one.group.voted_for) == ("FOLLOWER", 2, "C")
    assert one.group.replicas == {}


@pytest.mark.parametrize(
    ("own", "asked", "granted"),
    [
        ({"term": 5}, (4, (9, 9)), False),
        ({"term": 4}, (4, (0, 0)), True),
        ({"term": 3}, (4, (0, 0)), True),
        ({"term": 4, "voted_for": "C"}, (4, (0, 0)), True),
        ({"term": 4, "log": (2,)}, (9, (1, 9)), False),
    ],
)
def test_the_rows_of_a_pre_vote_request_that_change_nothing(own, asked, granted):
    one = One(**own)
    one.now += SECOND
    before = (one.group.term, one.group.voted_for, one.group.reset_at)
    out = one.hear_vote_request("B", *asked, pre=True)
    assert (answer(out).vote_granted, answer(out).term) == (granted, own["term"])
    assert (one.group.term, one.group.voted_for, one.group.reset_at) == before
    assert names(out) == ["prevote_decision"]


def test_a_pre_vote_is_granted_beside_a_working_leader():
    one = One(term=2)
    one.hear_append("C", 2)
    assert answer(one.hear_vote_request("B", 2, pre=True)).vote_granted


# --- 5.11 appends and heartbeats --------------------------------------------------------------------------------


def test_an_append_of_an_unknown_leader_gets_a_null_answer():
    one = One()
    assert isinstance(answer(one.hear_append("Z", 3)), NullAnswer)


def test_an_append_of_a_lower_term_is_refused_with_the_own_one_and_resets_nothing():
    one = One(term=4)
    one.now += SECOND
    reply = answer(one.hear_append("B", 3))
    assert (reply.success, reply.term) == (False, 4)
    assert one.group.reset_at == one.now - SECOND


@pytest.mark.parametrize("role", ["FOLLOWER", "CANDIDATE", "LEADER"])
def test_whoever_hears_a_leader_of_its_term_follows_it(role):
    one = One()
    if role == "LEADER":
        one.lead()
    elif role == "CANDIDATE":
        one.campaign()
    out = one.hear_append("C", one.group.term)
    assert (one.group.role, one.group.leader) == ("FOLLOWER", "C")
    assert note(out, "become_follower") == {"leader": "C", "term": one.group.term}
    assert answer(out).success


def test_a_second_leader_of_one_term_is_followed_without_more_ado():
    one = One(term=2)
    one.hear_append("B", 2)
    out = one.hear_append("C", 2)
    assert one.group.leader == "C"
    assert "become_follower" not in names(out)
    assert "step_down" not in names(out)


def test_a_steady_heartbeat_writes_nothing_and_notes_nothing():
    one = One(term=2)
    one.hear_append("B", 2)
    out = one.hear_append("B", 2)
    assert [type(e).__name__ for e in out] == ["Send"]
    assert one.group.reset_at == one.now


# --- hand-over --------------------------------------------------------------------------------------------------


def test_leadership_is_handed_to_a_replica_that_has_the_whole_log():
    one = One(term=1, log=(1,), transfer="true")
    first = [pair for pair in sent(one.lead(), AppendEntriesRequest) if pair[1].entries]
    out = one.ask(Transfer("B"))
    assert one.group.role == "TRANSFERRING"
    assert not sent(out, TimeoutNowRequest)
    assert replies(one.ask(Append("k", 1))) == [Refused("leadership is being handed over")]
    out = one.answer_append(next(pair for pair in first if pair[0] == "B"))
    ((to, asked),) = sent(out, TimeoutNowRequest)
    assert (to, asked.term) == ("B", 2)
    successor = One(node="B", term=2, log=(1,), transfer="true")
    out = successor.hear("A", asked)
    assert (successor.group.role, successor.group.term) == ("CANDIDATE", 3)
    assert sent(out, TimeoutNowResponse)[0][1].success
    out = one.hear("B", sent(out, TimeoutNowResponse)[0][1])
    assert (one.group.role, one.group.term) == ("FOLLOWER", 3)
    assert [type(body) for body in replies(out)] == [Unknown]


def test_a_hand_over_that_takes_too_long_is_given_up():
    one = One(transfer="true").leading()
    one.ask(Append("k", 1))
    one.ask(Transfer("B"))
    out = one.fire("transfer", after_ms=10_000)
    assert one.group.role == "LEADER"
    assert one.group.online
    assert replies(out) == [Failed("the transfer timed out")]


def test_timeout_now_of_another_term_or_at_a_candidate_is_refused():
    one = One(term=2, transfer="true")
    assert not answer(one.hear("B", TimeoutNowRequest(TOPIC, 1, 1))).success
    out = one.hear("B", TimeoutNowRequest(TOPIC, 5, 2))
    assert (answer(out).success, one.group.term, one.group.role) == (False, 5, "FOLLOWER")
    one.campaign()
    assert not answer(one.hear("B", TimeoutNowRequest(TOPIC, one.group.term, 3))).success


def test_a_hand_over_needs_its_knob_a_leader_and_a_voter():
    assert replies(One().ask(Transfer("B"))) == [Refused("transfer=false")]
    one = One(transfer="true")
    assert replies(one.ask(Transfer("B"))) == [NotLeader(None)]
    one.lead()
    assert replies(one.ask(Transfer("A"))) == [Refused("A cannot take over")]


# --- learners, groups, tasks ------------------------------------------------------------------------------------


def test_learners_neither_campaign_nor_are_asked_but_they_replicate():
    learner = One(members="ABCD", node="D", learners="D")
    assert "election" not in timers(learner.booted)
    learner.hear_append("A", 1, new=entries(1))
    assert (learner.group.leader, learner.group.log.end) == ("A", 1)
    one = One(members="ABCD", learners="D")
    assert [to for to, _ in sent(one.expire(), VoteRequest)] == ["B", "C"]
    one = One(members="ABCD", learners="D").leading()
    appends = dict(sent(one.ask(Append("k", 1)), AppendEntriesRequest))
    assert set(appends) == {"B", "C", "D"}
    assert replies(one.answer_append(("D", appends["D"]))) == []
    assert replies(one.answer_append(("C", appends["C"]))) == [Ok(1, 1, 1)]


def test_messages_of_a_group_that_is_not_here_are_passed_over():
    one = One()
    assert one.hear("B", VoteRequest("topic/7", 1, "B", 0, 0, pre_vote=False, id=1)) == []


def test_groups_are_apart_in_terms_timers_files_and_notes():
    one = One(groups=2, image={})
    first, second = one.core.groups
    assert (first.election_timer, second.election_timer) == ("topic/0:election", "topic/1:election")
    out = one.give(Message("B", VoteRequest("topic/1", 4, "B", 0, 0, pre_vote=False, id=1)))
    assert (first.term, second.term) == (0, 4)
    assert {e.data["group"] for e in out if type(e).__name__ == "Note"} == {"topic/1"}
    paths = {
        op.path.rpartition("/")[0] for e in out if type(e).__name__ == "Disk" for op in e.ops if hasattr(op, "path")
    }
    assert paths == {"topic/1"}
    assert [status.group for status in one.core.statuses(one.clocks())] == ["topic/0", "topic/1"]
    assert one.core.status(one.clocks()).group == "topic/0"


def test_a_deferred_task_starts_late_and_reads_the_term_then():
    one = One(defer_task="B:vote:800,*:prevote:50")
    out = one.expire()
    assert sent(out) == []
    assert timers(out)["tasks"] == one.now + 50 * MS
    asked = dict(sent(one.fire("tasks", after_ms=50), VoteRequest))
    one.group.flags["B"] = True
    out = one.answer_vote(("C", asked["C"]))
    assert [to for to, _ in sent(out, VoteRequest)] == ["C"]
    assert one.group.flags["B"]
    assert one.status().extra["pending_tasks"] == [{"kind": "vote", "peer": "B", "ms_left": 800}]
    late = sent(one.fire("tasks", after_ms=800), VoteRequest)
    assert [to for to, _ in late] == ["B"]
    assert not one.group.flags["B"]


def test_no_more_send_tasks_run_at_once_than_there_are_threads():
    one = One(members="ABCDE", executor_thread_num_max=2, executor_thread_num_min=1)
    out = one.expire()
    assert [to for to, _ in sent(out)] == ["B", "C"]
    assert timers(out)["tasks"] == one.now
    assert [to for to, _ in sent(one.fire("tasks"))] == ["D", "E"]


# --- disk -------------------------------------------------------------------------------------------------------


def test_status_tells_only_what_is_stored():
    one = One(term=3, slow=True)
    one.hear_vote_request("B", 4)
    status = one.status()
    assert (status.term, status.voted_for, status.role, status.leader) == (3, None, "FOLLOWER", None)
    assert one.core.glance() == ("FOLLOWER", 3, None, None, (0, 0), 0)
    one.done()
    one.done()
    assert (one.status().term, one.status().voted_for) == (4, "B")
    assert one.core.glance() == ("FOLLOWER", 4, None, "B", (0, 0), 0)


def test_a_failed_write_of_metadata_stops_the_node_and_it_stays_silent():
    one = One(term=3, slow=True)
    one.hear_vote_request("B", 4)
    out = one.done("ENOSPC")
    assert halted(out) == ["metadata file: ENOSPC"]
    assert one.hear_append("B", 9) == []


def test_a_swallowed_error_is_noted_and_what_waited_is_said_all_the_same():
    one = One(term=4, slow=True, persist_errors="swallow")
    one.hear_vote_request("B", 4)
    out = one.done("ENOSPC")
    assert names(out)[0] == "persist_failed"
    assert "persisted" not in names(out)
    assert answer(out).vote_granted
    assert halted(out) == []


def test_a_failed_write_of_the_log_stops_the_node_whatever_the_knob_says():
    one = One(term=4, slow=True, persist_errors="swallow")
    one.hear_append("B", 4)
    while one.batches:
        one.done()
    one.hear_append("B", 4, new=entries(4))
    assert halted(one.done("EIO")) == ["log file: EIO"]
