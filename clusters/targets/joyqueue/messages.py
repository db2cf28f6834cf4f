"""The messages of JoyQueue's brokers about elections and replication, and the commands in their logs.

Every request has an ``id`` that its answer repeats, as the header of the original's commands does. Topic and partition
group, in the original a field of requests only, are in the answers' header here as well. A pre-vote and a vote are one
message; only the sender of a request knows which of them its answer belongs to. Node ids are node names; None is the
original's −1. Positions count entries from 0; a right end is exclusive, so it equals the last entry's 1-based index.

Guarantees: field names on the wire are the original's (camel case); bodies are frozen. Out of scope: consume positions.

Source: docs/sources.md, joyqueue: ``AppendEntriesRequest`` and its siblings for the fields.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put

Command = Append | Put | Cas | Get
"""What a log holds; a ``Get`` is a read that goes through the log (knob ``reads=log``)."""


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One entry. Its index is its place: ``startPosition`` + 1 for the first of a request."""

    term: int
    command: Command


class VoteRequest(msgspec.Struct, frozen=True, gc=False, tag="vote_request", rename="camel"):
    """A vote or, with ``pre_vote``, a pre-vote, which carries the current, unincremented term."""

    topic_partition_group: str
    term: int
    candidate_id: str
    last_log_term: int
    last_log_pos: int
    pre_vote: bool
    id: int


class VoteResponse(msgspec.Struct, frozen=True, gc=False, tag="vote_response", rename="camel"):
    """``term`` is the answerer's, ``vote_node_id`` its name. No reason is given."""

    topic_partition_group: str
    term: int
    candidate_id: str
    vote_node_id: str
    vote_granted: bool
    id: int


class AppendEntriesRequest(msgspec.Struct, frozen=True, gc=False, tag="append_entries_request", rename="camel"):
    """Entries from ``start_position`` on; none: a heartbeat.

    ``prev_position`` is the place of the entry before (−1: there is none), ``prev_term`` its term. ``left_position`` is
    the left end of the leader's log (0: nothing is deleted). ``entries_term`` is the term of the first entry.
    """

    topic_partition_group: str
    term: int
    leader_id: str
    prev_position: int
    prev_term: int
    start_position: int
    commit_position: int
    left_position: int
    entries_term: int
    entries: tuple[Entry, ...]
    id: int


class AppendEntriesResponse(msgspec.Struct, frozen=True, gc=False, tag="append_entries_response", rename="camel"):
    """``next_position``: where to continue, −1: one entry before; ``write_position``: the right end of the own log."""

    topic_partition_group: str
    term: int
    success: bool
    next_position: int
    write_position: int
    replica_id: str
    entries_term: int
    id: int


class TimeoutNowRequest(msgspec.Struct, frozen=True, gc=False, tag="timeout_now_request", rename="camel"):
    """The leader asks its successor to campaign at once (hand-over only)."""

    topic_partition_group: str
    term: int
    id: int


class TimeoutNowResponse(msgspec.Struct, frozen=True, gc=False, tag="timeout_now_response", rename="camel"):
    """``term``: the one that the successor campaigns in, or its own if it does not."""

    topic_partition_group: str
    term: int
    success: bool
    id: int


class NullAnswer(msgspec.Struct, frozen=True, gc=False, tag="null_answer", rename="camel"):
    """The answer of a node to a request that it holds for invalid: an unknown candidate, a service that is stopped."""

    topic_partition_group: str
    id: int


JoyQueueAnswer = VoteResponse | AppendEntriesResponse | TimeoutNowResponse | NullAnswer
JoyQueueMessage = (
    VoteRequest
    | VoteResponse
    | AppendEntriesRequest
    | AppendEntriesResponse
    | TimeoutNowRequest
    | TimeoutNowResponse
    | NullAnswer
)
