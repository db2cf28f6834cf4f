"""A client of Kafka brokers in the words of the protocol itself: one topic per list, one partition per topic.

    append [key, v]   one record to topic ``key``, acknowledged by all replicas in sync (acks=all)
    read   key        the records of the topic from the first to the committed end, in the order of their offsets

The node that an operation names is asked who leads the topic (and makes it if it is not there); the leader then serves
it. What was learnt is kept until something goes wrong.

Guarantees: a record is sent once, without a producer id: nothing is resent behind our back. A write is ``fail`` only if
it was certainly appended nowhere: refused before the append (`REFUSED`), or refused by a broker that does not lead
and names no offset. NOT_LEADER_OR_FOLLOWER with an offset is ``info``: the leader had appended and lost its
leadership while it waited for its followers, so the record may survive. A read asks how far the log is committed
before it fetches, for only that answer waits until a new leader knows it (KIP-207). Consumer groups are out of scope.

Source: Kafka protocol guide; ``DelayedProduce`` and ``ReplicaManager`` of Kafka 3.9 and 4.1 for what an error leaves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.systems import kafka_wire as wire
from dethrone.clusters.systems.framed import FramedLines, NeverSentError, NoAnswerError
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

FETCH_BYTES = 4 * 1024 * 1024
FETCHES_MAX = 1000

REFUSED = frozenset({2, 10, 17, 18, 19, 87})
"""Corrupt, too large, invalid topic, too many records, too few replicas in sync BEFORE the append, invalid record."""

NOT_HERE = frozenset({3, 6})
"""The broker does not lead the topic; with no offset it never appended."""

_ENCODE = msgspec.json.Encoder().encode
_DECODE: msgspec.json.Decoder[int | str] = msgspec.json.Decoder(int | str)


class KafkaClient:
    """See ``dethrone.harness.core.interfaces.Client``. ``ids``: broker id → node."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int, ids: Mapping[int, str]) -> None:
        self._kept = FramedLines(nodes, port)
        self._ids = ids
        self._leaders: dict[str, tuple[str, int]] = {}
        self._last = 0

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation: who leads is asked at ``target`` unless it is known."""
        deadline = time.monotonic_ns() + timeout_ns
        match f, value:
            case "append", [str(key), int() | str() as item]:
                pass
            case "read", str(key):
                item = 0
            case _:
                return unsent(f"no operation {f!r} with the value {value!r:.80}")
        if target not in self._kept:
            return unsent(f"no node {target!r}")
        try:
            node, epoch = self._leaders.get(key) or self._find(key, target, deadline)
        except (NeverSentError, NoAnswerError, wire.BadAnswerError) as error:
            self._kept.drop(target)
            return unsent(f"{target}: {error}")  # nothing but a question was sent
        outcome = self._read(key, node, epoch, deadline) if f == "read" else self._append(key, item, node, deadline)
        if outcome.status != "ok":
            self._leaders.pop(key, None)
        return outcome

    def close(self) -> None:
        """Drop all connections."""
        self._kept.close()

    def _find(self, key: str, target: str, deadline: Ns) -> tuple[str, int]:
        self._last += 1
        found = wire.leader_of(self._ask(target, wire.metadata(self._last, key), deadline))
        node = self._ids.get(found.node)
        if found.error or node is None:
            raise NeverSentError(f"names no leader of {key} ({wire.word(found.error) if found.error else 'none'})")
        self._leaders[key] = node, found.epoch
        return node, found.epoch

    def _append(self, key: str, item: int | str, node: str, deadline: Ns) -> OpOutcome:
        self._last += 1
        left_ms = max(1, (deadline - time.monotonic_ns()) // MS)
        request = wire.produce(self._last, key, _ENCODE(item), timeout_ms=left_ms, now_ms=time.time_ns() // MS)
        try:
            error, offset = wire.produced(self._ask(node, request, deadline))
        except NeverSentError as why:
            return unsent(f"{node}: {why}")
        except (NoAnswerError, wire.BadAnswerError) as why:
            self._kept.drop(node)
            return unanswered("append", f"{node}: {why}", node=node)
        return understood(error, offset, node=node)

    def _read(self, key: str, node: str, epoch: int, deadline: Ns) -> OpOutcome:
        try:
            self._last += 1
            end = wire.end_of(self._ask(node, wire.list_offsets(self._last, key, epoch=epoch), deadline))
            if end.error:
                return OpOutcome(status="fail", error=wire.word(end.error), node=node)
            values: list[int | str] = []
            offset = fetches = 0
            while offset < end.offset:
                self._last, fetches = self._last + 1, fetches + 1
                request = wire.fetch(self._last, key, offset=offset, epoch=epoch, bytes_max=FETCH_BYTES)
                got = wire.fetched(self._ask(node, request, deadline))
                records = [(at, data) for at, data in got.records if offset <= at < end.offset]
                if got.error or not records or fetches > FETCHES_MAX:
                    why = wire.word(got.error) if got.error else f"no record at {offset}, committed up to {end.offset}"
                    return OpOutcome(status="fail", error=why, node=node)
                values += [_DECODE.decode(data) for _, data in records]
                offset = records[-1][0] + 1
        except NeverSentError as why:
            return unsent(f"{node}: {why}")
        except (NoAnswerError, wire.BadAnswerError, msgspec.MsgspecError) as why:
            self._kept.drop(node)
            return unanswered("read", f"{node}: {why}", node=node)
        return OpOutcome(status="ok", value=values, node=node)

    def _ask(self, node: str, request: bytes, deadline: Ns) -> bytes:
        """The answer to the request whose number is ``self._last``."""
        line = self._kept.line(node, deadline)
        line.send(request, deadline)
        while True:
            answer = line.receive(deadline)
            if wire.number_of(answer) == self._last:
                return answer


def understood(error: int, offset: int, *, node: str) -> OpOutcome:
    """How a write ended, by the answer; see the head of this module."""
    if not error:
        return OpOutcome(status="ok", node=node)
    never = error in REFUSED or (error in NOT_HERE and offset < 0)
    return OpOutcome(status="fail" if never else "info", error=wire.word(error), node=node)
