"""What a node holds only while it follows or leads, and one end of a connection: plain data.

Guarantees: none of it is on disk. Out of scope: what the roles do (``following``, ``leading``).
"""

from __future__ import annotations

from collections import deque

from dethrone.clusters.targets.zab.messages import Body, Packet, Proposal, Txn
from dethrone.harness.core.clock import Ns


class Link:
    """One end of a connection: what was sent on it, and what came in order. ``heard``: when that was last."""

    def __init__(self, number: int, now: Ns) -> None:
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


class Following:
    """What a node holds only while it follows."""

    def __init__(self, leader: str, *, now: Ns, deadline: Ns) -> None:
        self.leader = leader
        self.link = Link(0, now)
        self.tries = 0
        self.epoch = 0
        """Of LEADERINFO; 0: not heard yet."""
        self.last = 0
        """The last transaction, logged or buffered."""
        self.snapshot: tuple[Txn, ...] | None = None
        self.buffer: list[Proposal] = []
        self.commits: list[int] = []
        self.synced = False
        """NEWLEADER was acknowledged."""
        self.deadline = deadline


class Peer:
    """A follower's connection, as its leader sees it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.zxid = -1
        """The end of its log, once it accepted the epoch."""
        self.synced = self.forwarding = False
        self.answered = self.acked = False
        """Whether it sent any ACK on this connection; whether the first one answered NEWLEADER."""
        self.unacked: deque[tuple[int, Ns]] = deque()


class Leading:
    """What a node holds only while it leads."""

    def __init__(self, own: tuple[int, int], *, initial: int, deadline: Ns) -> None:
        self.own = own
        self.epoch = 0
        self.fixed = self.won = self.elected = self.established = False
        """Fixed: LEADERINFO may leave. Won: an ACKEPOCH quorum. Elected: the same, and currentEpoch is stored."""
        self.peers: dict[str, Peer] = {}
        self.info_from: set[str] = set()
        self.epoch_acks: set[str] = set()
        self.leader_acks: set[str] = set()
        self.initial = initial
        self.counter = 0
        self.outstanding: dict[int, set[str]] = {}
        """Zxid → who stored the proposal, oldest first."""
        self.deadline = deadline
        self.ticks = 0
