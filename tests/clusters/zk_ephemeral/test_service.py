from __future__ import annotations

import pytest

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.tree import TREE
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Send
from tests.clusters.zk_ephemeral.spec import One, timers
from tests.world.effects import bodies, halted, names, note

LEADER = m.LEADER_PATH


def test_of_two_creators_exactly_one_wins_and_the_other_hears_who_owns_the_node():
    zk = One()
    a, b = zk.connect("a"), zk.connect("b")
    assert zk.call("a", a, 1, m.Create(LEADER, {"id": "a"}, ephemeral=True)).code == m.OK
    refused = zk.call("b", b, 1, m.Create(LEADER, {"id": "b"}, ephemeral=True))
    assert (refused.code, refused.owner, refused.data) == (m.NODE_EXISTS, a, {"id": "a"})


def test_a_set_with_an_old_version_changes_nothing():
    zk = One()
    a = zk.connect("a")
    zk.call("a", a, 1, m.Create("/x", 1))
    assert zk.call("a", a, 2, m.SetNode("/x", 2, 0)).version == 1
    stale = zk.call("a", a, 3, m.SetNode("/x", 3, 0))
    assert (stale.code, stale.data, stale.version) == (m.BAD_VERSION, 2, 1)
    assert zk.call("a", a, 4, m.Delete("/x", 0)).code == m.BAD_VERSION
    assert zk.call("a", a, 5, m.Delete("/x", m.ANY_VERSION)).code == m.OK
    assert zk.call("a", a, 6, m.GetNode("/x")).code == m.NO_NODE


def test_a_call_that_is_repeated_is_carried_out_once():
    zk = One()
    a = zk.connect("a")
    first = zk.call("a", a, 1, m.Create("/x", 1))
    assert zk.call("a", a, 1, m.Create("/x", 1)) == first
    zk.call("a", a, 2, m.Delete("/x"))
    assert zk.call("a", a, 1, m.Create("/x", 1)) is None
    assert zk.call("a", a, 3, m.GetNode("/x")).code == m.NO_NODE


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (m.SetNode("/x", 2), m.NODE_DATA_CHANGED),
        (m.Delete("/x"), m.NODE_DELETED),
    ],
)
def test_a_watch_fires_once_after_the_change_and_must_be_set_again(op, kind):
    zk = One()
    a, b = zk.connect("a"), zk.connect("b")
    zk.call("a", a, 1, m.Create("/x", 1))
    zk.call("b", b, 1, m.GetNode("/x", watch=True))
    out = zk.hear("a", m.Call(a, 2, op))
    (event,) = bodies(out, m.WatchFired)
    assert (event.path, event.kind) == ("/x", kind)
    again = m.SetNode("/x", 3) if kind == m.NODE_DATA_CHANGED else m.Create("/x", 3)
    assert not bodies(zk.hear("a", m.Call(a, 3, again)), m.WatchFired)


def test_exists_watches_a_node_that_is_absent_and_get_does_not():
    zk = One()
    a, b, c = zk.connect("a"), zk.connect("b"), zk.connect("c")
    zk.call("b", b, 1, m.Exists("/x", watch=True))
    zk.call("c", c, 1, m.GetNode("/x", watch=True))
    out = zk.hear("a", m.Call(a, 1, m.Create("/x", 1)))
    assert [(e.to, e.body.kind) for e in out if isinstance(e, Send) and isinstance(e.body, m.WatchFired)] == [
        ("b", m.NODE_CREATED)
    ]


def test_an_event_is_repeated_with_each_ping_until_it_was_seen():
    zk = One()
    a, b = zk.connect("a"), zk.connect("b")
    zk.call("b", b, 1, m.Exists("/x", watch=True))
    zk.call("a", a, 1, m.Create("/x", 1))
    assert len(bodies(zk.hear("b", m.Ping(b, 0, 1)), m.WatchFired)) == 1
    assert not bodies(zk.hear("b", m.Ping(b, 1, 1)), m.WatchFired)


def test_a_session_ends_when_nothing_was_heard_for_its_timeout_and_not_before():
    zk = One()
    a, b = zk.connect("a", timeout_ms=2000), zk.connect("b", timeout_ms=9000)
    zk.call("a", a, 1, m.Create(LEADER, {"id": "a"}, ephemeral=True))
    zk.call("b", b, 1, m.Exists(LEADER, watch=True))
    assert "session_expired" not in names(zk.fire("expiry", after_ms=1999))
    out = zk.fire("expiry", after_ms=1)
    assert note(out, "session_expired")["client"] == "a"
    assert note(out, "ephemeral_deleted") == {"path": LEADER, "why": "expiry", "attempts": ["a"]}
    assert [event.kind for event in bodies(out, m.WatchFired)] == [m.NODE_DELETED]
    assert bodies(zk.hear("a", m.Ping(a)), m.SessionExpired)


def test_a_ping_renews_a_session():
    zk = One()
    a = zk.connect("a", timeout_ms=2000)
    zk.hear("a", m.Ping(a), after_ms=1500)
    assert "session_expired" not in names(zk.fire("expiry", after_ms=1500))
    assert bodies(zk.hear("a", m.Ping(a)), m.Pong)


def test_an_overdue_session_ends_before_a_message_that_waited_is_heard():
    zk = One()
    a = zk.connect("a", timeout_ms=2000)
    out = zk.hear("a", m.Ping(a), after_ms=2500)
    assert "session_expired" in names(out)
    assert bodies(out, m.SessionExpired)


def test_a_clean_close_deletes_at_once():
    zk = One()
    a = zk.connect("a")
    zk.call("a", a, 1, m.Create(LEADER, {"id": "a"}, ephemeral=True))
    out = zk.hear("a", m.Call(a, 2, m.CloseSession()))
    assert note(out, "ephemeral_deleted")["why"] == "close"
    assert bodies(zk.hear("a", m.Ping(a)), m.SessionExpired)


def test_a_repeated_connect_gives_the_same_session():
    zk = One()
    assert zk.connect("a", nonce=4) == zk.connect("a", nonce=4)
    assert zk.connect("a", nonce=5) != zk.connect("a", nonce=4)


def test_nobody_is_told_before_the_change_is_on_disk():
    zk = One()
    a = zk.connect("a")
    out = zk.hear("a", m.Call(a, 1, m.Create("/x", 1)))
    at = [type(effect) for effect in out]
    assert at.index(Disk) < at.index(Await) < at.index(Send)


def test_a_read_needs_no_disk():
    zk = One()
    a = zk.connect("a")
    assert not [effect for effect in zk.hear("a", m.Call(a, 1, m.GetNode("/x"))) if isinstance(effect, Disk)]


def test_after_a_restart_tree_and_sessions_are_there_and_every_session_has_a_fresh_timeout():
    zk = One()
    a = zk.connect("a", timeout_ms=2000)
    zk.call("a", a, 1, m.Create(LEADER, {"id": "a"}, ephemeral=True))
    zk.now += 1900 * MS
    again = One("zk", disk=zk.disk.durable)
    assert again.status().extra["nodes"][LEADER]["owner"] == a
    assert "session_expired" not in names(again.fire("expiry", after_ms=1999))
    assert "session_expired" in names(again.fire("expiry", after_ms=1))
    assert again.status().extra["start"] == 2


def test_after_a_restart_an_older_call_is_still_not_carried_out():
    zk = One()
    a = zk.connect("a")
    zk.call("a", a, 1, m.Create("/x", 1))
    zk.call("a", a, 2, m.Delete("/x"))
    again = One("zk", disk=zk.disk.durable)
    assert again.call("a", a, 1, m.Create("/x", 1)) is None


@pytest.mark.parametrize("content", ["unreadable", b"x" * 64, b"\x01" + bytes(40)])
def test_an_unreadable_tree_stops_the_service(content):
    zk = One("zk", disk={TREE: content})
    assert halted(zk.booted)
    assert zk.hear("a", m.Connect(1, 1)) == []


def test_a_failed_write_stops_the_service():
    zk = One(slow=True)
    zk.batches.clear()
    zk.hear("a", m.Connect(2000 * MS, 1))
    assert halted(zk.done("EIO"))


def test_a_service_on_the_wall_clock_expires_sessions_when_the_clock_is_stepped():
    zk = One(service_clock="wall")
    a = zk.connect("a", timeout_ms=2000)
    assert timers(zk.hear("a", m.Connect(1000 * MS, 9)))["expiry"][1] == "wall"
    zk.wall += 60_000 * MS
    assert "session_expired" in names(zk.hear("a", m.Ping(a)))


def test_the_status_shows_owners_sessions_and_watches_and_no_leader_of_its_own():
    zk = One()
    a = zk.connect("a")
    zk.call("a", a, 1, m.Create(LEADER, {"id": "a", "epoch": 3}, ephemeral=True))
    zk.call("a", a, 2, m.Exists(LEADER, watch=True))
    status = zk.status()
    assert (status.role, status.term, status.leader) == ("COORDINATOR", 0, None)
    assert status.extra["nodes"][LEADER]["data"] == {"id": "a", "epoch": 3}
    assert status.extra["watches"] == 1
    assert status.extra["sessions"][str(a)] == {"client": "a", "age_ms": 0}
