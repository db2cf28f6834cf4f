"""The messages between brokers and the coordination service, and the records of a replica's log.

Guarantees: bodies are frozen; paths of the service are fixed here. Service data is plain JSON: the leader node holds
``{"id", "epoch"}``, the partition state ``{"leader", "leader_epoch", "isr", "controller_epoch"}``. Out of scope:
topics: the target is one partition of one topic, replicated by all brokers.

Source: docs/sources.md, zk-ephemeral.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.clusters.targets.client_api import Append, Put

PARTITION = "0"
LEADER_PATH = f"/leader/{PARTITION}"
CONTROLLER_PATH = "/controller"
CONTROLLER_EPOCH_PATH = "/controller_epoch"
STATE_PATH = f"/partitions/{PARTITION}/state"
IDS = "/brokers/ids/"

OK, NODE_EXISTS, NO_NODE, BAD_VERSION = "OK", "NODE_EXISTS", "NO_NODE", "BAD_VERSION"
"""Codes of the service's answers."""
ANY_VERSION = -1

NODE_CREATED, NODE_DELETED, NODE_DATA_CHANGED = "NodeCreated", "NodeDeleted", "NodeDataChanged"

FETCH_OK, NOT_LEADER, FENCED, DIVERGING, OUT_OF_RANGE = "OK", "NOT_LEADER", "FENCED", "DIVERGING", "OUT_OF_RANGE"
"""Codes of a fetch."""

ACCEPTED, STALE_CONTROLLER, STALE_BROKER, OLD_EPOCH = "accepted", "stale_controller", "stale_broker", "old_epoch"
"""Codes of a broker's answer to its controller."""


# --- operations of the service ----------------------------------------------------------------------------------


class Create(msgspec.Struct, frozen=True, gc=False, tag="create"):
    """Make the node ``path``: OK or NODE_EXISTS; of concurrent creators exactly one succeeds."""

    path: str
    data: Any
    ephemeral: bool = False


class GetNode(msgspec.Struct, frozen=True, gc=False, tag="get"):
    """Data and version of an existing node; ``watch``: notify the caller once of the next change."""

    path: str
    watch: bool = False


class Exists(msgspec.Struct, frozen=True, gc=False, tag="exists"):
    """As `GetNode`, but the watch is also set on a node that is absent."""

    path: str
    watch: bool = False


class SetNode(msgspec.Struct, frozen=True, gc=False, tag="set"):
    """Replace the data if the version is ``version`` (-1: any), else BAD_VERSION."""

    path: str
    data: Any
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False, tag="delete"):
    """Remove the node if the version is ``version`` (-1: any)."""

    path: str
    version: int = ANY_VERSION


class CloseSession(msgspec.Struct, frozen=True, gc=False, tag="close"):
    """A clean close: the session's ephemeral nodes are deleted at once."""


Operation = Create | GetNode | Exists | SetNode | Delete | CloseSession


# --- broker and service -----------------------------------------------------------------------------------------


class Connect(msgspec.Struct, frozen=True, gc=False, tag="connect"):
    """Open a session. ``nonce`` names this attempt: repeated, it gives the same session."""

    timeout_ns: int
    nonce: int


class Connected(msgspec.Struct, frozen=True, gc=False, tag="connected"):
    """The session. ``start`` counts the service's starts: watches do not outlive one."""

    session: int
    nonce: int
    start: int


class Ping(msgspec.Struct, frozen=True, gc=False, tag="ping"):
    """The client lives; ``seen``: the last watch event that it handled since the service's ``start``."""

    session: int
    seen: int = 0
    start: int = 0


class Pong(msgspec.Struct, frozen=True, gc=False, tag="pong"):
    """The session lives."""

    session: int
    start: int


class Call(msgspec.Struct, frozen=True, gc=False, tag="call"):
    """One operation. ``xid`` rises within a session: an older one is never carried out again."""

    session: int
    xid: int
    op: Operation
    seen: int = 0
    start: int = 0


class Answer(msgspec.Struct, frozen=True, gc=False, tag="answer"):
    """``version`` -1: no such node. ``owner``: the session that an ephemeral node belongs to, 0 for none."""

    session: int
    xid: int
    code: str
    start: int
    data: Any = None
    version: int = -1
    owner: int = 0


class SessionExpired(msgspec.Struct, frozen=True, gc=False, tag="session_expired"):
    """There is no such session (any more)."""

    session: int


class WatchFired(msgspec.Struct, frozen=True, gc=False, tag="watch_fired"):
    """The ``n``-th event of this session: the watched node changed once; read it again, and set the watch again."""

    session: int
    n: int
    path: str
    kind: str
    start: int


# --- broker and broker ------------------------------------------------------------------------------------------


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One record of the log. ``index`` starts at 1 (offset + 1); ``epoch`` is the leader's that appended it."""

    index: int
    epoch: int
    command: Append | Put


class Fetch(msgspec.Struct, frozen=True, gc=False, tag="fetch"):
    """A follower asks for what follows its log. ``run`` and ``seq`` order one replica's fetches."""

    epoch: int
    log_end: int
    last_epoch: int
    hw: int
    run: int
    seq: int


class FetchReply(msgspec.Struct, frozen=True, gc=False, tag="fetch_reply"):
    """``code`` OK: ``records`` after the asked position and the leader's high watermark.

    DIVERGING: of epochs up to ``end_epoch`` the leader's log holds records to ``end``. OUT_OF_RANGE: the leader's log
    ends at ``end``. FENCED and NOT_LEADER: ``epoch`` and ``leader`` as known.
    """

    code: str
    epoch: int
    seq: int
    hw: int = 0
    records: tuple[Record, ...] = ()
    end: int = 0
    end_epoch: int = 0
    leader: str | None = None
    in_isr: bool = False


class LeaderNotice(msgspec.Struct, frozen=True, gc=False, tag="leader_notice"):
    """``fencing=epochs`` in mode race: a new leader announces its epoch, so that a deposed one learns of it."""

    epoch: int


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False, tag="leader_and_isr"):
    """The controller's command. ``broker_session``: the registration that it is meant for (a restart voids it)."""

    controller_epoch: int
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    version: int
    broker_session: int


class LeaderAndIsrReply(msgspec.Struct, frozen=True, gc=False, tag="leader_and_isr_reply"):
    """``code``: accepted, stale_controller, stale_broker or old_epoch."""

    controller_epoch: int
    leader_epoch: int
    version: int
    code: str


class UpdateMetadata(msgspec.Struct, frozen=True, gc=False, tag="update_metadata"):
    """The controller announces to all brokers who leads and which brokers live."""

    controller_epoch: int
    leader: str | None
    leader_epoch: int
    live: tuple[str, ...]


ServiceMessage = Connect | Connected | Ping | Pong | Call | Answer | SessionExpired | WatchFired
BrokerMessage = Fetch | FetchReply | LeaderNotice | LeaderAndIsr | LeaderAndIsrReply | UpdateMetadata
ZkMessage = ServiceMessage | BrokerMessage
