"""The ZAB core: boots from a disk and passes each event to the node's current role.

Guarantees: deterministic; after ``Halt`` the core does nothing. A batch that fails halts the node, which would
otherwise forget what it is about to send. Out of scope: every rule (`rules`) and the roles (one module each).

Source: Apache ZooKeeper, QuorumPeer (loadDataBase, run).
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.client_api import Append, Cas, Get, NotLeader, Ok, Put, Refused
from dethrone.clusters.targets.kit.core import KitCore
from dethrone.clusters.targets.zab import election, following, leading
from dethrone.clusters.targets.zab.knobs import ZabKnobs
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, read_epoch, read_log
from dethrone.clusters.targets.zab.messages import Closed, FollowerInfo, Forward, Notification, Packet, epoch_of
from dethrone.clusters.targets.zab.node import CONNECT, FINALIZE, NOTIFY, TICK, Node, Peer
from dethrone.clusters.targets.zab.rules import BROADCAST, LEADING, LOOKING, Rules
from dethrone.harness.core.machine import DiskDone, DiskImage, Fsync, Glance

PENDING_MAX = 10_000


def _on_packet(n: Node, src: str, packet: Packet) -> None:
    link = n.link(src, packet.link)
    if link is None and n.lead is not None and packet.seq == 1 and isinstance(packet.body, FollowerInfo):
        link = n.lead.peers[src] = Peer(src, packet.link, n.mono, n.lead)
    if link is None:
        n.send(src, Closed(packet.link))
        return
    for body in link.take(packet, n.mono):
        handler = (following if n.lead is None else leading).HANDLERS.get(type(body))
        if handler is not None and n.link(src, packet.link) is link:
            handler(n, link, body)


def _on_closed(n: Node, src: str, body: Closed) -> None:
    if n.link(src, body.link) is None:
        return
    if n.lead is not None:
        del n.lead.peers[src]
    else:
        following.on_closed(n)


def _on_tick(n: Node) -> None:
    n.timer(TICK, n.knobs.tick_time // 2)
    if n.lead is not None:
        leading.on_tick(n, n.lead)
    elif n.follow is not None:
        following.on_tick(n, n.follow)


def _glance(n: Node) -> Glance:
    """The main fields. ``term`` is acceptedEpoch, for currentEpoch lags; a leader is named once its epoch is won.

    Nothing that a crash at this moment could undo: while acceptedEpoch is being written, the epoch on disk. Places in
    the log stand for zxids: its end is (epoch, place).
    """
    end = (epoch_of(n.log.last), n.log.end)
    if n.accepted != n.durable_accepted:
        return LOOKING, n.durable_accepted, None, None, end, n.commit
    return n.shown_role(), n.accepted, n.leader, n.voted_for, end, n.commit


def _shown(n: Node) -> dict[str, Any]:
    lead = n.lead
    extra = {
        "phase": n.phase,
        "currentEpoch": n.current,
        "round": n.round,
        "vote": list(n.vote),
        "zxid": n.log.last,
        "established": lead is not None and n.phase == BROADCAST,
    }
    if lead is not None:
        extra["infoFrom"] = sorted(lead.info_from)
        extra["epochAcks"] = sorted(lead.epoch_acks)
        extra["newLeaderAcks"] = sorted(lead.leader_acks)
        extra["forwarding"] = sorted(peer.to for peer in lead.peers.values() if peer.forwarding)
    return {"hw": n.commit, "extra": extra}


class ZabCore(KitCore[Node]):
    """One node; every member is a voter."""

    MESSAGES: ClassVar = {Notification: election.on_notification, Packet: _on_packet, Closed: _on_closed}
    TIMERS: ClassVar = {
        NOTIFY: election.on_notify_timer,
        FINALIZE: election.on_finalize_timer,
        CONNECT: following.connect,
        TICK: _on_tick,
    }
    SHOWN = (_glance, _shown)

    def __init__(self, node: str, members: tuple[str, ...], knobs: ZabKnobs, rules: Rules) -> None:
        del knobs  # those of the rules: a build may have its own
        self.node = Node(node, members, rules)

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds; files that contradict each other halt the node."""
        n = self.node
        n.link_number = n.rng.below(1 << 31)  # packets of an earlier life must not fit a connection of this one
        ops = n.log.recover(disk, read_log)
        last = epoch_of(n.log.last)
        accepted, current = read_epoch(disk, ACCEPTED), read_epoch(disk, CURRENT)
        n.current = last if current is None else current
        n.accepted = max(last, n.current) if accepted is None else accepted
        if n.accepted < n.current and n.rules.follower_stores_accepted and n.rules.leader_stores_accepted:
            n.halt(f"acceptedEpoch {n.accepted} is below currentEpoch {n.current}")
            return
        n.accepted = n.durable_accepted = max(n.accepted, n.current)
        if last > n.current and n.knobs.epoch_mismatch == "refuse":
            n.halt(f"the log is of epoch {last}, currentEpoch says {n.current}")
            return
        n.store((*ops, *(Fsync(path) for path in (ACCEPTED, CURRENT) if path in disk)))
        n.note("start", {"accepted": n.accepted, "current": n.current, "zxid": n.log.last})
        election.look(n, "start")

    def on_request(self, request: int, body: Any) -> None:
        """Reads are local and may be old; a follower passes writes on."""
        n = self.node
        if n.phase != BROADCAST:
            n.reply(request, NotLeader(n.leader if n.leader != n.me else None))
        elif isinstance(body, Get):
            n.reply(request, Ok(n.machine.read(body.key)))
        elif not isinstance(body, Append | Put | Cas):
            n.reply(request, Refused("not served by this target"))
        elif len(n.waiting) >= PENDING_MAX:
            n.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
        else:
            n.writes += 1
            n.waiting[n.writes] = request
            if n.lead is not None:
                leading.propose(n, n.lead, body, own=n.writes)
            elif n.follow is not None:
                n.pack(n.follow, Forward(n.writes, body))

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        n = self.node
        if done.error is not None:
            n.note("persist_failed", {"error": done.error})
            n.halt(f"disk: {done.error}")
        else:
            n.pending.pop(done.token)()

    def settle(self) -> None:
        """A decision gave the node a role: begin it."""
        n = self.node
        if n.role != LOOKING and n.lead is None and n.follow is None and not n.halted:
            n.timer(TICK, n.knobs.tick_time // 2)
            (leading if n.role == LEADING else following).begin(n)
