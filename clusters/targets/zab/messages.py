"""What the nodes of an ensemble send each other, and the transactions of their log.

Guarantees: a body is frozen and may be shared between sends. A zxid is epoch << 32 | counter, counted from 1 in each
epoch. ``Notification`` goes to any voter; everything else travels in a ``Packet``, which numbers the connection of one
follower to its leader and what it carries, so that a loss and a message of an older connection are seen. Out of scope:
observers (OBSERVERINFO, INFORM), reconfiguration, sessions.

Source: Apache ZooKeeper (FastLeaderElection, LearnerHandler, Learner); the epoch in ``AckEpoch``, the lengths in
``NewLeader`` and the origin in ``Proposal`` are ours.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Put

Command = Append | Put | Cas
COUNTER_MAX = (1 << 32) - 1
NOT_COUNTED = -1


def zxid_of(epoch: int, counter: int = 0) -> int:
    """The zxid of that transaction; counter 0: the epoch itself."""
    return epoch << 32 | counter


def epoch_of(zxid: int) -> int:
    """The epoch in which it was proposed."""
    return zxid >> 32


class Txn(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One transaction of the log."""

    zxid: int
    command: Command


class Vote(NamedTuple):
    """Which node should lead, with the end of its log and the epoch that it last synced in."""

    leader: str
    zxid: int
    peer_epoch: int


class Notification(msgspec.Struct, frozen=True, gc=False, tag="notification"):
    """A node's vote, its round of elections and its state."""

    vote: Vote
    round: int
    state: str


class FollowerInfo(msgspec.Struct, frozen=True, gc=False, tag="followerinfo"):
    """→ leader: the first packet of a connection; the epoch that the follower accepted last."""

    accepted: int


class LeaderInfo(msgspec.Struct, frozen=True, gc=False, tag="leaderinfo"):
    """← the new epoch."""

    epoch: int


class AckEpoch(msgspec.Struct, frozen=True, gc=False, tag="ackepoch"):
    """→ the epoch is accepted. ``current``: of the last sync; -1: this epoch was accepted before, do not count."""

    epoch: int
    current: int
    zxid: int


class OfZxid(msgspec.Struct, frozen=True, gc=False):
    """What names one transaction, or an epoch as a whole."""

    zxid: int


class Diff(OfZxid, frozen=True, tag="diff"):
    """← keep the log; what is missing follows."""


class Trunc(OfZxid, frozen=True, tag="trunc"):
    """← remove everything after ``zxid``; what is missing follows."""


class Snap(msgspec.Struct, frozen=True, gc=False, tag="snap"):
    """← the whole history."""

    txns: tuple[Txn, ...]


class NewLeader(msgspec.Struct, frozen=True, gc=False, tag="newleader"):
    """← the history is complete. ``initial``: transactions of the history before this epoch; ``end``: of all of it."""

    zxid: int
    initial: int
    end: int


class UpToDate(msgspec.Struct, frozen=True, gc=False, tag="uptodate"):
    """← the leader is established: serve."""


class Ack(OfZxid, frozen=True, tag="ack"):
    """→ stored; counter 0 answers NEWLEADER and UPTODATE."""


class Proposal(msgspec.Struct, frozen=True, gc=False, tag="proposal"):
    """← log this. ``origin``: the node, connection and number of the forwarded request."""

    txn: Txn
    origin: tuple[str, int, int] | None = None


class Commit(OfZxid, frozen=True, tag="commit"):
    """← a quorum stored it."""


class Ping(msgspec.Struct, frozen=True, gc=False, tag="ping"):
    """Both ways: alive."""


class Forward(msgspec.Struct, frozen=True, gc=False, tag="request"):
    """→ a client's write (REQUEST)."""

    number: int
    command: Command


ToLeader = FollowerInfo | AckEpoch | Ack | Forward | Ping
ToFollower = LeaderInfo | Diff | Trunc | Snap | NewLeader | UpToDate | Proposal | Commit | Ping
Body = ToLeader | ToFollower


class Packet(msgspec.Struct, frozen=True, gc=False, tag="packet"):
    """The ``seq``-th message of one direction of the connection ``link``."""

    link: int
    seq: int
    body: Body


class Closed(msgspec.Struct, frozen=True, gc=False, tag="closed"):
    """There is no such connection, or no longer."""

    link: int


ZabMessage = Notification | Packet | Closed
