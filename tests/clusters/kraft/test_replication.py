"""Fetches: the ten rows of the table, divergence and truncation, the high watermark, leaders and clients."""

import pytest

from dethrone.clusters.targets.client_api import (
    Acquire,
    Append,
    Cas,
    Get,
    NotLeader,
    Ok,
    Put,
    Refused,
    Transfer,
    Unknown,
)
from dethrone.clusters.targets.client_api import Failed as FailedReply
from dethrone.clusters.targets.kraft.leader import become_leader
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    LeaderChange,
)
from dethrone.clusters.targets.kraft.node import IllegalTransition
from dethrone.clusters.targets.kraft.transitions import become_follower, become_unattached, become_voted
from dethrone.harness.core.clock import MS
from tests.clusters.kraft.spec import CLUSTER, NO, A, B, C, One, begin, change, disk, records, refused
from tests.world.effects import answer, halted, names, note, replies, sent


def leading(*, log=(), votes="B", epoch=3, **more):
    """Node A leads the next epoch, with the record of its election on its disk."""
    one = One(disk(epoch, log=log), **more)
    one.lead(votes=votes)
    return one


def following(*, log=(), epoch=3, **more):
    one = One(disk(epoch, leader=B, log=log), **more)
    assert one.node.state == "Follower"
    return one


def fetch(replica=B, *, epoch=4, offset=0, last=0, cluster=CLUSTER, wait=0):
    return FetchRequest(9, replica, cluster, wait, epoch, offset, last)


# --- the rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (fetch(cluster="other"), "INCONSISTENT_CLUSTER_ID"),
        (fetch(wait=-1), "INVALID_REQUEST"),
        (fetch(offset=-1), "INVALID_REQUEST"),
        (fetch(last=-1), "INVALID_REQUEST"),
        (fetch(last=5), "INVALID_REQUEST"),
        (fetch(epoch=3), "FENCED_LEADER_EPOCH"),
        (fetch(epoch=5), "UNKNOWN_LEADER_EPOCH"),
    ],
)
def test_rows_1_to_4_refuse_and_name_epoch_and_leader(request_, code):
    one = leading()
    made = answer(one.hear("B", request_))
    assert (made.error_code, made.records) == (code, ())
    assert (made.current_leader.leader_id, made.current_leader.leader_epoch) == (A, 4)
    assert one.node.leading.voters[B].end == -1
    assert made.correlation_id == 9


@pytest.mark.parametrize(
    ("image", "leader"), [(disk(4), NO), (disk(4, leader=C), C), (disk(4, voted=B), NO), (disk(4, leader=A), A)]
)
def test_row_5_who_does_not_lead_says_who_does(image, leader):
    made = answer(One(image).hear("B", fetch()), FetchResponse)
    assert (made.error_code, made.current_leader.leader_id) == ("NOT_LEADER_OR_FOLLOWER", leader)


def test_row_6_a_leader_that_shuts_down_is_not_available():
    one = leading()
    one.node.shutting_down = True
    assert answer(one.hear("B", fetch())).error_code == "BROKER_NOT_AVAILABLE"


def test_row_7_the_very_beginning_is_always_valid():
    one = leading(log=(1, 2))
    made = answer(one.fetched("B", 0))
    assert [record.epoch for record in made.records] == [1, 2, 4]
    assert one.node.leading.voters[B].end == 0


@pytest.mark.parametrize(
    ("offset", "last", "diverging"),
    [
        (2, 2, None),
        (3, 2, (2, 2)),
        (5, 3, (2, 2)),
        (1, 1, None),
        (2, 1, (1, 1)),
        (1, 2, None),
        (3, 4, None),
        (4, 4, (4, 3)),
    ],
)
def test_row_9_a_place_that_is_not_on_the_leaders_log_is_told_where_to_cut(offset, last, diverging):
    one = leading(log=(1, 2))
    out = one.fetched("B", offset, last_epoch=last)
    made = answer(out)
    assert made.error_code == "NONE"
    if diverging is None:
        assert made.diverging_epoch is None
        assert one.node.leading.voters[B].end == offset
    else:
        assert made.diverging_epoch == EpochEnd(*diverging)
        assert made.records == ()
        assert one.node.leading.voters[B].end == -1
        assert note(out, "diverging")["end"] == diverging[1]


def test_row_9_nothing_in_common_means_cut_everything():
    one = leading(log=(2,))
    assert answer(one.fetched("B", 2, last_epoch=1)).diverging_epoch == EpochEnd(0, 0)


def test_row_10_an_empty_fetch_is_parked_until_there_is_something_or_its_time_is_over():
    one = leading()
    assert sent(one.fetched("B", 1, wait=500)) == []
    assert sent(one.fire("parked", after_ms=499)) == []
    made = answer(one.fire("parked", after_ms=1))
    assert (made.records, made.high_watermark) == ((), 1)
    one.fetched("B", 1, wait=500, correlation=10)
    one.ask(Append("k", 7))
    made = answer(one.fire("linger", after_ms=25))
    assert (made.correlation_id, len(made.records)) == (10, 1)


def test_records_of_one_answer_are_bounded():
    one = leading(log=(1, 1, 1, 1), max_records_per_fetch=2)
    assert [record.offset for record in answer(one.fetched("B", 1)).records] == [1, 2]


def test_parked_fetches_are_refused_when_the_leader_stops_to_lead():
    one = leading()
    one.fetched("B", 1, wait=500)
    made = answer(one.hear("C", refused(9, leader=C)), FetchResponse)
    assert (made.error_code, made.current_leader.leader_id) == ("NOT_LEADER_OR_FOLLOWER", C)


# --- the high watermark ---------------------------------------------------------------------------------------------


def test_the_worked_example():
    one = leading(log=(1, 1, 1, 1))
    lead = one.node.leading
    assert lead.epoch_start == 4
    assert one.node.log.end == 5
    assert [lead.voters[v].end for v in (A, B, C)] == [5, -1, -1]
    assert (one.status().hw, one.status().commit) == (None, 0)
    made = answer(one.fetched("B", 2))
    assert [lead.voters[v].end for v in (A, B, C)] == [5, 2, -1]
    assert (one.status().hw, len(made.records)) == (None, 3)
    made = answer(one.fetched("B", 5))
    assert [lead.voters[v].end for v in (A, B, C)] == [5, 5, -1]
    assert (one.status().hw, made.high_watermark) == (5, 5)
    follower = following(log=(1, 1))
    follower.follow(B, epoch=4)
    follower.answered([*records(1, 1, first=2), change(4, 4)], hw=-1)
    assert follower.status().commit == 0
    follower.answered(hw=5)
    assert follower.status().commit == 5


def test_a_leader_counts_itself_only_when_its_own_disk_is_done():
    one = One(disk(3))
    one.slow = True
    one.lead(votes="B")
    for _ in range(2):
        one.done()  # the candidacy and the leadership
    one.fetched("B", 1)
    assert one.status().hw is None
    one.done()
    assert one.status().hw == 1


def test_observers_are_kept_apart_and_do_not_commit():
    one = leading(members="ABCD", observers="D")
    one.fetched("D", 1)
    assert one.status().hw is None
    assert list(one.node.leading.observers) == [4]
    assert set(one.node.leading.voters) == {A, B, C}


@pytest.mark.parametrize(("size", "ends", "hw"), [(4, [9, 9, 8, 7], 8), (5, [9, 9, 8, 7, 7], 8), (2, [9, 8], 8)])
def test_the_majority_offset_is_what_more_than_half_hold(size, ends, hw):
    one = One()
    assert one.node.rules.majority_offset(ends) == hw
    assert len(ends) == size


def test_a_voter_that_lost_what_it_held_is_said_and_nothing_goes_back():
    one = leading(log=(1, 1))
    one.fetched("B", 3)
    assert one.status().hw == 3
    assert "violation" not in names(one.fetched("B", 2))  # may_advance: not of this epoch
    one.node.leading.epoch_start = 0
    assert "violation" in names(one.fetched("B", 1))
    assert one.status().hw == 3


# --- the follower ---------------------------------------------------------------------------------------------------


def test_a_follower_fetches_again_at_once_from_its_new_end_once_that_is_on_disk():
    one = following(log=(1,))
    one.slow = True
    out = one.answered([change(3, 1)])
    kinds = [type(effect).__name__ for effect in out]
    assert kinds.index("Disk") < kinds.index("Await") < kinds.index("Send")
    request = answer(out)
    assert (request.fetch_offset, request.last_fetched_epoch, request.current_leader_epoch) == (2, 3, 3)


def test_every_successful_answer_restarts_the_fetch_timer_and_no_other_does():
    one = following()
    one.answered(after_ms=700)
    assert one.node.fetch_at == one.now + 2000 * MS
    before = one.node.fetch_at
    one.answered(code="NOT_LEADER_OR_FOLLOWER", after_ms=700)
    assert one.node.fetch_at == before


def test_after_a_refusal_it_fetches_again_after_the_retry_back_off():
    one = following()
    assert sent(one.answered(code="NOT_LEADER_OR_FOLLOWER")) == []
    assert sent(one.fire("requests", after_ms=19)) == []
    assert len(sent(one.fire("requests", after_ms=1), FetchRequest)) == 1


@pytest.mark.parametrize(
    ("own", "told", "left"),
    [
        ((1, 1, 2, 2), (2, 3), 3),
        ((1, 1, 2, 2), (2, 9), 4),
        ((1, 1, 3, 3), (2, 5), 2),
        ((1, 1, 3, 3), (1, 1), 1),
        ((2, 2), (1, 4), 0),
        ((2, 2), (0, 0), 0),
    ],
)
def test_a_diverging_log_is_cut_where_the_leaders_ends(own, told, left):
    one = following(log=own)
    out = one.answered(diverging=EpochEnd(*told))
    assert one.node.log.end == left
    request = answer(out, FetchRequest)
    assert request.fetch_offset == left
    if left < len(own):
        assert note(out, "truncate") == {"from": len(own), "to": left}
    assert one.again().node.log.end == left


def test_cutting_below_the_high_watermark_is_fatal():
    one = following(log=(1, 1, 2))
    one.answered(hw=2)
    out = one.answered(diverging=EpochEnd(1, 1))
    assert "violation" in names(out)
    assert halted(out)


@pytest.mark.parametrize(("leaders", "own"), [(-1, 0), (2, 2), (99, 3)])
def test_a_followers_high_watermark_stays_within_its_log_and_never_goes_back(leaders, own):
    one = following(log=(1, 1, 2))
    one.answered(hw=leaders)
    assert one.status().commit == own
    one.answered(hw=0)
    assert one.status().commit == own


def test_an_answer_that_is_no_longer_awaited_is_ignored():
    one = following()
    one.answered()
    late = FetchResponse(77, "NONE", -1, 0, CurrentLeader(B, 3), records=records(3))
    assert sent(one.hear("B", late)) == []
    assert one.node.log.end == 0


def test_an_observer_asks_any_voter_until_it_knows_the_leader_and_never_campaigns():
    one = One(members="ABCD", node="D", observers="D")
    ((to, request),) = sent(one.booted, FetchRequest)
    assert to in "ABC"
    assert request.replica_id == 4
    made = FetchResponse(request.correlation_id, "FENCED_LEADER_EPOCH", -1, 0, CurrentLeader(B, 4))
    out = one.hear(to, made)
    assert (one.node.state, one.node.leader) == ("Follower", B)
    assert sent(out, FetchRequest)[0][0] == "B"
    one.now = one.node.fetch_at
    asked = one.fire("requests") + one.fire("fetch")
    assert len(sent(asked, FetchRequest)) == 1
    assert sent(asked, FetchRequest)[0][0] in "AC"  # the leader's retry is not due yet
    assert one.node.state == "Follower"
    assert one.node.epoch == 4


def test_an_observer_that_happens_to_ask_the_leader_uses_its_answer():
    one = One(disk(4, voters=(A, B, C)), members="ABCD", node="D", observers="D")
    ((to, request),) = sent(one.booted, FetchRequest)
    leader = one.node.ids[to]
    body = FetchResponse(
        request.correlation_id, "NONE", -1, 0, CurrentLeader(leader, 4), records=(change(4, 0, leader),)
    )
    out = one.hear(to, body)
    assert (one.node.state, one.node.leader, one.node.log.end) == ("Follower", leader, 1)
    last = sent(out, FetchRequest)[-1][1]
    assert last.fetch_offset == 1
    assert one.node.connections[leader].awaits == last.correlation_id


# --- the leader -----------------------------------------------------------------------------------------------------


def test_a_new_leader_appends_a_record_of_its_epoch_and_tells_all_voters_until_they_know():
    one = One(disk(3))
    out = one.lead(votes="B")
    record = one.node.log.entries[-1]
    assert (record.offset, record.epoch) == (0, 4)
    assert record.command == LeaderChange(A, (A, B, C), (A, B))
    assert {to for to, _ in sent(out, BeginQuorumEpochRequest)} == {"B", "C"}
    one.hear("B", BeginQuorumEpochResponse(one.node.connections[B].awaits, "NONE", A, 4))
    one.fetched("C", 0, wait=500)
    one.fire("requests", after_ms=2000)
    assert sent(one.fire("requests", after_ms=20), BeginQuorumEpochRequest) == []


def test_an_announcement_without_an_answer_is_repeated():
    one = One(disk(3))
    one.lead(votes="B")
    one.hear("B", BeginQuorumEpochResponse(one.node.connections[B].awaits, "NONE", A, 4))
    one.fire("requests", after_ms=2000)
    assert [to for to, _ in sent(one.fire("requests", after_ms=20), BeginQuorumEpochRequest)] == ["C"]


@pytest.mark.parametrize(("word", "ms"), [("1.0", 2000), ("1.5", 3000)])
def test_a_leader_without_fetches_of_a_majority_resigns(word, ms):
    one = leading(check_quorum=word)
    assert "check_quorum_expired" not in names(one.fire("check_quorum", after_ms=ms - 1))
    out = one.fire("check_quorum", after_ms=1)
    assert "check_quorum_expired" in names(out)
    assert (one.node.state, one.node.epoch, one.node.leader) == ("Resigned", 4, A)
    assert {to for to, _ in sent(out, EndQuorumEpochRequest)} == {"B", "C"}
    assert "persisted" not in names(out)
    assert one.now + 1000 * MS <= one.node.election_at <= one.now + 1999 * MS
    one.time_out()
    assert (one.node.state, one.node.epoch) == ("Candidate", 5)


def test_the_check_wants_half_of_the_others_since_it_was_restarted():
    one = One(disk(3, voters=(1, 2, 3, 4, 5)), members="ABCDE")
    one.lead(votes="BC")
    start = one.node.leading.quorum_at
    one.now += 500 * MS
    one.fetched("B", 0)
    one.fetched("B", 0)
    assert one.node.leading.quorum_at == start
    one.fetched("C", 0)
    assert one.node.leading.quorum_at == one.now + 2000 * MS
    one.now += 500 * MS
    one.fetched("B", 0)
    assert one.node.leading.quorum_at == one.now + 1500 * MS


def test_the_successors_are_told_most_advanced_first():
    one = One(disk(3, voters=(1, 2, 3, 4)), members="ABCD")
    one.lead(votes="BC")
    one.fetched("C", 1)
    one.fetched("D", 0)
    out = one.ask(Transfer(""))
    assert sent(out, EndQuorumEpochRequest)[0][1].preferred_successors == (3, 4, 2)


def test_a_resigned_leader_repeats_its_resignation_until_it_is_acknowledged():
    one = leading()
    one.ask(Transfer(""))
    one.hear("B", EndQuorumEpochResponse(one.node.connections[B].awaits, "NONE", A, 4))
    one.node.election_at = one.now + 10**12
    one.fire("requests", after_ms=2000)
    assert [to for to, _ in sent(one.fire("requests", after_ms=20), EndQuorumEpochRequest)] == ["C"]


def test_a_graceful_shutdown_resigns_and_campaigns_no_more():
    one = leading()
    out = one.fire("shutdown")
    assert one.node.state == "Resigned"
    assert sent(out, EndQuorumEpochRequest)
    one.time_out()
    assert one.node.state == "Resigned"


# --- clients --------------------------------------------------------------------------------------------------------


def test_writes_linger_and_are_answered_when_the_high_watermark_passes_them():
    one = leading()
    one.fetched("B", 1)
    assert replies(one.ask(Append("k", "x"))) == []
    assert replies(one.ask(Put("r", 5))) == []
    assert one.node.log.end == 1
    one.fire("linger", after_ms=25)
    assert one.node.log.end == 3
    assert replies(one.fetched("B", 2)) == [Ok(2, 2, 4)]
    assert replies(one.fetched("C", 3)) == [Ok(None, 3, 4)]
    assert replies(one.ask(Get("k"))) == [Ok(["x"])]
    assert replies(one.ask(Cas("r", 5, 6))) == []


def test_reads_wait_for_the_first_commit_of_the_epoch():
    one = leading()
    assert replies(one.ask(Get("k"))) == []
    assert replies(one.fetched("B", 1)) == [Ok(None)]


def test_a_read_through_the_log_is_a_record():
    one = leading(reads="log")
    one.fetched("B", 1)
    assert replies(one.ask(Get("k"))) == []
    one.fire("linger", after_ms=25)
    assert replies(one.fetched("B", 2)) == [Ok(None, 2, 4)]
    assert isinstance(replies(one.ask(Get("k", "far")))[0], Refused)


def test_who_stops_to_lead_tells_what_is_certain():
    one = leading()
    one.ask(Append("k", 1))
    one.ask(Get("k", "log"))
    one.fire("linger", after_ms=25)
    one.ask(Append("k", 2))
    one.ask(Get("k"))
    out = replies(one.hear("C", refused(9)))
    assert [type(reply) for reply in out] == [Unknown, FailedReply, FailedReply, FailedReply]


@pytest.mark.parametrize(("image", "hint"), [(disk(4), None), (disk(4, leader=C), "C"), (disk(4, leader=A), None)])
def test_who_does_not_lead_redirects(image, hint):
    assert replies(One(image).ask(Append("k", 1))) == [NotLeader(hint)]


def test_what_is_not_served_is_refused():
    one = leading()
    for body in (Acquire("l", "o", 5), Transfer("nobody"), Transfer("A")):
        assert isinstance(replies(one.ask(body))[0], Refused)
    assert isinstance(replies(One(members="A").ask(Transfer("")))[0], Refused)


# --- illegal changes ------------------------------------------------------------------------------------------------


def test_impossible_changes_of_state_raise():
    one = following()
    one.node.out = []
    with pytest.raises(IllegalTransition):
        become_leader(one.node, [A, B])
    with pytest.raises(IllegalTransition):
        become_unattached(one.node, 3, "test")
    with pytest.raises(IllegalTransition):
        become_voted(one.node, A, "test")
    with pytest.raises(IllegalTransition):
        become_follower(one.node, 3, C, "test")


def test_a_voter_that_is_told_of_its_leader_twice_changes_nothing():
    one = following()
    before = one.node.fetch_at
    out = one.hear("B", begin(B, 3), after_ms=100)
    assert answer(out).error_code == "NONE"
    assert one.node.fetch_at == before
