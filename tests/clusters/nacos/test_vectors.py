"""Every row of 5.2 – 5.9 and every cell of the transition table: one handler of one node in a prepared state."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos import messages as m
from dethrone.harness.core.machine import Disk, DiskDone, Note
from tests.clusters.nacos.spec import One, leading

STATES = ["FOLLOWER", "CANDIDATE", "LEADER"]


# --- 5.2 election task ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("due", "fires"), [(501, False), (500, True), (499, True), (15_000, False)])
def test_5_2_rows_2_and_3_a_due_of_exactly_zero_already_fires(due, fires):
    bench = One().put(leader_due_ms=due)
    bench.fire("election")
    assert bool(bench.sent(m.VoteRequest)) == fires
    if not fires:
        assert bench.local.leader_due_ms == due - 500


@pytest.mark.parametrize("state", STATES)
def test_5_2_the_task_runs_in_every_state(state):
    bench = One().put(leader_due_ms=500, state=state, term=3)
    bench.fire("election")
    assert (bench.local.state, bench.local.term) == ("CANDIDATE", 4)


def test_5_2_the_election_task_keeps_its_grid_and_the_beat_task_its_distance():
    bench = One()
    bench.later(20).fire("election")
    assert bench.alarms()["election"] == 500_000_000
    bench.fire("beat")
    assert bench.alarms()["beat"] == 520_000_000


def test_5_2_ticks_missed_in_a_stall_are_skipped_by_default_and_caught_up_on_as_a_burst():
    skip, burst = One(), One(late_ticks="burst")
    for bench in (skip, burst):
        bench.later(1_700).fire("election")
    assert skip.alarms()["election"] == 2_000_000_000
    assert burst.alarms()["election"] == 500_000_000


# --- 5.3 sendVote -----------------------------------------------------------------------------------------------


def test_5_3_a_campaign_forgets_all_support_raises_the_term_and_asks_all_others_with_one_snapshot():
    bench = One("n1 n2 n3 n4").put(leader_due_ms=500, term=6)
    bench.know("n2", vote_for="n2").know("n3", vote_for="n2").follow("n2", 6)
    bench.fire("election")
    peers = bench.state.peers
    assert peers.leader is None
    assert [peer.vote_for for ip, peer in peers.peers.items() if ip != "n1"] == [None] * 3
    assert (bench.local.term, bench.local.vote_for, bench.local.state) == (7, "n1", "CANDIDATE")
    requests = bench.sent(m.VoteRequest)
    assert [to for to, _ in requests] == ["n2", "n3", "n4"]
    assert {body.vote for _, body in requests} == {bench.state.record()}
    assert not [effect for effect in bench.out if isinstance(effect, Disk)]


def test_5_3_without_answers_the_next_expiry_opens_another_round_one_term_on():
    bench = One().put(leader_due_ms=500)
    bench.fire("election")
    bench.put(leader_due_ms=500)
    bench.fire("election")
    assert bench.local.term == 2
    assert bench.note("campaign") == {"vote_for": "n1"}


# --- 5.4 receivedVote -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stopped", "candidate", "text"),
    [(True, "n2", "old raft protocol already stop work"), (False, "n9", "can not find peer: n9")],
)
def test_5_4_rows_1_and_2_a_stopped_node_and_an_unknown_candidate_are_errors_and_move_nothing(stopped, candidate, text):
    bench = One()
    bench.state.stop_work = stopped
    assert bench.vote(candidate, 9) == m.CallError("vote", "illegal state", text)
    assert bench.note("vote_decision")["action"] == "error"
    assert bench.local.term == 0


@pytest.mark.parametrize("term", [2, 3])
def test_5_4_row_3_a_term_that_is_not_larger_is_refused_with_the_old_vote(term):
    bench = One().put(term=3, vote_for="n3", leader_due_ms=777)
    answer = bench.vote("n2", term)
    assert answer == m.VoteAnswer(m.RaftPeer("n1", "n3", 3, 777, bench.local.heartbeat_due_ms))
    assert bench.local.leader_due_ms == 777
    assert bench.note("vote_decision") == {
        "candidate": "n2",
        "candidate_term": term,
        "own_term": 3,
        "action": "refuse",
        "vote_for": "n3",
    }
    assert not bench.notes("relabel")


def test_5_4_row_3_an_empty_vote_becomes_a_label_for_oneself():
    bench = One().put(term=3)
    assert bench.vote("n2", 3).peer.vote_for == "n1"
    assert bench.note("relabel") == {"was": None, "vote_for": "n1", "cause": "refusal"}


@pytest.mark.parametrize("state", STATES)
def test_5_4_row_4_a_larger_term_is_adopted_with_its_candidate_in_every_state(state):
    bench = One().put(term=3, vote_for="n3", state=state, leader_due_ms=1).follow("n1", 3)
    answer = bench.vote("n2", 4).peer
    assert (answer.term, answer.vote_for, answer.state) == (4, "n2", "FOLLOWER")
    assert 15_000 <= bench.local.leader_due_ms < 20_000
    assert bench.state.peers.leader_ip == "n1"  # not touched: the deposed leader still names itself
    assert bench.note("vote_decision")["action"] == "grant"
    assert bool(bench.notes("step_down")) == (state == "LEADER")


# --- 5.5 decideLeader -------------------------------------------------------------------------------------------


def test_5_5_step_1_the_answer_replaces_the_record():
    bench = One()
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", None, 8, 5, 6, "CANDIDATE")))
    assert bench.state.peers.peers["n2"].record() == m.RaftPeer("n2", None, 8, 5, 6, "CANDIDATE")


def test_5_5_step_2_all_records_with_a_vote_are_counted_whatever_their_term():
    bench = One("n1 n2 n3 n4 n5").put(term=2, vote_for="n4").know("n3", term=9, vote_for="n4")
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n1", 1)))
    assert bench.note("tally") == {
        "counts": {"n1": 1, "n4": 2},
        "best": 2,
        "majority": 3,
        "winner": None,
        "terms": {"n1": 2, "n2": 1, "n3": 9},
    }


def test_5_5_step_2_the_first_to_get_strictly_ahead_wins_a_tie():
    bench = One("n1 n2").put(vote_for="n1")
    peers = bench.state.peers
    peers.peers["n3"] = type(peers.local)("n3")
    peers.peers["n3"].vote_for = "n1"
    peers.peers["n4"] = type(peers.local)("n4")
    peers.peers["n4"].vote_for = "n2"
    decision = peers.decide_leader(m.RaftPeer("n2", "n2", 1), counts=lambda _: True, wins=lambda best, _: best >= 3)
    assert (decision.best, decision.counts) == (2, {"n1": 2, "n2": 2})
    assert peers.leader is None


def test_5_5_step_3_a_majority_makes_a_leader_and_says_so_once():
    bench = One("n1 n2 n3 n4 n5").put(leader_due_ms=500)
    bench.fire("election")
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n1", 1)))
    assert bench.local.state == "CANDIDATE"
    bench.tell("n3", m.VoteAnswer(m.RaftPeer("n3", "n1", 1)))
    assert bench.local.state == "LEADER"
    assert bench.note("elected")["voters"] == ["n1", "n2", "n3"]
    assert bench.note("leader_set") == {"leader": "n1", "cause": "decide", "own_term": 1}
    bench.tell("n4", m.VoteAnswer(m.RaftPeer("n4", "n1", 1)))
    assert not bench.notes("elected")
    assert not bench.notes("leader_set")


def test_5_5_a_third_node_can_be_promoted_and_that_is_no_election():
    bench = One().put(vote_for="n3")
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n3", 4)))
    assert bench.state.peers.peers["n3"].state == "LEADER"
    assert bench.note("leader_set")["leader"] == "n3"
    assert not bench.notes("elected")
    assert bench.local.state == "FOLLOWER"


def test_5_5_a_follower_can_promote_itself():
    bench = One().put(term=2, vote_for="n3").know("n3", vote_for="n1", term=1)
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n1", 1)))
    assert (bench.local.state, bench.local.term, bench.local.vote_for) == ("LEADER", 2, "n3")
    assert bench.note("elected") == {
        "voters": ["n2", "n3"],
        "terms": {"n2": 1, "n3": 1},
        "counts": {"n1": 2, "n3": 1},
        "majority": 2,
    }


def test_5_5_a_majority_for_an_unknown_peer_promotes_nobody():
    bench = One().put(vote_for="n9")
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n9", 1)))
    assert bench.state.peers.leader is None
    assert bench.note("tally")["winner"] is None


def test_5_5_a_cluster_of_one_never_elects_because_nobody_answers():
    bench = One("n1").put(leader_due_ms=500)
    bench.fire("election")
    assert bench.local.state == "CANDIDATE"
    assert not bench.notes("elected")


# --- 5.6 beat task ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_5_6_only_a_leader_beats_and_the_due_is_reset_in_any_state(state):
    bench = One().put(state=state, heartbeat_due_ms=500, leader_due_ms=1)
    bench.fire("beat")
    assert bench.local.heartbeat_due_ms == 5_000
    assert bool(bench.sent(m.BeatRequest)) == (state == "LEADER")
    assert (bench.local.leader_due_ms >= 15_000) == (state == "LEADER")


def test_5_6_with_send_beat_only_the_list_is_empty_and_nobody_deletes_by_it():
    bench = leading(send_beat_only="true").put(heartbeat_due_ms=500)
    bench.state.items.put(m.Datum("x", 1, 3))
    bench.fire("beat")
    assert bench.sent(m.BeatRequest)[0][1].datums == ()
    bench.beat("n2", 5)
    assert "x" in bench.state.items


def test_5_6_a_good_answer_renews_the_record_and_a_failure_is_only_counted():
    bench = leading()
    bench.tell("n2", m.BeatAnswer(m.RaftPeer("n2", "n3", 4)))
    assert bench.state.peers.peers["n2"].term == 4
    before = bench.state.record()
    bench.tell("n3", m.CallError("beat", "illegal argument", "out of date beat"))
    bench.fail("n2", m.BeatRequest(before))
    assert bench.state.record() == before
    assert bench.state.counters["beat_failures"] == 2


def test_5_6_the_first_beat_leaves_five_seconds_after_the_campaign():
    bench = One().put(leader_due_ms=500)
    bench.fire("election")
    bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n1", 1)))
    ticks = 0
    while not bench.sent(m.BeatRequest):
        bench.fire("beat")
        ticks += 1
    assert ticks == 10


# --- 5.7 receivedBeat -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stopped", "state", "code", "kind", "text"),
    [
        (True, "LEADER", "stop_work", "illegal state", "old raft protocol already stop work"),
        (False, "FOLLOWER", "not_leader", "illegal argument", "invalid state from master, state: FOLLOWER"),
        (False, "CANDIDATE", "not_leader", "illegal argument", "invalid state from master, state: CANDIDATE"),
        (
            *(False, "LEADER", "out_of_date", "illegal argument"),
            "out of date beat, beat-from-term: 5, beat-to-term: 6",
        ),
    ],
)
def test_5_7_rows_1_to_3_a_beat_is_refused(stopped, state, code, kind, text):
    bench = One().put(term=6)
    bench.state.stop_work = stopped
    assert bench.beat("n2", 5, state=state) == m.CallError("beat", kind, text)
    assert bench.note("beat_decision")["code"] == code
    assert bench.state.peers.leader is None


@pytest.mark.parametrize("state", ["CANDIDATE", "LEADER"])
def test_5_7_row_4_whoever_is_no_follower_becomes_one_and_is_labelled_with_the_sender(state):
    bench = One().put(state=state, term=5, vote_for="n1")
    answer = bench.beat("n2", 5).peer
    assert (answer.state, answer.vote_for) == ("FOLLOWER", "n2")
    assert bench.note("relabel") == {"was": "n1", "vote_for": "n2", "cause": "beat"}


def test_5_7_row_4_a_follower_keeps_its_vote():
    bench = One().put(vote_for="n3")
    assert bench.beat("n2", 5).peer.vote_for == "n3"
    assert not bench.notes("relabel")


def test_5_7_rows_5_6_and_8_dues_are_reset_the_sender_leads_and_the_own_record_is_the_answer():
    bench = One().put(leader_due_ms=1, heartbeat_due_ms=1)
    answer = bench.beat("n2", 5)
    assert answer == m.BeatAnswer(bench.state.record())
    assert bench.local.leader_due_ms >= 15_000
    assert bench.local.heartbeat_due_ms == 5_000
    assert bench.state.peers.leader_ip == "n2"
    assert bench.local.term == 0  # the term is NOT raised


def test_5_7_row_7_what_is_newer_is_fetched_and_what_is_absent_is_deleted():
    bench = One()
    for key, timestamp in [("same", 3), ("older", 3), ("newer", 3), ("gone", 3)]:
        bench.state.items.put(m.Datum(key, 1, timestamp))
    stamps = [m.DatumStamp("same", 3), m.DatumStamp("older", 4), m.DatumStamp("newer", 2), m.DatumStamp("new", 1)]
    bench.beat("n2", 5, *stamps)
    assert bench.sent(m.DatumFetch) == [("n2", m.DatumFetch(("older", "new"), 5))]
    assert [note.data["key"] for note in bench.notes("data_deleted")] == ["gone"]
    assert sorted(bench.state.items.keys()) == ["newer", "older", "same"]


@pytest.mark.parametrize(("count", "batches"), [(50, [50]), (51, [50, 1]), (120, [50, 50, 20])])
def test_5_7_row_7_items_are_fetched_in_batches_of_fifty(count, batches):
    bench = One()
    bench.beat("n2", 5, *(m.DatumStamp(f"k{i}", 1) for i in range(count)))
    assert [len(body.keys) for _, body in bench.sent(m.DatumFetch)] == batches


def test_5_7_row_7_fetched_items_are_stored_if_still_newer_and_move_the_term():
    bench = One().follow("n2", 5)
    bench.state.items.put(m.Datum("x", "mine", 9))
    bench.tell("n2", m.FetchAnswer((m.Datum("x", "old", 8), m.Datum("y", "new", 1), m.Datum("z", None, 1)), 5))
    assert bench.state.items.read("x") == "mine"
    assert bench.state.items.read("y") == "new"
    assert "z" not in bench.state.items
    assert bench.local.term == 5
    assert bench.state.meta.term == 5
    assert bench.local.leader_due_ms >= 15_000


def test_5_7_row_7_the_term_moves_by_at_most_a_hundred_an_item():
    bench = One().follow("n2", 250)
    bench.tell("n2", m.FetchAnswer((m.Datum("x", 1, 1),), 250))
    assert bench.local.term == 100
    bench.tell("n2", m.FetchAnswer((m.Datum("y", 1, 1), m.Datum("z", 1, 1)), 250))
    assert bench.local.term == 250


def test_5_7_row_7_a_late_fetch_can_even_lower_the_term_and_the_safe_knobs_forbid_it():
    late = m.FetchAnswer((m.Datum("x", 1, 1),), 5)
    for settings, term in [({}, 5), ({"persist_vote": "true"}, 9), ({"beat_raises_term": "true"}, 9)]:
        bench = One(**settings).follow("n2", 5).put(term=9)
        bench.tell("n2", late)
        assert bench.local.term == term


def test_5_7_row_7_is_switched_off_by_beat_data():
    bench = One(beat_data="false")
    bench.state.items.put(m.Datum("x", 1, 1))
    bench.beat("n2", 5, m.DatumStamp("y", 1))
    assert not bench.sent(m.DatumFetch)
    assert "x" in bench.state.items


# --- 5.8 makeLeader ---------------------------------------------------------------------------------------------


def test_5_8_a_new_leader_is_noted_once_and_its_record_kept():
    bench = One()
    bench.beat("n2", 5)
    assert bench.note("leader_set") == {"leader": "n2", "cause": "beat", "own_term": 0}
    assert bench.note("leader_seen") == {"leader": "n2", "leader_term": 5}
    assert bench.state.peers.peers["n2"].state == "LEADER"
    bench.beat("n2", 5)
    assert not bench.notes("leader_set")


def test_5_8_other_leaders_are_asked_for_their_present_record():
    bench = One("n1 n2 n3 n4").know("n3", state="LEADER").know("n4", state="CANDIDATE")
    bench.beat("n2", 5)
    assert bench.sent(m.PeerRequest) == [("n3", m.PeerRequest())]
    bench.tell("n3", m.PeerAnswer(m.RaftPeer("n3", "n2", 5)))
    assert bench.state.peers.peers["n3"].record() == m.RaftPeer("n3", "n2", 5)


def test_5_8_a_refused_call_makes_a_follower_and_a_transport_error_changes_nothing():
    bench = One().know("n3", state="LEADER")
    bench.fail("n3", m.PeerRequest())
    assert bench.state.peers.peers["n3"].state == "LEADER"
    bench.tell("n3", m.CallError("peer", "illegal state", "not there"))
    assert bench.state.peers.peers["n3"].state == "FOLLOWER"


def test_5_8_a_node_tells_its_own_record_when_asked():
    bench = One().put(term=4, state="LEADER", vote_for="n1")
    assert bench.ask("n2", m.PeerRequest()) == m.PeerAnswer(bench.state.record())


# --- 5.10 transition table --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("event", "becomes", "term"),
    [
        ("due", "CANDIDATE", 6),
        ("higher vote", "FOLLOWER", 9),
        ("equal vote", None, 5),
        ("majority", "LEADER", 5),
        ("beat", "FOLLOWER", 5),
    ],
)
def test_5_10_every_cell_of_the_transition_table(state, event, becomes, term):
    bench = One().put(state=state, term=5, vote_for="n1", leader_due_ms=9_000)
    if event == "due":
        bench.put(leader_due_ms=500).fire("election")
    elif event == "higher vote":
        bench.vote("n2", 9)
    elif event == "equal vote":
        bench.vote("n2", 5)
    elif event == "majority":
        bench.tell("n2", m.VoteAnswer(m.RaftPeer("n2", "n1", 5)))
    else:
        bench.beat("n2", 5)
    assert (bench.local.state, bench.local.term) == (becomes or state, term)


# --- the end of the work ----------------------------------------------------------------------------------------


def test_the_version_switch_stops_both_tasks_forgets_everything_and_removes_the_files():
    bench = leading(version_switch_ms="60000")
    assert [effect.at for effect in bench.booted if getattr(effect, "name", "") == "version_switch"] == [60_000_000_000]
    bench.client(client_api.Put("x", 7), 1)
    bench.later(60_000).fire("version_switch")
    assert {name: bench.alarms()[name] for name in ("election", "beat")} == {"election": None, "beat": None}
    assert isinstance(bench.reply(1), client_api.Unknown)
    (disk,) = [effect for effect in bench.out if isinstance(effect, Disk)]
    assert [op.path for op in disk.ops] == ["data/naming/data/public/x", "data/naming/data/meta.properties"]
    status = bench.core.status(bench.clocks())
    assert (status.role, status.term, status.leader, status.log_end.index) == ("FOLLOWER", 0, None, 0)
    assert status.extra["stop_work"] is True
    assert bench.fire("election") == []
    assert bench.fire("beat") == []
    assert isinstance(bench.vote("n2", 9), m.CallError)
    assert isinstance(bench.ask("n2", m.DatumDelete("x", m.RaftPeer("n2"))), m.CallError)
    assert isinstance(bench.client(client_api.Put("x", 7), 2), client_api.Refused)
    for late in (m.VoteAnswer, m.BeatAnswer, m.PeerAnswer):
        bench.tell("n2", late(m.RaftPeer("n2", "n1", 1)))
    bench.tell("n2", m.FetchAnswer((m.Datum("y", 1, 1),), 1))
    assert bench.core.status(bench.clocks()) == status


def test_a_disk_error_is_noted_and_stops_the_node():
    bench = leading()
    bench.client(client_api.Put("x", 7))
    (disk,) = [effect for effect in bench.out if isinstance(effect, Disk)]
    bench.give(DiskDone(disk.token, "no space left on device"))
    assert bench.note("persist_failed") == {"error": "no space left on device"}
    assert "no space left" in (bench.halted() or "")
    assert bench.fire("election") == []


def test_notes_carry_the_term_and_role_of_their_moment():
    bench = One().put(leader_due_ms=500, term=4)
    bench.fire("election")
    terms = [(note.name, note.term, note.role) for note in bench.out if isinstance(note, Note)]
    assert terms == [
        ("leader_due", 4, "FOLLOWER"),
        ("term_change", 5, "FOLLOWER"),
        ("state_change", 5, "CANDIDATE"),
        ("role_change", 5, "CANDIDATE"),
        ("campaign", 5, "CANDIDATE"),
    ]
