"""The messages between Raft nodes, and the commands in their logs.

Guarantees: field names on the wire are the paper's (camel case); a body is frozen and may be shared between sends. Out
of scope: InstallSnapshot, because the log is kept whole.

Source: docs/sources.md, raft: the paper's figure 2; the thesis, 3.10 (TimeoutNow), 4 (configuration entries), 9.6
(pre-vote).
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.client_api import Acquire, Append, Cas, Get, Holder, Put, Release, Renew, Txn, Use

# --- commands of the replicated log ---------------------------------------------------------------------------------


class Noop(msgspec.Struct, frozen=True, gc=False, tag="noop"):
    """The blank entry that opens a term: with it, older entries become committed without waiting for a client."""


class Config(msgspec.Struct, frozen=True, gc=False, tag="config"):
    """The members from this entry on, committed or not. Learners receive entries and never count."""

    voters: tuple[str, ...]
    learners: tuple[str, ...] = ()


class Expire(msgspec.Struct, frozen=True, gc=False, tag="expire"):
    """A leader found the lock ``key`` past its time; void unless the lock was last touched by entry ``touched``."""

    key: str
    touched: int


Command = Append | Put | Get | Cas | Txn | Use | Acquire | Renew | Release | Holder | Noop | Config | Expire


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One entry of the log. ``index`` starts at 1."""

    index: int
    term: int
    command: Command


# --- messages ---------------------------------------------------------------------------------------------------


class RequestVote(msgspec.Struct, frozen=True, gc=False, tag="request_vote", rename="camel"):
    """A candidate asks for a vote. ``force``: sent after TimeoutNow; it passes stickiness and nothing else."""

    term: int
    candidate_id: str
    last_log_index: int
    last_log_term: int
    force: bool = False


class VoteReply(msgspec.Struct, frozen=True, gc=False, tag="vote_reply", rename="camel"):
    """``reason`` of a refusal: ``lower_term``, ``sticky``, ``voted`` or ``log``; empty when granted."""

    term: int
    vote_granted: bool
    reason: str = ""


class PreVote(msgspec.Struct, frozen=True, gc=False, tag="pre_vote", rename="camel"):
    """Would you vote for me in ``req_term``? Asked without raising any term."""

    req_term: int
    candidate_id: str
    last_log_index: int
    last_log_term: int
    round: int


class PreVoteReply(msgspec.Struct, frozen=True, gc=False, tag="pre_vote_reply", rename="camel"):
    """``term`` is the answerer's own; ``req_term`` and ``round`` are echoed; ``reason``: the row of the table, 1-5."""

    term: int
    req_term: int
    round: int
    granted: bool
    reason: int


class AppendEntries(msgspec.Struct, frozen=True, gc=False, tag="append_entries", rename="camel"):
    """Entries after (prev_log_index, prev_log_term); none: a heartbeat. ``seq`` names the leader's round of sends."""

    term: int
    leader_id: str
    prev_log_index: int
    prev_log_term: int
    entries: tuple[Entry, ...]
    leader_commit: int
    seq: int


class AppendReply(msgspec.Struct, frozen=True, gc=False, tag="append_reply", rename="camel"):
    """``match_index``: stored up to here (success). ``conflict_index``: send from here on (failure; 0: no hint)."""

    term: int
    success: bool
    match_index: int
    conflict_index: int
    seq: int


class TimeoutNow(msgspec.Struct, frozen=True, gc=False, tag="timeout_now", rename="camel"):
    """The leader asks its successor to campaign at once."""

    term: int
    leader_id: str


RaftMessage = RequestVote | VoteReply | PreVote | PreVoteReply | AppendEntries | AppendReply | TimeoutNow
