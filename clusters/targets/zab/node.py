"""The state of one ZAB node, of its role and its connections, and the steps that roles share: notes, the disk.

Guarantees: a batch that must be on disk before anything else leaves is followed by a barrier (`store`); a leader's own
proposals carry none, and what follows from them runs when they are done. A connection hands over messages in their
order, each once. Out of scope: every decision (`rules`, and one module a role).

Source: Apache ZooKeeper, QuorumPeer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, Log, epoch_ops
from dethrone.clusters.targets.zab.messages import Body, Notification, Packet, Proposal, Txn, Vote, epoch_of
from dethrone.clusters.targets.zab.rules import ELECTION, LEADING, LOOKING, NOMINATED, Rules
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, DiskOp, Note

NOTIFY, FINALIZE, TICK, CONNECT = "notify", "finalize", "tick", "connect"
"""Timers: sending the vote again; the quiet time before a decision; half a tick; the next try to reach the leader."""


class Link:
    """One end of a connection to another node: what was sent, and what came in order. ``heard``: when that last was."""

    def __init__(self, to: str, number: int, now: Ns) -> None:
        self.to = to
        self.number = number
        self.sent = self.got = 0
        self.held: dict[int, Body] = {}
        self.heard = now

    def take(self, packet: Packet, now: Ns) -> list[Body]:
        """The messages that are next in order now."""
        if packet.seq > self.got:
            self.held[packet.seq] = packet.body
        out = []
        while self.got + 1 in self.held:
            self.got += 1
            out.append(self.held.pop(self.got))
        if out or not self.held:
            self.heard = now
        return out


class Peer(Link):
    """A follower's connection, as its leader sees it."""

    def __init__(self, to: str, number: int, now: Ns, lead: Leading) -> None:
        super().__init__(to, number, now)
        self.lead = lead
        self.zxid = -1
        """The end of its log, once it accepted the epoch."""
        self.forwarding = False
        self.answered = self.acked = False
        """Whether it sent any ACK on this connection; whether the first one answered NEWLEADER."""
        self.unacked: deque[tuple[int, Ns]] = deque()


class Leading:
    """What a node holds only while it leads. ``initial``: the length of the history before its epoch."""

    def __init__(self, initial: int) -> None:
        self.initial = initial
        self.epoch = 0
        self.fixed = False
        """The epoch is: LEADERINFO may leave."""
        self.peers: dict[str, Peer] = {}
        self.info_from: set[str] = set()
        self.epoch_acks: set[str] = set()
        self.leader_acks: set[str] = set()
        self.counter = 0
        self.outstanding: dict[int, set[str]] = {}
        """Zxid → who stored the proposal, oldest first."""
        self.ticks = 0


class Following(Link):
    """The connection to the leader that the node's vote names, and what it holds only while it follows."""

    def __init__(self, to: str, number: int, now: Ns, *, tries: int, last: int) -> None:
        super().__init__(to, number, now)
        self.tries = tries
        """How many connections there were, this one included."""
        self.last = last
        """The last transaction, logged or buffered."""
        self.snapshot: tuple[Txn, ...] | None = None
        self.buffer: list[Proposal] = []
        self.commits: list[int] = []


class Node(KitNode):
    """One node."""

    def __init__(self, name: str, members: tuple[str, ...], rules: Rules) -> None:
        super().__init__()
        self.me = name
        self.knobs = rules.knobs
        self.rules = rules
        self.sids = {member: place for place, member in enumerate(members, 1)}
        self.others = tuple(member for member in members if member != name)
        self.quorum = len(members) // 2 + 1
        self.log = Log()
        self.machine = Machine()

        self.role, self.phase = LOOKING, ELECTION
        self.deadline: Ns = 0
        """Of discovery or synchronization."""
        self.accepted = self.durable_accepted = self.current = 0
        self.commit = 0
        """How many transactions are known to be committed, and are applied."""
        self.voted_for: str | None = None
        """The leader that counts this node for the last epoch that this process accepted."""
        self.leader: str | None = None
        """The leader of the accepted epoch, once that is known to be won."""

        self.round = 0
        self.vote = Vote(name, 0, 0)
        """While LOOKING the own one; else the one that was decided on."""
        self.own_vote = self.vote
        """With which this node entered the election: the end of its log, and currentEpoch."""
        self.received: dict[str, Notification] = {}
        self.outside: dict[str, Notification] = {}
        """Votes of nodes that follow or lead (outofelection)."""
        self.finalizing = False
        self.interval: Ns = 0

        self.lead: Leading | None = None
        self.follow: Following | None = None
        self.link_number = 0

        self.pending: dict[int, Callable[[], None]] = {}
        self.waiting: dict[int, int] = {}
        """Number of a write, from 1 → the client's request that it answers."""
        self.origins: dict[int, int] = {}
        """Zxid → the number of the write that it is, where it was asked of this node."""
        self.writes = 0

    # --- saying -----------------------------------------------------------------------------------------------------

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event."""
        self.out.append(Note(name, self.accepted, self.shown_role(), data))

    def link(self, src: str, number: int) -> Link | None:
        """The connection of this number with that node."""
        link: Link | None = self.follow if self.lead is None else self.lead.peers.get(src)
        return link if link is not None and (link.to, link.number) == (src, number) else None

    def pack(self, link: Link, body: Body) -> None:
        """Append a message on a connection."""
        link.sent += 1
        self.send(link.to, Packet(link.number, link.sent, body))

    def shown_role(self) -> str:
        """A leader that has not won its epoch is only nominated."""
        return NOMINATED if self.role == LEADING and self.leader is None else self.role

    def enter(self, phase: str) -> None:
        """Wait for the next thing in this phase, for initLimit."""
        self.phase = phase
        self.deadline = self.mono + self.knobs.init_ns

    def enough(self, nodes: set[str]) -> bool:
        """Whether these nodes are a quorum of this leader's."""
        return self.rules.enough(nodes, self.me, self.quorum)

    # --- disk -------------------------------------------------------------------------------------------------------

    def write(self, ops: tuple[DiskOp, ...], done: Callable[[], None] = lambda: None) -> int:
        """Start a batch; ``done`` is called when the disk has it."""
        token = self.batch(ops)
        self.pending[token] = done
        return token

    def store(self, ops: tuple[DiskOp, ...], done: Callable[[], None] = lambda: None) -> None:
        """The same, and nothing that follows leaves before."""
        if ops:
            self.out.append(Await(self.write(ops, done)))

    def accept(self, epoch: int, leader: str, *, store: bool) -> None:
        """Accept an epoch, and be counted by its leader."""
        self.accepted, self.voted_for = epoch, leader
        if not store:
            self.durable_accepted = epoch
            return

        def done() -> None:
            self.durable_accepted = epoch
            self.note("persisted", {"file": ACCEPTED, "epoch": epoch})

        self.store(epoch_ops(ACCEPTED, epoch), done)

    def current_ops(self, epoch: int) -> tuple[DiskOp, ...]:
        """Adopt an epoch's history: the batch that stores it."""
        self.current = epoch
        return epoch_ops(CURRENT, epoch)

    # --- applying ---------------------------------------------------------------------------------------------------

    def deliver(self, upto: int) -> None:
        """Commit and apply the first ``upto`` transactions; answer those that clients of this node wait for."""
        before, self.commit = self.commit, max(self.commit, upto)
        if before == self.commit:
            return
        self.note("commit", {"old": before, "new": self.commit, "zxid": self.log.term_at(self.commit)})
        for place in range(before, self.commit):
            txn = self.log.entries[place]
            result = self.machine.apply(place + 1, txn.command)
            request = self.waiting.pop(self.origins.pop(txn.zxid, 0), None)
            if request is not None:
                self.answer(request, result, place + 1, epoch_of(txn.zxid))
