"""The leader: it finds an epoch, synchronizes its followers, and broadcasts.

Guarantees: an epoch is fixed and stored when a quorum, this node included, named what it accepted; it is won by a
quorum that acknowledged it and is not ahead of this node; it is established, and serves, when a quorum stored the whole
initial history. A follower's sync is computed and queued in one step, so that no proposal is missed. A write is
committed, in order, when a quorum stored it. Out of scope: observers, snapshots of a shortened log.

Source: Apache ZooKeeper, Leader and LearnerHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.targets.zab import messages as m
from dethrone.clusters.targets.zab.election import look
from dethrone.clusters.targets.zab.messages import epoch_of, zxid_of
from dethrone.clusters.targets.zab.node import Leading, Node, Peer
from dethrone.clusters.targets.zab.rules import BROADCAST, DISCOVERY, SYNCHRONIZATION

Origin = tuple[str, int, int] | None


def begin(n: Node) -> None:
    """Nominated: wait for followers."""
    n.lead = lead = Leading(n.log.end)
    n.enter(DISCOVERY)
    _informed(n, lead, n.me, n.accepted if n.rules.counts_own_accepted else 0)


def _drop(n: Node, peer: Peer, why: str) -> None:
    """Close a follower's connection."""
    del peer.lead.peers[peer.to]
    n.note("follower_closed", {"sid": peer.to, "why": why})
    n.send(peer.to, m.Closed(peer.number))


# --- discovery ------------------------------------------------------------------------------------------------------


def _named(n: Node, peer: Peer, body: m.FollowerInfo) -> None:
    if peer.lead.fixed:
        n.pack(peer, m.LeaderInfo(peer.lead.epoch))
    else:
        _informed(n, peer.lead, peer.to, body.accepted)


def _informed(n: Node, lead: Leading, sid: str, accepted: int) -> None:
    lead.epoch = max(lead.epoch, accepted + 1)
    lead.info_from.add(sid)
    if not n.enough(lead.info_from):
        return
    lead.fixed = True
    n.note("epoch_proposed", {"epoch": lead.epoch, "info_from": sorted(lead.info_from)})
    n.accept(lead.epoch, n.me, store=n.rules.leader_stores_accepted)
    for peer in lead.peers.values():
        n.pack(peer, m.LeaderInfo(lead.epoch))
    n.enter(DISCOVERY)
    lead.epoch_acks.add(n.me)
    _count(n, lead)


def _epoch_acked(n: Node, peer: Peer, body: m.AckEpoch) -> None:
    if body.current != m.NOT_COUNTED:
        own = n.own_vote
        if n.rules.rank(body.current, body.zxid) > n.rules.rank(own.peer_epoch, own.zxid):
            theirs = [body.current, body.zxid]
            n.note("epoch_refused", {"sid": peer.to, "theirs": theirs, "own": [own.peer_epoch, own.zxid]})
            _drop(n, peer, "its history is ahead")
            return
        peer.lead.epoch_acks.add(peer.to)
    peer.zxid = body.zxid
    if n.phase == DISCOVERY:
        _count(n, peer.lead)
    else:
        _sync(n, peer)


def _count(n: Node, lead: Leading) -> None:
    if n.rules.waits_for_epoch_acks and not n.enough(lead.epoch_acks):
        return
    n.enter(SYNCHRONIZATION)

    def stored() -> None:
        if n.lead is lead:
            n.leader = n.me
            n.note("elected", {"term": lead.epoch, "voters": sorted(lead.epoch_acks)})
            _leader_acked(n, lead, n.me)

    n.store(n.current_ops(lead.epoch), stored)
    for peer in lead.peers.values():
        if peer.zxid >= 0:
            _sync(n, peer)
    if not n.rules.serves_when_established:
        _establish(n, lead)


# --- synchronization ------------------------------------------------------------------------------------------------


def _sync(n: Node, peer: Peer) -> None:
    """Everything that this follower lacks, in one step."""
    log, lead = n.log, peer.lead
    end = n.commit if n.phase == BROADCAST else lead.initial
    last = log.term_at(end)
    p = peer.zxid
    at = log.upto(min(p, last))
    before = log.term_at(at)
    mode: m.Body
    if p == before:
        mode = m.Diff(last)
    elif p > last or (at < end and epoch_of(log.term_at(at + 1)) == epoch_of(p)):
        mode = m.Trunc(before) if n.rules.truncates else m.Diff(last)
    else:
        mode, at = m.Snap(tuple(log.entries[:end])), end
    n.note("sync_sent", {"sid": peer.to, "mode": type(mode).__name__.upper(), "p": p, "pairs": end - at})
    n.pack(peer, mode)
    for txn in log.entries[at:end]:
        n.pack(peer, m.Proposal(txn))
        n.pack(peer, m.Commit(txn.zxid))
    for txn in log.entries[end:]:
        _forward(n, peer, m.Proposal(txn))
    peer.forwarding = n.rules.forwards_at_once
    n.pack(peer, m.NewLeader(zxid_of(lead.epoch), lead.initial, end))


def _leader_acked(n: Node, lead: Leading, sid: str) -> None:
    lead.leader_acks.add(sid)
    if n.phase != BROADCAST and n.me in lead.leader_acks and n.enough(lead.leader_acks):
        _establish(n, lead)


def _establish(n: Node, lead: Leading) -> None:
    n.phase = BROADCAST
    n.note("established", {"epoch": lead.epoch, "acks": sorted(lead.leader_acks), "zxid": n.log.last})
    n.vote = n.vote._replace(peer_epoch=lead.epoch)
    n.deliver(lead.initial)
    for peer in lead.peers.values():
        if peer.acked:
            _up_to_date(n, peer)


def _acked(n: Node, peer: Peer, body: m.Ack) -> None:
    first, peer.answered = not peer.answered, True
    if body.zxid == zxid_of(peer.lead.epoch):
        if not first:
            return
        peer.acked = peer.forwarding = True
        if n.phase == BROADCAST:
            _up_to_date(n, peer)
        _leader_acked(n, peer.lead, peer.to)
        return
    while peer.unacked and peer.unacked[0][0] <= body.zxid:
        peer.unacked.popleft()
    _stored(n, peer.lead, peer.to, body.zxid)


def _up_to_date(n: Node, peer: Peer) -> None:
    peer.unacked = deque((zxid, n.mono) for zxid, _ in peer.unacked)
    n.pack(peer, m.UpToDate())


# --- broadcast ------------------------------------------------------------------------------------------------------


def _forwarded(n: Node, peer: Peer, body: m.Forward) -> None:
    if n.phase == BROADCAST:
        propose(n, peer.lead, body.command, (peer.to, peer.number, body.number))


def propose(n: Node, lead: Leading, command: m.Command, origin: Origin = None, own: int = 0) -> None:
    """A write: to the followers, and to the own log. ``own``: its number, where it was asked of this node."""
    if lead.counter == m.COUNTER_MAX:
        look(n, "the counter of the epoch is used up")
        return
    lead.counter += 1
    txn = m.Txn(zxid_of(lead.epoch, lead.counter), command)
    if own:
        n.origins[txn.zxid] = own
    lead.outstanding[txn.zxid] = set()
    n.note("proposal", {"zxid": txn.zxid})
    for peer in lead.peers.values():
        if peer.forwarding:
            _forward(n, peer, m.Proposal(txn, origin))

    def logged() -> None:
        if n.lead is lead:
            _stored(n, lead, n.me, txn.zxid)

    n.write(n.log.extend((txn,)), logged)


def _forward(n: Node, peer: Peer, proposal: m.Proposal) -> None:
    peer.unacked.append((proposal.txn.zxid, n.mono))
    n.pack(peer, proposal)


def _stored(n: Node, lead: Leading, sid: str, zxid: int) -> None:
    lead.outstanding.get(zxid, set()).add(sid)
    while lead.outstanding:
        oldest, acks = next(iter(lead.outstanding.items()))
        if not n.enough(acks):
            return
        del lead.outstanding[oldest]
        n.deliver(n.log.upto(oldest))
        for peer in lead.peers.values():
            if peer.forwarding:
                n.pack(peer, m.Commit(oldest))


def on_tick(n: Node, lead: Leading) -> None:
    """Half a tick passed: ping, close what is silent, step down without a quorum."""
    heard = {n.me}
    for peer in list(lead.peers.values()):
        allowed = n.knobs.sync_ns + (0 if peer.acked else n.knobs.init_ns)
        if n.mono - peer.heard > allowed:
            _drop(n, peer, "silent")
        elif peer.acked and peer.unacked and n.mono - peer.unacked[0][1] > n.knobs.sync_ns:
            _drop(n, peer, "a proposal is not acknowledged")
        else:
            heard.add(peer.to)
            n.pack(peer, m.Ping())
    lead.ticks += 1
    if n.phase != BROADCAST:
        if n.mono >= n.deadline:
            look(n, f"no quorum in {n.phase} within initLimit")
    elif lead.ticks % 2 == 0 and n.rules.steps_down and not n.enough(heard):
        look(n, "no quorum within syncLimit")


HANDLERS: Mapping[type, Callable[[Node, Any, Any], None]] = {
    m.FollowerInfo: _named,
    m.AckEpoch: _epoch_acked,
    m.Ack: _acked,
    m.Forward: _forwarded,
}
