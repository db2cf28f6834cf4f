"""Elections: raft.md 5.1-5.4 and 5.6, stickiness of raft-ext 3, one vector a row."""

import pytest

from dethrone.clusters.targets.raft.messages import AppendReply, RequestVote, VoteReply
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Note, Send
from tests.clusters.raft.spec import One, disk, heartbeat, paper
from tests.world.effects import answer, halted, names, note, sent, timers


def request(term, candidate="B", index=0, last_term=0, **more):
    return RequestVote(term, candidate, index, last_term, **more)


# --- granting: 5.4 ----------------------------------------------------------------------------------------------


def test_row_1_a_lower_term_is_refused_with_the_own_term():
    one = paper(term=5)
    out = one.hear("B", request(4))
    assert answer(out) == VoteReply(5, False, "lower_term")
    assert note(out, "vote_decision")["rule"] == 1


def test_row_2_a_second_candidate_of_the_term_is_refused():
    out = paper(term=5, voted_for="C").hear("B", request(5))
    assert answer(out) == VoteReply(5, False, "voted")
    assert note(out, "vote_decision")["rule"] == 2


@pytest.mark.parametrize(
    ("index", "last_term", "granted"),
    [(1, 3, False), (2, 2, False), (9, 2, False), (2, 3, True), (3, 3, True), (1, 4, True)],
)
def test_row_3_an_older_log_is_refused_terms_before_indexes(index, last_term, granted):
    out = paper(term=3, log=(1, 3)).hear("B", request(4, "B", index, last_term))
    assert answer(out) == VoteReply(4, granted, "" if granted else "log")


def test_row_3_is_the_knob_log_check():
    assert answer(paper(term=3, log=(3,), log_check="off").hear("B", request(4))).vote_granted


def test_row_4_a_vote_is_on_disk_before_its_answer_and_resets_the_deadline():
    one = paper(term=3)
    one.now += 100 * MS
    out = one.hear("B", request(4))
    kinds = [type(e) for e in out]
    assert kinds.index(Disk) < kinds.index(Await) < kinds.index(Note) < kinds.index(Send)
    assert answer(out).vote_granted
    assert one.node.reset_at == one.now
    assert (one.node.term, one.node.voted_for) == (4, "B")
    assert note(out, "persisted") == {"term": 4, "voted_for": "B"}


def test_one_event_makes_one_vote_write_though_term_and_vote_change():
    assert len([e for e in paper(term=1).hear("B", request(9)) if type(e) is Disk]) == 1


def test_a_refusal_leaves_the_deadline_alone():
    one = paper(term=5, voted_for="C")
    before = one.node.reset_at
    one.hear("B", request(5), after_ms=50)
    one.hear("B", request(4), after_ms=1)
    assert one.node.reset_at == before


def test_the_same_candidate_is_granted_again_without_another_write():
    one = paper(term=3)
    one.hear("B", request(4))
    out = one.hear("B", request(4))
    assert answer(out).vote_granted
    assert not [e for e in out if type(e) is Disk]


def test_a_higher_term_is_adopted_also_where_the_vote_is_refused():
    one = paper(term=3, log=(3,))
    out = one.hear("B", request(7))
    assert answer(out) == VoteReply(7, False, "log")
    assert (one.node.term, one.node.voted_for, one.node.role) == (7, None, "FOLLOWER")
    assert note(out, "term_change") == {"from": 3, "to": 7, "why": "request_vote"}


def test_a_candidate_refuses_others_in_its_own_term():
    one = paper().standing()
    assert answer(one.hear("B", request(1))) == VoteReply(1, False, "voted")


def test_persist_off_writes_nothing():
    one = paper(persist="off")
    assert not [e for e in one.hear("B", request(4)) if type(e) is Disk]
    assert one.node.voted_for == "B"


# --- a campaign: 5.3 --------------------------------------------------------------------------------------------


def test_a_passed_deadline_opens_a_campaign_with_the_own_vote_first_and_on_disk():
    one = paper(term=2, log=(2, 2))
    out = one.time_out()
    assert (one.node.term, one.node.role, one.node.voted_for) == (3, "CANDIDATE", "A")
    assert sent(out) == [(peer, RequestVote(3, "A", 2, 2)) for peer in "BC"]
    kinds = [type(e) for e in out]
    assert kinds.index(Disk) < kinds.index(Await) < kinds.index(Send)
    assert note(out, "election_started") == {"term": 3, "log": (2, 2)}


def test_the_deadline_is_drawn_between_its_bounds_and_anew_at_each_reset():
    one = paper()
    seen = set()
    for _ in range(200):
        timeout = one.node.rules.deadline(one.rng)
        assert 150 * MS <= timeout <= 300 * MS
        seen.add(timeout)
    assert len(seen) > 190


def test_the_draw_waits_for_the_shortest_timeout_and_is_counted_from_the_reset():
    one = paper()
    start = one.node.reset_at
    out = one.fire("election", after_ms=149)
    assert timers(out)["election"] == start + 150 * MS
    assert one.node.deadline is None
    one.now = start + 150 * MS
    one.fire("election")
    assert start + 150 * MS <= one.node.deadline <= start + 300 * MS


def test_requests_are_repeated_to_those_who_have_not_answered():
    one = paper(members="ABCDE").standing()
    one.hear("B", VoteReply(1, False, "log"))
    assert [to for to, _ in sent(one.fire("retry", after_ms=50))] == ["C", "D", "E"]


def test_a_candidate_whose_deadline_passes_opens_a_new_term():
    one = paper().standing()
    one.time_out()
    assert one.node.term == 2


def test_retry_same_term_asks_again_in_the_same_term():
    one = paper(retry_same_term="on").standing()
    out = one.time_out()
    assert one.node.term == 1
    assert [body.term for _, body in sent(out)] == [1, 1]


def test_a_node_alone_leads_when_its_own_vote_is_on_disk_and_not_before():
    one = One(members="A", slow=True).standing()
    assert one.node.role == "CANDIDATE"
    one.done()
    assert one.node.role == "LEADER"


# --- counting ---------------------------------------------------------------------------------------------------


def test_a_majority_of_votes_elects_and_the_event_names_the_voters():
    one = paper(members="ABCDE").standing()
    assert one.hear("B", VoteReply(1, True))
    assert one.node.role == "CANDIDATE"
    out = one.hear("D", VoteReply(1, True))
    assert one.node.role == "LEADER"
    assert note(out, "elected")["voters"] == ["A", "B", "D"]
    assert note(out, "elected")["config"]["voters"] == list("ABCDE")


@pytest.mark.parametrize(("members", "needed"), [("AB", 1), ("ABC", 1), ("ABCD", 2), ("ABCDE", 2)])
def test_the_winning_count_is_half_rounded_down_plus_one(members, needed):
    one = paper(members=members).standing()
    for count, voter in enumerate(members[1 : needed + 1], start=1):
        assert one.node.role == "CANDIDATE"
        one.hear(voter, VoteReply(1, True))
        assert (one.node.role == "LEADER") == (count == needed)


@pytest.mark.parametrize(
    "reply", [("B", VoteReply(0, True)), ("B", VoteReply(1, False, "log")), ("X", VoteReply(1, True))]
)
def test_older_refused_and_foreign_votes_do_not_count(reply):
    one = paper().standing()
    one.hear(*reply)
    assert one.node.role == "CANDIDATE"


def test_the_same_voter_counts_once():
    one = paper(members="ABCDE").standing()
    one.hear("B", VoteReply(1, True))
    one.hear("B", VoteReply(1, True))
    assert one.node.role == "CANDIDATE"


def test_a_higher_term_in_an_answer_ends_the_campaign():
    one = paper().standing()
    out = one.hear("B", VoteReply(8, False, "lower_term"))
    assert (one.node.role, one.node.term, one.node.voted_for) == ("FOLLOWER", 8, None)
    assert "term_change" in names(out)


def test_votes_of_the_last_campaign_do_not_help_the_next():
    one = paper(members="ABCDE").standing()
    one.hear("B", VoteReply(1, True))
    one.time_out()
    one.hear("C", VoteReply(2, True))
    assert one.node.role == "CANDIDATE"


def test_a_new_leader_sends_heartbeats_at_once():
    one = paper()
    out = one.lead(votes="B")
    assert [to for to, body in sent(out) if not body.entries] == ["B", "C"]
    assert timers(out)["heartbeat"] == one.now + 50 * MS
    assert timers(out)["election"] is None


def test_with_noop_the_first_entry_of_a_term_is_blank():
    one = One(term=1, log=(1,))
    out = one.lead(votes="B")
    assert note(out, "noop") == {"index": 2}
    assert [entry.term for _, body in sent(out) for entry in body.entries] == [2, 2]


# --- candidates and leaders hear others ---------------------------------------------------------------------------


@pytest.mark.parametrize("term", [1, 2])
def test_a_candidate_follows_a_leader_of_its_term_or_a_higher_one(term):
    one = paper().standing()
    one.hear("B", heartbeat("B", term))
    assert (one.node.role, one.node.leader, one.node.term) == ("FOLLOWER", "B", term)


def test_a_candidate_refuses_a_leader_of_a_lower_term_aloud():
    one = paper(term=4).standing()
    assert answer(one.hear("B", heartbeat("B", 4))) == AppendReply(5, False, 0, 0, 1)
    assert one.node.role == "CANDIDATE"


def test_a_leader_that_hears_another_of_its_term_reports_a_violation():
    one = paper().leading()
    assert "violation" in names(one.hear("B", heartbeat("B", 1)))


def test_a_leader_steps_down_for_a_higher_term():
    one = paper().leading()
    out = one.hear("B", heartbeat("B", 5))
    assert (one.node.role, one.node.term, one.node.leader) == ("FOLLOWER", 5, "B")
    assert note(out, "step_down")["why"] == "higher_term"
    assert timers(out)["heartbeat"] is None


# --- stickiness: raft-ext 3 -------------------------------------------------------------------------------------


def test_a_node_that_hears_a_leader_ignores_vote_requests_without_adopting_their_term():
    one = One(term=3).following("B")
    before = one.node.reset_at
    out = one.hear("C", request(9, "C"), after_ms=149)
    assert answer(out) == VoteReply(3, False, "sticky")
    assert (one.node.term, one.node.reset_at) == (3, before)
    assert note(out, "vote_ignored") == {"candidate": "C", "term": 9, "sticky": True}


def test_stickiness_ends_after_the_sticky_window():
    one = One(term=3).following("B")
    assert answer(one.hear("C", request(9, "C"), after_ms=150)).vote_granted


def test_a_leader_is_sticky_too():
    one = One().leading()
    assert answer(one.hear("C", request(9, "C"))) == VoteReply(1, False, "sticky")


def test_force_passes_stickiness_and_nothing_else():
    one = One(term=3, log=(3,)).following("B")
    assert answer(one.hear("C", request(9, "C", 1, 3, force=True))).vote_granted
    one = One(term=3, log=(3,)).following("B")
    assert answer(one.hear("C", request(9, "C", 0, 0, force=True))) == VoteReply(9, False, "log")


def test_row_1_comes_before_stickiness():
    one = One(term=3).following("B")
    assert answer(one.hear("C", request(2, "C"))).reason == "lower_term"


def test_without_the_knob_nobody_is_sticky():
    one = paper(term=3).following("B")
    assert answer(one.hear("C", request(9, "C"))).vote_granted


def test_after_a_start_with_holdoff_a_node_neither_votes_nor_campaigns_for_the_shortest_timeout():
    one = One(reads="lease")
    assert answer(one.hear("B", request(9))) == VoteReply(0, False, "sticky")
    assert answer(one.hear("B", request(9, force=True))).vote_granted is False
    assert answer(one.hear("B", request(9), after_ms=150)).vote_granted


# --- the disk fails ---------------------------------------------------------------------------------------------


def test_a_failed_vote_write_stops_the_node():
    one = paper(slow=True)
    one.hear("B", request(4))
    out = one.done("disk full")
    assert halted(out)
    assert note(out, "persist_failed") == {"file": "vote", "error": "disk full"}
    assert one.hear("C", request(5)) == []


def test_status_shows_no_term_that_a_crash_could_take_back():
    one = paper(term=3, slow=True)
    one.hear("B", request(4))
    status = one.status()
    assert (status.term, status.voted_for, status.role) == (3, None, "FOLLOWER")
    one.done()
    assert (one.status().term, one.status().voted_for) == (4, "B")


def test_a_missing_vote_file_starts_from_the_terms_that_the_log_proves():
    image = disk(3, "B", (1, 3))
    del image["vote"]
    node = One(image=image).node
    assert (node.term, node.voted_for) == (3, None)
