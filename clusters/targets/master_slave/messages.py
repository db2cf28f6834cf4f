"""The messages of brokers to name servers and to each other, and client requests in addition to the common ones.

Guarantees: bodies are frozen; names are RocketMQ's, in snake case. Out of scope: connections: a peer is silent when
nothing was heard from it.

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.zk_ephemeral.messages import Record

SEND_OK, FLUSH_DISK_TIMEOUT = "SEND_OK", "FLUSH_DISK_TIMEOUT"
FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE = "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"
"""Results of a send; the last three: stored on the master, guarantee not met."""

FOUND, NO_NEW, OFFSET_ERROR = "FOUND", "NO_NEW", "OFFSET_ERROR"
"""Results of a pull."""


class RegisterBroker(msgspec.Struct, frozen=True, gc=False, tag="register_broker"):
    """A broker to every name server, at its start and again and again."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    topics: tuple[str, ...]


class RegisterAnswer(msgspec.Struct, frozen=True, gc=False, tag="register_answer"):
    """OK; ``master``: the HA address of brokerId 0 of the group, None if no broker is registered as it."""

    broker_name: str
    master: str | None


class HaAck(msgspec.Struct, frozen=True, gc=False, tag="ha_ack"):
    """Slave to master: it holds everything up to ``max_offset``. The first one opens the exchange."""

    max_offset: int


class HaTransfer(msgspec.Struct, frozen=True, gc=False, tag="ha_transfer"):
    """Master to slave: ``records`` behind ``offset``; none: a heartbeat. ``master_end``: the master's own max offset.

    ``slave_end``: the slave's max offset as the master knows it, so that an old transfer proves nothing about lengths.
    """

    offset: int
    records: tuple[Record, ...]
    master_end: int
    slave_end: int


MsMessage = RegisterBroker | RegisterAnswer | HaAck | HaTransfer


class Route(msgspec.Struct, frozen=True, gc=False, tag="route"):
    """A client to a name server. The answer: ``{broker name: {broker id: address}}``, ids as text."""

    topic: str = ""


class Pull(msgspec.Struct, frozen=True, gc=False, tag="pull"):
    """A consumer to a broker. The answer: ``{"code", "values", "next_offset", "suggest"}`` (a broker id)."""

    queue: str
    offset: int


MsRequest = client_api.ClientRequest | Route | Pull
