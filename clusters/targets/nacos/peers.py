"""The set of records that a node keeps of all peers, and the two ways in which it decides who leads.

``decide_leader`` counts, after each answer to a vote, the ``voteFor`` of ALL known records of any term and age.
``make_leader`` follows the sender of an accepted beat.

Guarantees: pure bookkeeping, in the original's order; nothing is sent or noted here. Records handed in are copied. Ties
in the tally go to the first in member order to get strictly ahead.

Out of scope, as in the original: whether the node still campaigns, whether an answer belongs to this round, whether the
winner is the node itself. The caller decides which records count.

Source: docs/sources.md, nacos: ``RaftPeerSet``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from dethrone.clusters.targets.nacos.messages import RaftPeer, State


class PeerRecord(msgspec.Struct, eq=False):
    """One node's last known copy of one peer."""

    ip: str
    vote_for: str | None = None
    term: int = 0
    leader_due_ms: int = 0
    heartbeat_due_ms: int = 0
    state: State = "FOLLOWER"

    @classmethod
    def of(cls, record: RaftPeer) -> PeerRecord:
        """A copy of a record from the wire. An empty ``voteFor`` is none."""
        peer = cls(*msgspec.structs.astuple(record))
        peer.vote_for = record.vote_for or None
        return peer

    def record(self) -> RaftPeer:
        """A frozen copy for the wire."""
        return RaftPeer(*msgspec.structs.astuple(self))

    def shown(self) -> dict[str, Any]:
        """For the observer record, which names it."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "ip"}


class Decision(NamedTuple):
    """What one ``decide_leader`` counted and did."""

    counts: dict[str, int]
    counted: dict[str, int]
    """Peer whose record was counted → the term of that record."""
    best: int
    majority: int
    winner: str | None
    """The best-named peer, if it has a majority and is known."""
    winner_was: State | None
    """The state of the winner's record before it was made LEADER."""
    leader_changed: bool


class RaftPeerSet:
    """All records of one node. ``peers`` always holds the own one, under the own name."""

    def __init__(self, me: str, members: tuple[str, ...], *, majority: Callable[[int], int]) -> None:
        self._majority = majority
        self.me = me
        self.peers = {ip: PeerRecord(ip) for ip in members}
        self.leader: PeerRecord | None = None
        self.local_term = 0
        """What was loaded at the start; reaches the own record only as ``restart_term`` says."""
        self.ready = True
        """The member list is known."""

    @property
    def local(self) -> PeerRecord:
        """The own record."""
        return self.peers[self.me]

    @property
    def leader_ip(self) -> str | None:
        """Who leads, as far as this node knows. May contradict every role."""
        return None if self.leader is None else self.leader.ip

    def majority_count(self) -> int:
        """How many of the known records are a majority."""
        return self._majority(len(self.peers))

    def contains(self, ip: str) -> bool:
        """Whether a record of that peer exists."""
        return ip in self.peers

    def is_leader(self, ip: str) -> bool:
        """By the ``leader`` field only; the role is not asked."""
        return self.leader is not None and self.leader.ip == ip

    def reset(self, *, votes: bool) -> None:
        """Before a campaign: no node leads, and (``votes``) no record names a candidate."""
        self.leader = None
        if votes:
            for peer in self.peers.values():
                peer.vote_for = None

    def shutdown(self) -> None:
        """The protocol stops for good: nothing is known any more but the own name."""
        self.peers = {self.me: PeerRecord(self.me)}
        self.leader = None
        self.ready = False

    def update(self, record: RaftPeer) -> None:
        """Replace what is known of that peer."""
        self.peers[record.ip] = PeerRecord.of(record)

    def decide_leader(
        self, answer: RaftPeer, *, counts: Callable[[int], bool], wins: Callable[[int, int], bool]
    ) -> Decision:
        """Take in an answer to a vote and count the records that name each node.

        ``counts``: whether a record of that term counts; ``wins``: whether this many of the counted records suffice.
        """
        self.update(answer)
        named_by: dict[str, int] = {}
        counted: dict[str, int] = {}
        best = 0
        named: str | None = None
        for ip, peer in self.peers.items():
            if peer.vote_for is None or not counts(peer.term):
                continue
            counted[ip] = peer.term
            count = named_by.get(peer.vote_for, 0) + 1
            named_by[peer.vote_for] = count
            if count > best:
                best, named = count, peer.vote_for
        majority = self.majority_count()
        winner = self.peers.get(named) if named is not None and wins(best, len(counted)) else None
        if winner is None:
            return Decision(named_by, counted, best, majority, None, None, leader_changed=False)
        was, winner.state = winner.state, "LEADER"
        changed = self.leader_ip != winner.ip
        if changed:
            self.leader = winner
        return Decision(named_by, counted, best, majority, winner.ip, was, changed)

    def make_leader(self, sender: RaftPeer) -> tuple[bool, list[str]]:
        """Follow the sender of a beat: whether that is news, and which peers' records must be fetched again."""
        changed = self.leader_ip != sender.ip
        if changed:
            self.leader = PeerRecord.of(sender)
        stale = [ip for ip, peer in self.peers.items() if ip != sender.ip and peer.state == "LEADER"]
        self.update(sender)
        return changed, stale
