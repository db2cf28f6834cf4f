"""The messages of the naming Raft: vote, beat, peer, datum calls, and their answers.

Guarantees: frozen data; every body is a member of the tagged union ``NacosMessage``, so a body also survives JSON by
itself (a journal, a trace). The HTTP form of the same bodies is in ``wire``. A node is identified by the ``ip`` of its
record, which here is its NODE NAME: the carrier of the messages maps names to addresses.

Out of scope: a granted/refused flag in the answer to a vote. The original has none; only ``voteFor`` decides.

Source: docs/sources.md, nacos. Fields that the original does not send are ``number`` (the call that an answer belongs
to), ``hops`` and ``term`` of a fetch (the beat that caused it).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

State = Literal["FOLLOWER", "CANDIDATE", "LEADER"]
Call = Literal["vote", "beat", "peer", "fetch", "publish", "delete", "forward"]
ErrorKind = Literal["illegal state", "illegal argument"]


class RaftPeer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The record that travels in every message: what a node knew of one peer (itself included)."""

    ip: str
    vote_for: str | None = None
    term: int = 0
    leader_due_ms: int = 0
    heartbeat_due_ms: int = 0
    state: State = "FOLLOWER"


class Datum(msgspec.Struct, frozen=True, gc=False):
    """One data item. ``timestamp`` orders the versions of a key; it is a counter, not a time."""

    key: str
    value: Any
    timestamp: int


class DatumStamp(msgspec.Struct, frozen=True, gc=False):
    """What a beat reports of one item."""

    key: str
    timestamp: int


# --- requests ---------------------------------------------------------------------------------------------------


class VoteRequest(msgspec.Struct, frozen=True, gc=False, tag="vote"):
    """A candidate's whole record, itself already its own voter."""

    vote: RaftPeer


class BeatRequest(msgspec.Struct, frozen=True, gc=False, tag="beat"):
    """A leader's record, and key and timestamp of every item that it holds."""

    peer: RaftPeer
    datums: tuple[DatumStamp, ...] = ()


class PeerRequest(msgspec.Struct, frozen=True, gc=False, tag="peer"):
    """What is your own record?"""


class DatumFetch(msgspec.Struct, frozen=True, gc=False, tag="fetch"):
    """Give me these items (at most 50). ``term``: of the beat that listed them, handed back with the answer."""

    keys: tuple[str, ...]
    term: int


class DatumPublish(msgspec.Struct, frozen=True, gc=False, tag="publish"):
    """Store this item; ``source`` is the leader's record before it applied the item itself."""

    number: int
    datum: Datum
    source: RaftPeer


class DatumDelete(msgspec.Struct, frozen=True, gc=False, tag="delete"):
    """Remove this item."""

    key: str
    source: RaftPeer


class Forward(msgspec.Struct, frozen=True, gc=False, tag="forward"):
    """A client's write, handed on to the node that the sender holds for the leader. ``value`` None deletes."""

    number: int
    key: str
    value: Any
    hops: int = 1


# --- answers ----------------------------------------------------------------------------------------------------


class VoteAnswer(msgspec.Struct, frozen=True, gc=False, tag="vote_answer"):
    """The responder's whole record, granted or not."""

    peer: RaftPeer


class BeatAnswer(msgspec.Struct, frozen=True, gc=False, tag="beat_answer"):
    """The responder's record after it accepted a beat."""

    peer: RaftPeer


class PeerAnswer(msgspec.Struct, frozen=True, gc=False, tag="peer_answer"):
    """The responder's own record."""

    peer: RaftPeer


class FetchAnswer(msgspec.Struct, frozen=True, gc=False, tag="fetch_answer"):
    """The items asked for that the responder holds, and the ``term`` of the question."""

    datums: tuple[Datum, ...]
    term: int


class PublishAck(msgspec.Struct, frozen=True, gc=False, tag="publish_ack"):
    """The item of that publish is stored here."""

    number: int


class DeleteAck(msgspec.Struct, frozen=True, gc=False, tag="delete_ack"):
    """The item is removed here."""


class ForwardAnswer(msgspec.Struct, frozen=True, gc=False, tag="forward_answer"):
    """The result of a forwarded write, which the client gets in the same words."""

    number: int
    outcome: Literal["ok", "not_leader", "unknown", "failed", "refused"]
    why: str = ""


class CallError(msgspec.Struct, frozen=True, gc=False, tag="error"):
    """The call was refused with an HTTP error. ``number`` is that of the request, where it has one."""

    call: Call
    error: ErrorKind
    text: str
    number: int = 0


NacosRequest = VoteRequest | BeatRequest | PeerRequest | DatumFetch | DatumPublish | DatumDelete | Forward
NacosAnswer = VoteAnswer | BeatAnswer | PeerAnswer | FetchAnswer | PublishAck | DeleteAck | ForwardAnswer | CallError
NacosMessage = NacosRequest | NacosAnswer
