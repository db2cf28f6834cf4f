"""The messages between DLedger nodes, the words of their verdicts, and the entries of their log.

Guarantees: field names on the wire are the original's (camel case), and so are indexes and terms: both start at 0, and
-1 means none. ``opaque`` numbers a remote call and its answer echoes it: the original's remoting layer matches answers
to calls, which a one-way transport cannot. It rises within one life of its sender; its upper bits are drawn at the
start, so that lives differ. Out of scope: batches of entries and leadership transfer.

Source: RocketMQ DLedger 0.2.7, ``RequestOrResponse`` and its children, ``DLedgerResponseCode``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Put

# --- entries ------------------------------------------------------------------------------------------------------


class Noop(msgspec.Struct, frozen=True, gc=False, tag="noop"):
    """The blank entry of ``noop_on_elect``."""


Command = Append | Put | Cas | Noop


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One entry. ``index`` starts at 0."""

    index: int
    term: int
    command: Command


# --- verdicts on votes --------------------------------------------------------------------------------------------

ACCEPT: Final = "ACCEPT"
EXPIRED_LEDGER_TERM: Final = "REJECT_EXPIRED_LEDGER_TERM"
SMALL_LEDGER_END_INDEX: Final = "REJECT_SMALL_LEDGER_END_INDEX"
EXPIRED_VOTE_TERM: Final = "REJECT_EXPIRED_VOTE_TERM"
ALREADY_HAS_LEADER: Final = "REJECT_ALREADY_HAS_LEADER"
ALREADY_VOTED: Final = "REJECT_ALREADY_VOTED"
TERM_SMALL_THAN_LEDGER: Final = "REJECT_TERM_SMALL_THAN_LEDGER"
TERM_NOT_READY: Final = "REJECT_TERM_NOT_READY"
TAKING_LEADERSHIP: Final = "REJECT_TAKING_LEADERSHIP"
UNKNOWN_LEADER: Final = "REJECT_UNKNOWN_LEADER"
UNEXPECTED_LEADER: Final = "REJECT_UNEXPECTED_LEADER"
UNKNOWN: Final = "UNKNOWN"
"""No usable answer: an error, or nothing at all. Not a verdict."""

VoteResult = Literal[
    "ACCEPT",
    "REJECT_EXPIRED_LEDGER_TERM",
    "REJECT_SMALL_LEDGER_END_INDEX",
    "REJECT_EXPIRED_VOTE_TERM",
    "REJECT_ALREADY_HAS_LEADER",
    "REJECT_ALREADY_VOTED",
    "REJECT_TERM_SMALL_THAN_LEDGER",
    "REJECT_TERM_NOT_READY",
    "REJECT_TAKING_LEADERSHIP",
    "REJECT_UNKNOWN_LEADER",
    "REJECT_UNEXPECTED_LEADER",
    "UNKNOWN",
]

# --- response codes -----------------------------------------------------------------------------------------------

SUCCESS = 200
NETWORK_ERROR = 302
UNKNOWN_GROUP = 400
UNKNOWN_MEMBER = 401
UNEXPECTED_MEMBER = 402
EXPIRED_TERM = 403
NOT_LEADER = 404
NOT_FOLLOWER = 405
INCONSISTENT_STATE = 406
INCONSISTENT_TERM = 407
INCONSISTENT_LEADER = 409
INDEX_OUT_OF_RANGE = 410
REPEATED_PUSH = 413
NOT_READY = 416
"""TERM_NOT_READY of a heartbeat."""
INDEX_BEFORE_BEGIN = 419
TERM_CHANGED = 501
WAIT_QUORUM_ACK_TIMEOUT = 502
LEADER_PENDING_FULL = 503
LEADER_NOT_READY = 505

CODE_NAMES = {
    SUCCESS: "SUCCESS",
    NETWORK_ERROR: "NETWORK_ERROR",
    UNKNOWN_GROUP: "UNKNOWN_GROUP",
    UNKNOWN_MEMBER: "UNKNOWN_MEMBER",
    UNEXPECTED_MEMBER: "UNEXPECTED_MEMBER",
    EXPIRED_TERM: "EXPIRED_TERM",
    NOT_LEADER: "NOT_LEADER",
    NOT_FOLLOWER: "NOT_FOLLOWER",
    INCONSISTENT_STATE: "INCONSISTENT_STATE",
    INCONSISTENT_TERM: "INCONSISTENT_TERM",
    INCONSISTENT_LEADER: "INCONSISTENT_LEADER",
    INDEX_OUT_OF_RANGE: "INDEX_OUT_OF_RANGE",
    REPEATED_PUSH: "REPEATED_PUSH",
    NOT_READY: "TERM_NOT_READY",
    INDEX_BEFORE_BEGIN: "INDEX_LESS_THAN_LOCAL_BEGIN",
    TERM_CHANGED: "TERM_CHANGED",
    WAIT_QUORUM_ACK_TIMEOUT: "WAIT_QUORUM_ACK_TIMEOUT",
    LEADER_PENDING_FULL: "LEADER_PENDING_FULL",
    LEADER_NOT_READY: "LEADER_NOT_READY",
}


def words(code: int) -> str:
    """A code as clients get it: number and name."""
    return f"{code} {CODE_NAMES[code]}"


# --- messages -----------------------------------------------------------------------------------------------------


class _Call(msgspec.Struct, frozen=True, gc=False, tag_field="rpc", rename="camel"):
    """What every message carries. ``local_id`` sends, ``remote_id`` is meant, ``leader_id`` is who leads or would."""

    group: str
    local_id: str
    remote_id: str
    leader_id: str
    term: int
    opaque: int


def echoed(request: _Call, me: str, term: int) -> dict[str, Any]:
    """What an answer to this call carries in any case."""
    return {
        "group": request.group,
        "local_id": me,
        "remote_id": request.local_id,
        "leader_id": request.leader_id,
        "term": term,
        "opaque": request.opaque,
    }


class VoteRequest(_Call, frozen=True, gc=False, tag="vote", kw_only=True):
    """A candidate recommends itself; its log ends at (``ledger_end_term``, ``ledger_end_index``)."""

    ledger_end_index: int
    ledger_end_term: int
    code: int = SUCCESS


class VoteResponse(_Call, frozen=True, gc=False, tag="vote_answer", kw_only=True):
    """``term`` is the responder's own; for REJECT_TERM_SMALL_THAN_LEDGER it is the responder's ledgerEndTerm."""

    vote_result: VoteResult
    code: int = SUCCESS


class HeartBeatRequest(_Call, frozen=True, gc=False, tag="heartbeat", kw_only=True):
    """A leader announces that it leads."""

    code: int = SUCCESS


class HeartBeatResponse(_Call, frozen=True, gc=False, tag="heartbeat_answer", kw_only=True):
    """``code`` is the verdict, ``term`` the responder's own."""

    code: int = SUCCESS


PushType = Literal["COMPARE", "TRUNCATE", "APPEND", "COMMIT"]


class PushEntryRequest(_Call, frozen=True, gc=False, tag="push", kw_only=True):
    """One step of replication. ``entry`` is None for COMMIT."""

    type: PushType
    entry: Entry | None
    commit_index: int
    code: int = SUCCESS


class PushEntryResponse(_Call, frozen=True, gc=False, tag="push_answer", kw_only=True):
    """``term`` is the request's; ``index`` the entry's (-1: none); begin and end are those of the responder's log."""

    code: int
    index: int
    count: int
    begin_index: int
    end_index: int


DledgerMessage = (
    VoteRequest | VoteResponse | HeartBeatRequest | HeartBeatResponse | PushEntryRequest | PushEntryResponse
)
