"""Check-quorum, reads, leases, transfer: raft-ext 3, 4 and 6."""

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok, Refused, Transfer, Unknown
from dethrone.clusters.targets.raft.messages import RequestVote, TimeoutNow
from dethrone.harness.core.clock import MS
from tests.clusters.raft.spec import One, heartbeat
from tests.world.effects import answer, names, note, replies, sent


def leader(**more):
    """A leader whose blank entry is committed and whose voters all just answered."""
    one = One(**more)
    one.lead(votes=one.node.peers)
    for peer in one.node.peers:
        one.ack(peer)
    assert one.node.leading.own_term_committed
    return one


# --- check-quorum -------------------------------------------------------------------------------------------------


def ticks(one, count, *, answers=(), every_ms=50):
    out = []
    for _ in range(count):
        out += one.fire("heartbeat", after_ms=every_ms)
        if one.node.leading is None:
            break
        for peer in answers:
            out += one.ack(peer)
    return out


def test_a_leader_without_answers_steps_down_in_its_term_after_the_window_and_one_tick():
    one = leader()
    start = one.now
    out = ticks(one, 20)
    assert one.now - start == 350 * MS
    assert (one.node.role, one.node.term, one.node.voted_for, one.node.leader) == ("FOLLOWER", 1, "A", None)
    assert note(out, "check_quorum_failed")["age_ms"] == {"B": 350, "C": 350}
    assert note(out, "step_down")["why"] == "check_quorum"


def test_answers_of_a_majority_keep_it():
    one = leader(members="ABCDE")
    ticks(one, 20, answers="BC")
    assert one.node.role == "LEADER"


def test_answers_of_less_do_not():
    one = leader(members="ABCDE")
    ticks(one, 20, answers="B")
    assert one.node.role == "FOLLOWER"


def test_a_mismatch_is_contact_too():
    one = leader()
    for _ in range(20):
        one.fire("heartbeat", after_ms=50)
        one.ack("B", ok=False)
    assert one.node.role == "LEADER"


def test_contact_counts_from_the_sending_not_from_the_receipt():
    one = leader()
    seq = one.node.leading.seq
    ticks(one, 5)
    for peer in "BC":
        one.ack(peer, seq=seq)
    ticks(one, 2)
    assert one.node.role == "FOLLOWER"


def test_a_new_leader_has_one_window():
    one = One().leading()
    ticks(one, 6)
    assert one.node.role == "LEADER"
    ticks(one, 1)
    assert one.node.role == "FOLLOWER"


# --- reads --------------------------------------------------------------------------------------------------------


def test_a_read_index_read_needs_a_round_that_started_after_it():
    one = leader()
    old = one.node.leading.seq
    out = one.ask(Get("k"))
    assert len(sent(out)) == 2
    assert not replies(one.ack("B", seq=old))
    done = one.ack("B")
    assert replies(done) == [Ok(None)]
    assert note(done, "read_served")["mode"] == "readindex"


def test_reads_share_rounds():
    one = leader()
    first = one.ask(Get("k"))
    assert len(sent(first)) == 2
    assert not sent(one.ask(Get("k")))
    assert not sent(one.ask(Get("k")))
    out = one.ack("B")
    assert len(replies(out)) == 1
    assert len(sent(out)) == 2
    assert len(replies(one.ack("B"))) == 2


def test_a_lost_round_is_made_good_by_the_next_heartbeat():
    one = leader()
    one.ask(Get("k"))
    one.ask(Get("k"))
    one.fire("heartbeat", after_ms=50)
    assert len(replies(one.ack("B"))) == 2


def test_reads_wait_for_an_entry_of_the_own_term():
    one = One().leading()
    one.ask(Get("k"))
    one.fire("heartbeat", after_ms=50)
    assert not replies(one.ack("B", index=0))
    one.ack("B")
    assert replies(one.ack("B")) == [Ok(None)]


def test_a_read_sees_every_write_acknowledged_before_it():
    one = leader()
    one.ask(Append("k", 5))
    one.ack("B")
    one.ask(Get("k"))
    assert replies(one.ack("B")) == [Ok([5])]


def test_a_local_read_asks_nobody():
    one = leader()
    out = one.ask(Get("k", "local"))
    assert replies(out) == [Ok(None)]
    assert not sent(out)


def test_a_read_through_the_log_is_an_entry():
    one = leader()
    one.ask(Append("k", 5))
    out = one.ask(Get("k", "log"))
    assert not replies(out)
    assert Ok([5], 3, 1) in replies(one.ack("B", index=3))


@pytest.mark.parametrize("mode", ["lease", "fast"])
def test_a_mode_that_the_knobs_do_not_allow_is_refused(mode):
    out = leader().ask(Get("k", mode))
    assert isinstance(replies(out)[0], Refused)
    assert "read_refused" in names(out)


def test_a_node_alone_reads_at_once():
    one = One(members="A").standing()
    assert replies(one.ask(Get("k"))) == [Ok(None)]


# --- leases -------------------------------------------------------------------------------------------------------


def leased(**more):
    return leader(reads="lease", **more)


def test_a_lease_covers_the_shortest_timeout_over_the_drift_from_the_sending():
    one = leased()
    assert one.node.rules.lease_length() == 150 * MS * 10 // 11
    one.fire("heartbeat", after_ms=50)
    seq, sent_at = one.node.leading.seq, one.now
    one.now += 40 * MS
    one.ack("B", seq=seq)
    one.now = sent_at + one.node.rules.lease_length() - 1
    one.node.overdue_at = 1 << 62
    assert replies(one.ask(Get("k"))) == [Ok(None)]
    one.now += 1
    out = one.ask(Get("k"))
    assert not replies(out)
    assert note(out, "lease")["void"] == "no quorum in time"
    assert sent(out)


def test_an_election_gives_no_lease():
    one = One(reads="lease")
    one.fire("election", after_ms=200)
    one.lead()
    assert not replies(one.ask(Get("k")))
    assert one.status().extra["lease_left_ms"] is None


def test_the_lease_is_off_from_timeout_now_on_also_after_an_abort():
    one = leased(transfer="on")
    out = one.ask(Transfer("B"))
    assert [type(body) for _, body in sent(out)] == [TimeoutNow]
    assert not replies(one.ask(Get("k")))
    for _ in range(6):
        one.fire("heartbeat", after_ms=50)
        one.ack("B")
    out = one.fire("transfer")
    assert note(out, "transfer")["phase"] == "aborted"
    assert isinstance(replies(out)[0], Unknown)
    assert one.status().extra["lease_disabled"]
    assert not replies(one.ask(Get("k")))
    one.ack("B")
    one.ask(Append("k", 1))
    assert isinstance(replies(one.ack("B"))[0], Ok)


# --- transfer -----------------------------------------------------------------------------------------------------


def test_a_transfer_brings_the_target_up_to_date_and_takes_no_writes_meanwhile():
    one = leader(transfer="on")
    one.ask(Append("k", 1))
    out = one.ask(Transfer("B"))
    assert not sent(out, TimeoutNow)
    assert isinstance(replies(one.ask(Append("k", 2)))[0], Refused)
    assert sent(one.ack("B"), TimeoutNow) == [("B", TimeoutNow(1, "A"))]


def test_the_target_campaigns_at_once_with_force():
    one = One(transfer="on", term=3).following("B")
    out = one.hear("B", TimeoutNow(3, "B"))
    assert sent(out) == [(peer, RequestVote(4, "A", 0, 0, force=True)) for peer in "BC"]


@pytest.mark.parametrize(("src", "term"), [("C", 3), ("B", 2)])
def test_a_stale_or_foreign_timeout_now_is_ignored(src, term):
    one = One(transfer="on", term=3).following("B")
    assert not sent(one.hear(src, TimeoutNow(term, src)))
    assert one.node.term == 3


def test_a_transfer_ends_when_the_leader_is_deposed():
    one = leader(transfer="on")
    one.ask(Transfer("B"))
    out = one.hear("B", RequestVote(2, "B", 9, 1, force=True))
    assert note(out, "transfer")["phase"] == "done"
    assert answer(out).vote_granted
    assert isinstance(replies(out)[0], Unknown | Ok)


@pytest.mark.parametrize("target", ["A", "X"])
def test_only_another_voter_can_be_the_target(target):
    assert isinstance(replies(leader(transfer="on").ask(Transfer(target)))[0], Refused)


def test_a_transfer_is_refused_where_the_knob_is_off():
    assert isinstance(replies(leader().ask(Transfer("B")))[0], Refused)


# --- status -------------------------------------------------------------------------------------------------------


def test_status_names_everything_that_the_specification_lists():
    extra = leader().status().extra
    election = "profile round preVotes votes leader_contact_ms heard quorum_ack_age_ms config transfer_to"
    reads = "lease_left_ms lease_disabled own_term_committed reads_pending"
    assert {*election.split(), *reads.split()} <= set(extra)


def test_status_has_no_side_effect():
    one = One().following("B")
    before = one.hear("B", heartbeat("B", 0, seq=2))
    one.status()
    assert one.hear("B", heartbeat("B", 0, seq=2)) == before
