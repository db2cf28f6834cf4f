"""The messages between the nodes of a metadata quorum, and the records of their log.

Guarantees: field names on the wire are Kafka's (camel case); a body is frozen and may be shared between sends. Nodes
are numbered: their place among the members, from 1; -1 is no node. ``correlationId`` is the one of Kafka's request
header: an answer echoes it. Offsets are exclusive ends: a log of five records ends at 5. Out of scope: snapshots,
sessions and topic names: there is one partition.

Source: Apache Kafka 3.3.1, VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest and their answers.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put

ErrorCode = Literal[
    "NONE",
    "INCONSISTENT_CLUSTER_ID",
    "INVALID_REQUEST",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "INCONSISTENT_VOTER_SET",
    "NOT_LEADER_OR_FOLLOWER",
    "BROKER_NOT_AVAILABLE",
    "UNKNOWN_SERVER_ERROR",
]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

NOBODY = -1
UNKNOWN_OFFSET = -1
PARTITION = 0
"""The one partition of the topic ``__cluster_metadata``."""

# --- records --------------------------------------------------------------------------------------------------------


class LeaderChange(msgspec.Struct, frozen=True, gc=False, tag="leader_change", rename="camel"):
    """The control record that opens an epoch: without a record of the own epoch nothing can be committed in it."""

    leader_id: Int32
    voters: tuple[Int32, ...]
    granting_voters: tuple[Int32, ...]


Command = Append | Put | Get | Cas | LeaderChange


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One record of the log. ``offset`` starts at 0."""

    offset: Int64
    epoch: Int32
    command: Command


# --- elections ------------------------------------------------------------------------------------------------------


class VoteRequest(msgspec.Struct, frozen=True, gc=False, tag="vote_request", rename="camel"):
    """A candidate asks for a vote. ``last_offset`` is its log end, ``last_offset_epoch`` its last record's epoch."""

    correlation_id: Int32
    cluster_id: str
    partition_index: Int32
    candidate_epoch: Int32
    candidate_id: Int32
    last_offset_epoch: Int32
    last_offset: Int64


class VotePartition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The answer proper: the responder's epoch and the leader that it knows in it."""

    error_code: ErrorCode
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: bool


class VoteResponse(msgspec.Struct, frozen=True, gc=False, tag="vote_response", rename="camel"):
    """``partition`` is missing only where there is a top-level error."""

    correlation_id: Int32
    error_code: ErrorCode
    partition: VotePartition | None = None


class BeginQuorumEpochRequest(msgspec.Struct, frozen=True, gc=False, tag="begin_quorum_epoch_request", rename="camel"):
    """A new leader announces itself."""

    correlation_id: Int32
    leader_id: Int32
    leader_epoch: Int32


class BeginQuorumEpochResponse(
    msgspec.Struct, frozen=True, gc=False, tag="begin_quorum_epoch_response", rename="camel"
):
    """The responder's epoch and leader."""

    correlation_id: Int32
    error_code: ErrorCode
    leader_id: Int32
    leader_epoch: Int32


class EndQuorumEpochRequest(msgspec.Struct, frozen=True, gc=False, tag="end_quorum_epoch_request", rename="camel"):
    """A leader resigned. ``preferred_successors``: the most advanced voter first."""

    correlation_id: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: tuple[Int32, ...]


class EndQuorumEpochResponse(msgspec.Struct, frozen=True, gc=False, tag="end_quorum_epoch_response", rename="camel"):
    """The responder's epoch and leader."""

    correlation_id: Int32
    error_code: ErrorCode
    leader_id: Int32
    leader_epoch: Int32


# --- replication ----------------------------------------------------------------------------------------------------


class FetchRequest(msgspec.Struct, frozen=True, gc=False, tag="fetch_request", rename="camel"):
    """A replica asks for what follows its log: ``fetch_offset`` is its log end, ``last_fetched_epoch`` its last epoch.

    ``max_wait_ms``: how long the leader may keep it (protocol ms) while there is nothing new.
    """

    correlation_id: Int32
    replica_id: Int32
    cluster_id: str
    max_wait_ms: Int32
    current_leader_epoch: Int32
    fetch_offset: Int64
    last_fetched_epoch: Int32


class CurrentLeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The responder's epoch and the leader that it knows in it."""

    leader_id: Int32
    leader_epoch: Int32


class EpochEnd(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The end of an epoch in the leader's log: where to cut."""

    epoch: Int32
    end_offset: Int64


class FetchResponse(msgspec.Struct, frozen=True, gc=False, tag="fetch_response", rename="camel"):
    """``high_watermark`` -1: unknown. ``snapshot_id`` is always none: the log is kept whole."""

    correlation_id: Int32
    error_code: ErrorCode
    high_watermark: Int64
    log_start_offset: Int64
    current_leader: CurrentLeader
    diverging_epoch: EpochEnd | None = None
    snapshot_id: None = None
    records: tuple[Record, ...] = ()


KraftMessage = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | EndQuorumEpochResponse
    | FetchRequest
    | FetchResponse
)
