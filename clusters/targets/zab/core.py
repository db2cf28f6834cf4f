"""The ZAB core: boots from a disk and passes each event to the node's current role.

Guarantees: deterministic; after ``Halt`` the core does nothing. A batch that fails halts the node, which would
otherwise forget what it is about to send. Out of scope: every rule (`rules`) and the roles (one module each).

Source: Apache ZooKeeper, QuorumPeer (loadDataBase, run).
"""

from __future__ import annotations

from collections.abc import Callable

from dethrone.clusters.targets.client_api import Append, Cas, Get, NotLeader, Ok, Put, Refused
from dethrone.clusters.targets.kit.files import Unreadable, file_of
from dethrone.clusters.targets.zab import election, following, leading
from dethrone.clusters.targets.zab.knobs import ZabKnobs
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, LOG, read_epoch
from dethrone.clusters.targets.zab.messages import Closed, Notification, Packet, epoch_of
from dethrone.clusters.targets.zab.node import CONNECT, FINALIZE, NOTIFY, TICK, Node
from dethrone.clusters.targets.zab.rules import BROADCAST, LEADING, LOOKING, Rules
from dethrone.clusters.targets.zab.status import glance, status
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import (
    CoreEvent,
    CoreStatus,
    DiskDone,
    DiskImage,
    DiskOp,
    Effect,
    Fired,
    Fsync,
    Glance,
    Halt,
    Message,
    Request,
)
from dethrone.harness.core.rng import Rng

PENDING_MAX = 10_000


class ZabCore:
    """One node; every member is a voter."""

    __slots__ = ("node",)

    def __init__(self, node: str, members: tuple[str, ...], knobs: ZabKnobs, rules: Rules) -> None:
        del knobs  # those of the rules: a build may have its own
        self.node = Node(node, members, rules)

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Start from what the disk holds; a file that cannot be read, or contradicts another, halts the node."""
        n = self.node
        n.mono, n.rng, n.out = now.mono, rng, out
        n.link_number = rng.below(1 << 31)  # packets of an earlier life must not fit a connection of this one
        try:
            content = file_of(disk, LOG)
            ops: tuple[DiskOp, ...] = () if content is None else n.log.load(content)
            last = epoch_of(n.log.last)
            accepted, current = read_epoch(disk, ACCEPTED), read_epoch(disk, CURRENT)
        except Unreadable as error:
            _halt(n, f"unreadable: {error}")
            return
        n.current = last if current is None else current
        n.accepted = n.durable_accepted = max(last, n.current) if accepted is None else accepted
        if n.accepted < n.current and n.rules.follower_stores_accepted and n.rules.leader_stores_accepted:
            _halt(n, f"acceptedEpoch {n.accepted} is below currentEpoch {n.current}")
            return
        n.accepted = max(n.accepted, n.current)
        if last > n.current and n.knobs.epoch_mismatch == "refuse":
            _halt(n, f"the log is of epoch {last}, currentEpoch says {n.current}")
            return
        n.store((*ops, *(Fsync(path) for path in (ACCEPTED, CURRENT) if path in disk)))
        n.note("start", {"accepted": n.accepted, "current": n.current, "zxid": n.log.last})
        election.look(n, "start")

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event."""
        n = self.node
        if n.halted:
            return
        n.mono, n.rng, n.out = now.mono, rng, out
        match event:
            case Message(src=src, body=body):
                _hear(n, src, body)
            case Fired(timer):
                _TIMERS[timer](n)
            case DiskDone(token, error):
                done = n.pending.pop(token, None)
                if error is not None:
                    n.note("persist_failed", {"error": error})
                    _halt(n, f"disk: {error}")
                elif done is not None:
                    done()
            case Request(id=number, body=body):
                _ask(n, number, body)
            case _:
                pass  # SendFailed: every loss shows on its connection
        if n.role != LOOKING and n.lead is None and n.follow is None and not n.halted:
            (leading if n.role == LEADING else following).begin(n)

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record."""
        del now
        return status(self.node)

    def glance(self) -> Glance:
        """Its main fields."""
        return glance(self.node)


def _halt(n: Node, reason: str) -> None:
    n.halted = True
    n.out.append(Halt(reason))


def _hear(n: Node, src: str, body: object) -> None:
    if isinstance(body, Notification):
        election.on_notification(n, src, body)
    elif isinstance(body, Packet):
        if n.role == LOOKING:
            n.send(src, Closed(body.link))
        else:
            (leading if n.role == LEADING else following).on_packet(n, src, body)
    elif isinstance(body, Closed):
        if n.lead is not None:
            peer = n.lead.peers.get(src)
            if peer is not None and peer.link.number == body.link:
                del n.lead.peers[src]
        elif n.follow is not None and (src, body.link) == (n.follow.leader, n.follow.link.number):
            following.on_closed(n)


def _tick(n: Node) -> None:
    leading.on_tick(n)
    following.on_tick(n)


_TIMERS: dict[str, Callable[[Node], None]] = {
    NOTIFY: election.on_notify_timer,
    FINALIZE: election.on_finalize_timer,
    CONNECT: following.connect,
    TICK: _tick,
}


def _ask(n: Node, request: int, body: object) -> None:
    """Reads are local and may be old; a follower passes writes on."""
    if n.phase != BROADCAST:
        n.reply(request, NotLeader(n.leader if n.leader != n.me else None))
    elif isinstance(body, Get):
        n.reply(request, Ok(n.machine.read(body.key)))
    elif not isinstance(body, Append | Put | Cas):
        n.reply(request, Refused("not served by this target"))
    elif len(n.waiting) >= PENDING_MAX:
        n.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
    elif n.lead is not None:
        leading.propose(n, body, request=request)
    else:
        following.forward(n, request, body)
