"""Data items: publish, delete, forward, and the data half of a beat.

A write reaches the leader (forwarded by name if need be), is applied there FIRST, then sent to all; the client gets
``Ok`` once floor(N/2)+1 nodes have it, the leader included, and ``Unknown`` after 5 s: the leader keeps the item. The
leader is the node in the ``leader`` field, regardless of its role.

Guarantees: exactly one answer to each client request; a bound on every wait and on forwarding. An item is on disk
before it is acknowledged. The receiver's term moves to the leader's by at most 100 per item, with any ``term_jump``; in
the original such a step can also LOWER a term, if a higher vote arrived between question and answer, and so it can here
(not with ``persist_vote`` or ``beat_raises_term``).

Out of scope: the original's lock that lets one write wait for another's majority; its pause of 200 ms between batches;
a majority for deletions, which the original does not require either (a register set to None is deleted).

Source: docs/sources.md, nacos: ``signalPublish``, ``signalDelete``, ``receivedBeat``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos import messages as m
from dethrone.clusters.targets.nacos import storage
from dethrone.clusters.targets.nacos.items import list_item_key
from dethrone.clusters.targets.nacos.knobs import (
    FETCH_BATCH_MAX,
    FORWARD_HOPS_MAX,
    FORWARD_TIMEOUT_MS,
    PUBLISH_TERM_INCREASE_COUNT,
    PUBLISH_TIMEOUT_MS,
)
from dethrone.clusters.targets.nacos.state import STOPPED, NodeState
from dethrone.clusters.targets.nacos.writes import TIMER, Asker, Waiting
from dethrone.harness.core.machine import DiskOp, Send

# --- clients ----------------------------------------------------------------------------------------------------


def on_request(node: NodeState, request: int, body: client_api.ClientRequest) -> None:
    """A client's operation: reads are local, writes are published, everything else is refused."""
    match body:
        case client_api.Get(key=key, mode=mode):
            if mode:
                node.reply(request, client_api.Refused(f"nacos has no read mode {mode!r}"))
            else:
                node.reply(request, client_api.Ok(node.items.read(key)))
        case client_api.Append(key=key, value=value):
            _write(node, Asker(request), list_item_key(key, value), value)
        case client_api.Put(key=key, value=value):
            _write(node, Asker(request), key, value)
        case _:
            node.reply(request, client_api.Refused("nacos publishes and reads data items, nothing else"))


def _write(node: NodeState, asker: Asker, key: str, value: Any) -> None:
    if node.stop_work or not key:
        _finish(node, asker, client_api.Refused(STOPPED if node.stop_work else "a data item needs a key"))
    elif node.leads():
        if value is None:
            _delete(node, asker, key)
        else:
            _publish(node, asker, key, value)
    else:
        leader = node.peers.leader_ip
        if leader is None or asker.hops >= FORWARD_HOPS_MAX or not node.rules.forwards:
            _finish(node, asker, client_api.NotLeader(None))
            return
        deadline = node.time + node.knobs.ns(FORWARD_TIMEOUT_MS)
        number = node.await_end(Waiting(asker, key, 0, None, deadline))
        node.send(leader, m.Forward(number, key, value, asker.hops + 1))


_REPLIES: Mapping[str, Callable[[str], client_api.ClientReply]] = {
    "ok": lambda _: client_api.Ok(),
    "not_leader": lambda _: client_api.NotLeader(None),
    "unknown": client_api.Unknown,
    "failed": client_api.Failed,
    "refused": client_api.Refused,
}
"""How a forwarded write ended → what its client hears."""


def _finish(node: NodeState, asker: Asker, reply: client_api.ClientReply) -> None:
    if asker.request is not None:
        node.reply(asker.request, reply)
        return
    outcome: Any = reply.__struct_config__.tag
    answer = m.ForwardAnswer(asker.number, outcome, getattr(reply, "why", ""))
    node.out.append(Send(asker.src, answer, asker.message))


def received_forward(node: NodeState, src: str, body: m.Forward) -> None:
    """A peer takes this node for the leader."""
    _write(node, Asker(None, src, node.message, body.number, body.hops), body.key, body.value)


def received_forward_answer(node: NodeState, answer: m.ForwardAnswer) -> None:
    """Relay how a forwarded write ended."""
    write = node.writes.waiting.get(answer.number)
    if write is None or write.acks is not None:
        return
    del node.writes.waiting[answer.number]
    _finish(node, write.asker, _REPLIES[answer.outcome](answer.why))


def forward_failed(node: NodeState, number: int, error: str) -> None:
    """The forwarding call itself broke: the leader may or may not have got it."""
    write = node.writes.waiting.get(number)
    if write is not None and write.acks is None:
        del node.writes.waiting[number]
        _finish(node, write.asker, client_api.Unknown(error))


# --- the leader -------------------------------------------------------------------------------------------------


def _publish(node: NodeState, asker: Asker, key: str, value: Any) -> None:
    source = node.record()
    datum = m.Datum(key, value, node.items.newest + 1)
    node.items.put(datum)
    if not node.knobs.leader_needs_majority_acks:
        node.reset_leader_due()
    node.set_term(source.term + node.knobs.term_jump, "publish")
    node.store(storage.write_datum(node.knobs.namespace, datum), with_term=True)
    node.trace("data_applied", key=key, timestamp=datum.timestamp, source=node.me)
    node.counters["publishes"] += 1
    deadline = node.time + node.knobs.ns(PUBLISH_TIMEOUT_MS)
    write = Waiting(asker, key, datum.timestamp, {node.me}, deadline)
    number = node.await_end(write)
    node.send_others(m.DatumPublish(number, datum, source))
    _complete_publish(node, number, write)


def received_publish_ack(node: NodeState, src: str, number: int) -> None:
    """One more node has the item."""
    write = node.writes.waiting.get(number)
    if write is not None and write.acks is not None:
        write.acks.add(src)
        _complete_publish(node, number, write)


def _complete_publish(node: NodeState, number: int, write: Waiting) -> None:
    acks = write.acks or set()
    if len(acks) < node.rules.publish_majority(len(node.peers.peers)):
        return
    del node.writes.waiting[number]
    node.items.mark_acked(write.key)
    if node.knobs.leader_needs_majority_acks and node.local.state == "LEADER":
        node.reset_leader_due()
    node.trace("publish", ok=True, key=write.key, timestamp=write.timestamp, acks=sorted(acks))
    node.trace("commit", items=node.items.acked_count)
    node.trace("write_acked", key=write.key, timestamp=write.timestamp)
    _finish(node, write.asker, client_api.Ok())


def on_deadlines(node: NodeState) -> None:
    """Give up on the writes whose time is over; the leader keeps their items."""
    expired, next_at = node.writes.expired(node.time)
    node.set_timer(TIMER, next_at)
    for write in expired:
        if write.acks is None:
            _finish(node, write.asker, client_api.Unknown("the leader did not answer"))
            continue
        node.counters["publishes_failed"] += 1
        node.trace("publish", ok=False, key=write.key, timestamp=write.timestamp, acks=sorted(write.acks))
        why = f"data publish failed, caused failed to notify majority, key={write.key}"
        _finish(node, write.asker, client_api.Unknown(why))


def abandon_writes(node: NodeState) -> None:
    """The protocol stops: these writes get no other answer."""
    for write in node.writes.clear():
        _finish(node, write.asker, client_api.Unknown(STOPPED))
    node.set_timer(TIMER, None)


def _delete(node: NodeState, asker: Asker, key: str) -> None:
    source = node.record()
    if not node.knobs.leader_needs_majority_acks:
        node.reset_leader_due()
    _forget(node, [key], source.ip)
    node.send_others(m.DatumDelete(key, source))
    _finish(node, asker, client_api.Ok())


def received_delete_ack(node: NodeState) -> None:
    """A follower removed an item, which keeps the leader from electing."""
    if not node.knobs.leader_needs_majority_acks:
        node.reset_leader_due()


# --- the others -------------------------------------------------------------------------------------------------


def received_publish(node: NodeState, src: str, body: m.DatumPublish) -> None:
    """Store an item of the leader, or refuse."""
    refusal = "received empty datum" if body.datum.value is None else _refusal(node, body.source)
    if refusal is not None:
        node.answer_peer(src, m.CallError("publish", "illegal state", refusal, body.number))
        return
    node.reset_leader_due()
    node.items.put(body.datum)
    _catch_up_term(node, body.source.ip, body.source.term)
    if node.rules.stores_item:
        node.store(storage.write_datum(node.knobs.namespace, body.datum), with_term=True)
    node.trace("data_applied", key=body.datum.key, timestamp=body.datum.timestamp, source=body.source.ip)
    node.answer_peer(src, m.PublishAck(body.number))


def received_delete(node: NodeState, src: str, body: m.DatumDelete) -> None:
    """Remove an item of the leader, or refuse."""
    refusal = _refusal(node, body.source)
    if refusal is not None:
        node.answer_peer(src, m.CallError("delete", "illegal state", refusal))
        return
    node.reset_leader_due()
    _catch_up_term(node, body.source.ip, body.source.term)
    _forget(node, [body.key], body.source.ip)
    node.answer_peer(src, m.DeleteAck())


def _refusal(node: NodeState, source: m.RaftPeer) -> str | None:
    if node.stop_work:
        return STOPPED
    if not (node.knobs.standalone or node.peers.is_leader(source.ip)):
        return f"peer({source.ip}) tried to publish data but wasn't leader"
    if source.term < node.local.term:
        return f"out of date publish, pub-term:{source.term}, cur-term: {node.local.term}"
    return None


def _catch_up_term(node: NodeState, source: str, source_term: int) -> None:
    local = node.local
    if local.term + PUBLISH_TERM_INCREASE_COUNT > source_term:
        term = source_term
        if node.peers.leader is not None:
            node.peers.leader.term = source_term
    else:
        term = local.term + PUBLISH_TERM_INCREASE_COUNT
    if term < local.term and (node.knobs.persist_vote or node.knobs.beat_raises_term):
        return
    rises = term > local.term
    node.set_term(term, "data")
    if rises and node.knobs.beat_raises_term:
        node.relabel(source, "data")


def _forget(node: NodeState, keys: list[str], source: str) -> None:
    ops: list[DiskOp] = []
    gone = [key for key in keys if node.items.delete(key)]
    for key in gone:
        ops += storage.delete_datum(node.knobs.namespace, key)
    if gone:
        node.store(tuple(ops), with_term=True)
    for key in gone:
        node.trace("data_deleted", key=key, source=source)


# --- the data half of a beat ------------------------------------------------------------------------------------


def sync_from_beat(node: NodeState, sender: m.RaftPeer, stamps: tuple[m.DatumStamp, ...]) -> None:
    """Fetch what is newer there, delete what is not there."""
    wanted = [stamp.key for stamp in stamps if node.items.is_older(stamp.key, stamp.timestamp)]
    for start in range(0, len(wanted), FETCH_BATCH_MAX):
        node.send(sender.ip, m.DatumFetch(tuple(wanted[start : start + FETCH_BATCH_MAX]), sender.term))
    listed = {stamp.key for stamp in stamps}
    _forget(node, [key for key in node.items.keys() if key not in listed], sender.ip)  # noqa: SIM118 - not a mapping


def received_fetch(node: NodeState, src: str, body: m.DatumFetch) -> None:
    """Hand out items, in any role."""
    found = (node.items.get(key) for key in body.keys)
    node.answer_peer(src, m.FetchAnswer(tuple(datum for datum in found if datum is not None), body.term))


def received_fetched(node: NodeState, src: str, answer: m.FetchAnswer) -> None:
    """Store the fetched items that are still newer; the term moves with each."""
    if node.stop_work:
        return
    ops: list[DiskOp] = []
    stored = []
    for datum in answer.datums:
        if datum.value is None or not node.items.is_older(datum.key, datum.timestamp):
            continue
        node.items.put(datum)
        node.reset_leader_due()
        _catch_up_term(node, src, answer.term)
        ops += storage.write_datum(node.knobs.namespace, datum)
        stored.append(datum)
    if stored:
        node.store(tuple(ops), with_term=True)
    for datum in stored:
        node.trace("data_applied", key=datum.key, timestamp=datum.timestamp, source=src)
