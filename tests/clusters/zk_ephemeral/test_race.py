from __future__ import annotations

import pytest

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.harness.core.clock import MS
from tests.clusters.zk_ephemeral.spec import One, timers
from tests.world.effects import bodies, names, note

STATE = {"leader": "b", "leader_epoch": 4, "isr": ["a", "b"], "controller_epoch": 0}


def vacant(one, state=STATE, *, version=7):
    """Register, find the leader node free, read that state."""
    one.open()
    one.answer(m.OK, owner=5)
    one.answer(m.NO_NODE, version=-1)
    return one.answer(m.OK if state else m.NO_NODE, state, version=version if state else -1)


def test_a_started_broker_registers_and_reads_the_leader_node_with_a_watch():
    one = One("a")
    assert [type(body) for body in bodies(one.booted)] == [m.Connect]
    one.open()
    assert one.calling() == m.Create(m.IDS + "a", {"id": "a"}, ephemeral=True)
    one.answer(m.OK, owner=5)
    assert one.calling() == m.Exists(m.LEADER_PATH, watch=True)
    assert one.status().role == "FOLLOWER"


@pytest.mark.parametrize(("isr", "contends"), [(["a", "b"], True), (["b", "c"], False), ([], True), (None, True)])
def test_only_members_of_the_published_isr_contend_and_everybody_at_the_first_start(isr, contends):
    one = One("a")
    out = vacant(one, None if isr is None else {**STATE, "isr": isr})
    create = m.Create(m.LEADER_PATH, {"id": "a", "epoch": None}, ephemeral=True)
    assert (one.calling() == create) is contends
    assert ("contend" in names(out)) is contends
    assert one.status().role == ("CONTENDING" if contends else "FOLLOWER")


def test_a_winner_publishes_the_next_epoch_over_the_state_that_it_read_and_leads_when_that_is_stored():
    one = One("a")
    vacant(one)
    out = one.answer(m.OK, owner=5)
    assert "ephemeral_created" in names(out)
    assert one.status().role == "CONTENDING"
    wanted = {"leader": "a", "leader_epoch": 5, "isr": ["a"], "controller_epoch": 0}
    assert one.calling() == m.SetNode(m.STATE_PATH, wanted, 7)
    out = one.answer(m.OK, wanted, version=8)
    assert note(out, "leader_elected") == {"id": "a", "epoch": 5, "isr": ["a"], "contenders": ["a", "b"]}
    assert note(out, "elected")["term"] == 5
    assert (one.status().role, one.status().term, one.status().leader) == ("LEADER", 5, "a")
    assert one.calling() == m.SetNode(m.LEADER_PATH, {"id": "a", "epoch": 5})


def test_a_loser_watches_and_follows_the_owner_once_its_epoch_is_known():
    one = One("a")
    vacant(one)
    out = one.answer(m.NODE_EXISTS, {"id": "b", "epoch": None}, owner=9)
    assert note(out, "create_refused")["owner"] == "b"
    assert one.calling() == m.Exists(m.LEADER_PATH, watch=True)
    one.answer(m.OK, {"id": "b", "epoch": None}, owner=9)
    assert (one.status().role, one.status().leader) == ("FOLLOWER", None)
    one.hear("zk", m.WatchFired(5, 1, m.LEADER_PATH, m.NODE_DATA_CHANGED, 1))
    out = one.answer(m.OK, {"id": "b", "epoch": 5}, owner=9)
    assert (one.status().role, one.status().leader, one.status().term) == ("FOLLOWER", "b", 5)
    assert [type(body) for body in bodies(out)] == [m.Fetch]


def test_an_answer_that_was_lost_is_recognised_by_the_owner_of_the_node():
    one = One("a")
    vacant(one)
    out = one.answer(m.NODE_EXISTS, {"id": "a", "epoch": None}, owner=5)
    assert "ephemeral_created" in names(out)


def test_a_winner_whose_state_is_no_longer_true_gives_the_node_back():
    one = One("a")
    vacant(one)
    one.answer(m.OK, owner=5)
    one.answer(m.BAD_VERSION, {**STATE, "leader_epoch": 5, "isr": ["c"]}, version=8)
    assert one.calling() == m.Delete(m.LEADER_PATH)
    assert one.status().role == "CONTENDING"


def test_a_winner_that_is_still_in_the_newer_isr_takes_the_epoch_after_it():
    one = One("a")
    vacant(one)
    one.answer(m.OK, owner=5)
    one.answer(m.BAD_VERSION, {**STATE, "leader_epoch": 6}, version=9)
    op = one.calling()
    assert (op.data["leader_epoch"], op.version) == (7, 9)


def test_a_former_life_whose_session_still_lives_is_nobody_to_follow():
    one = One("a")
    one.open()
    one.answer(m.NODE_EXISTS, {"id": "a"}, owner=3)
    one.answer(m.OK, {"id": "a", "epoch": 4}, owner=3)
    assert (one.status().role, one.status().leader) == ("FOLLOWER", None)


def test_when_the_node_is_deleted_a_follower_reads_again_and_contends():
    one = One("a")
    one.follow("b", 4)
    one.hear("zk", m.WatchFired(5, 1, m.LEADER_PATH, m.NODE_DELETED, 1))
    assert one.status().leader is None
    one.answer(m.NO_NODE, version=-1)
    assert "contend" in names(one.answer(m.OK, STATE, version=7))


def test_a_change_that_is_heard_while_the_node_is_read_is_read_once_more():
    one = One("a")
    one.follow("b", 4)
    one.hear("zk", m.WatchFired(5, 1, m.LEADER_PATH, m.NODE_DELETED, 1))
    one.hear("zk", m.WatchFired(5, 2, m.LEADER_PATH, m.NODE_CREATED, 1))
    out = one.answer(m.NO_NODE, version=-1)
    assert "contend" not in names(out)
    assert one.calling() == m.Exists(m.LEADER_PATH, watch=True)


def test_a_replica_outside_the_isr_stands_uncleanly_only_when_no_member_holds_a_session():
    for alive in (True, False):
        one = One("a", unclean_leader_election_enable="true")
        vacant(one, {**STATE, "isr": ["b"]})
        assert one.calling() == m.Exists(m.IDS + "b", watch=True)
        out = one.answer(m.OK if alive else m.NO_NODE, {"id": "b"} if alive else None, owner=9 if alive else 0)
        assert ("unclean_election" in names(out)) is not alive
        assert ("contend" in names(out)) is not alive


def test_an_expired_leader_gives_up_and_opens_a_new_session():
    one = One("a")
    one.lead(stored=STATE)
    out = one.hear("zk", m.SessionExpired(5))
    assert note(out, "step_down")["why"] == "session expired"
    assert one.status().role == "EXPIRED"
    assert [type(body) for body in bodies(out)] == [m.Connect]
    one.hear("zk", m.Connected(6, one.core.session.nonce, 1))
    assert one.status().role == "FOLLOWER"


def test_the_word_that_another_session_expired_means_nothing():
    one = One("a")
    one.lead(stored=STATE)
    assert one.hear("zk", m.SessionExpired(4)) == []


def test_after_two_thirds_of_the_timeout_in_silence_a_client_knows_itself_disconnected_and_leads_on():
    one = One("a", zookeeper_session_timeout_ms=3000)
    one.lead(stored=STATE)
    assert "session_disconnected" not in names(one.fire("contact", after_ms=1999))
    out = one.fire("contact", after_ms=1)
    assert "session_disconnected" in names(out)
    assert one.status().role == "LEADER"
    assert one.status().extra["session"]["state"] == "DISCONNECTED"


def test_the_knob_makes_it_step_down_and_a_lived_on_session_gives_it_a_new_epoch():
    one = One("a", zookeeper_session_timeout_ms=3000, step_down_on_disconnect="true")
    one.lead(stored=STATE)
    one.fire("contact", after_ms=2000)
    assert one.status().role == "DISCONNECTED"
    one.hear("zk", m.Pong(5, 1))
    one.answer(m.OK, {"id": "a", "epoch": 5}, owner=5)
    one.answer(m.OK, {"leader": "a", "leader_epoch": 5, "isr": ["a"], "controller_epoch": 0}, version=8)
    assert one.calling().data["leader_epoch"] == 6


def test_an_overdue_connection_is_noticed_before_a_client_that_waited_is_served():
    from dethrone.clusters.targets.client_api import Append

    one = One("a", zookeeper_session_timeout_ms=3000, step_down_on_disconnect="true")
    one.lead(stored=STATE)
    one.now += 5000 * MS
    one.ask(Append("k", 1))
    assert one.status().role == "DISCONNECTED"
    assert one.core.log.end == 0


def test_a_leader_that_finds_another_owner_follows_it():
    one = One("a")
    one.lead(stored=STATE)
    one.hear("zk", m.WatchFired(5, 1, m.LEADER_PATH, m.NODE_DATA_CHANGED, 1))
    out = one.answer(m.OK, {"id": "c", "epoch": 6}, owner=9)
    assert "step_down" in names(out)
    assert (one.status().role, one.status().leader, one.status().term) == ("FOLLOWER", "c", 6)


def test_pings_go_out_every_third_of_the_timeout():
    one = One("a", zookeeper_session_timeout_ms=3000)
    one.open()
    out = one.fire("ping", after_ms=1000)
    assert bodies(out, m.Ping) == [m.Ping(5, 0, 1)]
    assert timers(out)["ping"] == (one.now + 1000 * MS, "mono")


def test_a_lost_call_is_sent_again_under_its_number():
    one = One("a")
    (first,) = bodies(one.open(), m.Call)
    (again,) = bodies(one.fire("call", after_ms=500), m.Call)
    assert again == first


def test_after_a_restart_of_the_service_everything_watched_is_read_again():
    one = One("a")
    one.follow("b", 4)
    one.hear("zk", m.Pong(5, 2))
    assert one.calling() == m.Create(m.IDS + "a", {"id": "a"}, ephemeral=True)
    one.answer(m.NODE_EXISTS, {"id": "a"}, owner=5)
    assert one.calling() == m.Exists(m.LEADER_PATH, watch=True)


def test_the_leaders_notice_deposes_only_with_fencing_and_a_newer_epoch():
    for fencing, epoch, leads in (("epochs", 6, False), ("epochs", 5, True)):
        one = One("a", fencing=fencing)
        one.lead(stored=STATE)
        one.hear("b", m.LeaderNotice(epoch))
        assert (one.status().role == "LEADER") is leads
