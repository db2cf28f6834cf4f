"""Every row of 5.9 and of the clients: writes, deletions and reads of one node in a prepared state."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos import messages as m
from dethrone.harness.core.machine import Await, Disk, Send
from tests.clusters.nacos.spec import One, leading

STATES = ["FOLLOWER", "CANDIDATE", "LEADER"]


# --- 5.9 client writes ------------------------------------------------------------------------------------------


def test_5_9_the_leader_applies_stores_sends_and_answers_at_the_majority():
    bench = leading()
    assert bench.client(client_api.Put("x", 7)) is None
    assert bench.state.items.read("x") == 7
    kinds = [type(effect) for effect in bench.out if isinstance(effect, Disk | Await | Send)]
    assert kinds == [Disk, Await, Send, Send]
    (_, publish), _ = bench.sent(m.DatumPublish)
    assert (publish.datum, publish.source.term) == (m.Datum("x", 7, 1), 1)
    bench.tell("n3", m.PublishAck(publish.number))
    assert bench.reply() == client_api.Ok()
    assert bench.note("publish")["acks"] == ["n1", "n3"]
    assert bench.note("write_acked") == {"key": "x", "timestamp": 1}
    bench.tell("n2", m.PublishAck(publish.number))
    assert bench.reply() is None
    assert bench.core.status(bench.clocks()).commit == 1


def test_5_9_one_acknowledgement_counts_once():
    bench = One("n1 n2 n3 n4 n5").follow("n1", 0)
    bench.client(client_api.Put("x", 7))
    number = bench.sent(m.DatumPublish)[0][1].number
    for _ in range(3):
        bench.tell("n2", m.PublishAck(number))
    assert bench.reply() is None


def test_5_9_after_five_seconds_the_client_is_told_unknown_and_the_leader_keeps_the_item():
    bench = leading()
    bench.client(client_api.Put("x", 7))
    number = bench.sent(m.DatumPublish)[0][1].number
    assert bench.alarms()["publish"] == 5_000_000_000
    bench.tell("n2", m.CallError("publish", "illegal state", "wasn't leader", number))
    assert bench.reply() is None
    bench.later(5_000).fire("publish")
    assert isinstance(bench.reply(), client_api.Unknown)
    assert bench.note("publish")["ok"] is False
    assert bench.state.items.read("x") == 7
    bench.tell("n2", m.PublishAck(number))
    assert bench.reply() is None


def test_5_9_the_timer_covers_every_write_under_way():
    bench = leading()
    bench.client(client_api.Put("x", 1), 1)
    first = bench.sent(m.DatumPublish)[0][1].number
    bench.later(1_000).client(client_api.Put("y", 2), 2)
    bench.tell("n2", m.PublishAck(first))
    bench.later(4_000).fire("publish")
    assert bench.reply(2) is None
    assert bench.alarms()["publish"] == 6_000_000_000
    bench.later(1_000).fire("publish")
    assert isinstance(bench.reply(2), client_api.Unknown)
    assert bench.alarms()["publish"] is None


def test_5_9_a_receiver_stores_before_it_acknowledges():
    bench = One().follow("n2", 5).put(leader_due_ms=1)
    bench.ask("n2", m.DatumPublish(3, m.Datum("x", 7, 1), m.RaftPeer("n2", "n2", 5, state="LEADER")))
    kinds = [type(effect) for effect in bench.out if isinstance(effect, Disk | Await | Send)]
    assert kinds == [Disk, Await, Send]
    assert bench.state.items.read("x") == 7
    assert bench.local.term == 5
    assert bench.local.leader_due_ms >= 15_000


@pytest.mark.parametrize(
    ("leader", "term", "value", "text"),
    [
        ("n3", 5, 7, "peer(n2) tried to publish data but wasn't leader"),
        (None, 5, 7, "peer(n2) tried to publish data but wasn't leader"),
        ("n2", 4, 7, "out of date publish, pub-term:4, cur-term: 5"),
        ("n2", 5, None, "received empty datum"),
    ],
)
def test_5_9_a_receiver_refuses_others_than_its_leader_and_old_terms(leader, term, value, text):
    bench = One().put(term=5)
    if leader:
        bench.follow(leader, 5)
    source = m.RaftPeer("n2", "n2", term, state="LEADER")
    answer = bench.ask("n2", m.DatumPublish(3, m.Datum("x", value, 1), source))
    assert answer == m.CallError("publish", "illegal state", text, 3)
    assert "x" not in bench.state.items


def test_5_9_with_term_jump_each_publish_adds_a_hundred():
    bench = leading(term_jump="100")
    bench.client(client_api.Put("x", 7), 1)
    assert bench.sent(m.DatumPublish)[0][1].source.term == 1
    bench.client(client_api.Put("x", 8), 2)
    assert bench.sent(m.DatumPublish)[0][1].source.term == 101
    assert (bench.local.term, bench.state.meta.term) == (201, 201)


def test_5_9_a_follower_forwards_to_the_leader_by_name_and_relays_the_answer():
    for outcome, expected in [
        ("ok", client_api.Ok()),
        ("not_leader", client_api.NotLeader(None)),
        ("unknown", client_api.Unknown("w")),
        ("failed", client_api.Failed("w")),
        ("refused", client_api.Refused("w")),
    ]:
        bench = One().follow("n2", 5)
        assert bench.client(client_api.Put("x", 7)) is None
        ((to, forward),) = bench.sent(m.Forward)
        assert (to, forward.key, forward.value, forward.hops) == ("n2", "x", 7, 1)
        bench.tell("n2", m.ForwardAnswer(forward.number, outcome, "w"))
        assert bench.reply() == expected
        bench.tell("n2", m.ForwardAnswer(forward.number, outcome, "w"))
        assert bench.reply() is None


def test_5_9_without_a_leader_nothing_is_forwarded():
    assert One().client(client_api.Put("x", 7)) == client_api.NotLeader(None)


def test_5_9_a_broken_or_unanswered_forward_is_unknown():
    bench = One().follow("n2", 5)
    bench.client(client_api.Put("x", 7))
    bench.fail("n2", bench.sent(m.Forward)[0][1])
    assert isinstance(bench.reply(), client_api.Unknown)
    bench.client(client_api.Put("x", 7))
    bench.tell("n2", m.CallError("forward", "illegal state", "gone", bench.sent(m.Forward)[0][1].number))
    assert isinstance(bench.reply(), client_api.Unknown)
    bench.client(client_api.Put("x", 8))
    bench.later(10_000).fire("publish")
    assert isinstance(bench.reply(), client_api.Unknown)


def test_5_9_the_leader_answers_the_forwarding_node_when_the_majority_has_it():
    bench = leading()
    bench.tell("n3", m.Forward(77, "x", 7))
    number = bench.sent(m.DatumPublish)[0][1].number
    bench.tell("n2", m.PublishAck(number))
    assert [effect.body for effect in bench.out if isinstance(effect, Send)] == [m.ForwardAnswer(77, "ok")]


def test_5_9_two_nodes_that_take_each_other_for_the_leader_do_not_forward_for_ever():
    bench = One().follow("n2", 5)
    bench.tell("n2", m.Forward(77, "x", 7, hops=2))
    assert bench.sent(m.Forward)[0][1].hops == 3
    bench.tell("n2", m.Forward(78, "x", 7, hops=3))
    assert bench.sent() == [("n2", m.ForwardAnswer(78, "not_leader"))]


def test_5_9_a_deletion_asks_for_no_majority():
    bench = leading()
    bench.client(client_api.Put("x", 7), 1)
    assert bench.client(client_api.Put("x", None), 2) == client_api.Ok()
    assert [to for to, _ in bench.sent(m.DatumDelete)] == ["n2", "n3"]
    bench.put(leader_due_ms=1).tell("n2", m.DeleteAck())
    assert bench.local.leader_due_ms >= 15_000


def test_5_9_a_receiver_deletes_for_its_leader_only():
    bench = One().follow("n2", 5)
    bench.state.items.put(m.Datum("x", 7, 1))
    stranger = m.RaftPeer("n3", "n3", 5, state="LEADER")
    assert isinstance(bench.ask("n3", m.DatumDelete("x", stranger)), m.CallError)
    assert "x" in bench.state.items
    assert bench.ask("n2", m.DatumDelete("x", m.RaftPeer("n2", "n2", 5, state="LEADER"))) == m.DeleteAck()
    assert "x" not in bench.state.items
    assert bench.state.meta.term == 5


def test_5_9_items_are_handed_out_in_any_role_and_unknown_keys_left_out():
    bench = One()
    bench.state.items.put(m.Datum("x", 7, 1))
    assert bench.ask("n2", m.DatumFetch(("x", "y"), 5)) == m.FetchAnswer((m.Datum("x", 7, 1),), 5)


# --- clients ----------------------------------------------------------------------------------------------------


def test_a_read_is_the_local_value_of_the_node_asked():
    bench = One().follow("n2", 5)
    assert bench.client(client_api.Get("x")) == client_api.Ok(None)
    bench.state.items.put(m.Datum("x", 7, 1))
    assert bench.client(client_api.Get("x")) == client_api.Ok(7)
    assert isinstance(bench.client(client_api.Get("x", "linear")), client_api.Refused)


def test_an_appended_list_is_read_in_publish_order():
    bench = leading()
    for number, value in enumerate([3, "a/b", 1, 2]):
        bench.client(client_api.Append("l", value), number)
    assert bench.client(client_api.Get("l"), 9) == client_api.Ok([3, "a/b", 1, 2])


@pytest.mark.parametrize(
    "body",
    [
        client_api.Cas("x", 1, 2),
        client_api.Acquire("x", "a", 10),
        client_api.Renew("x", "a", 10),
        client_api.Release("x", "a"),
        client_api.ChangeConfig(add="n4"),
        client_api.Transfer("n2"),
        client_api.Put("", 1),
    ],
)
def test_everything_else_is_refused(body):
    assert isinstance(leading().client(body), client_api.Refused)
