"""A client of DLedger servers in RocketMQ's remoting protocol: one log for all lists.

    append [key, v]   one entry that names its list; answered once a majority stored it: its index and term
    read   key        the entries of that list, in the order of the log

A frame holds a header's length, a JSON header and a JSON body. The node that an operation names is asked; it does not
forward, so one that does not lead is ``fail`` and names the leader, to which the operation then goes (`HOPS_MAX`).

There is one request an entry, so a read asks for many at once and keeps what it read of a leader for `KEPT_NS` at most,
on the same connection and in the same term: a leader does not change its own log within its term. What a leader is
asked for has been appended, not necessarily committed (DLedger's own ``GET`` does not wait).

Guarantees: an entry is sent once. A write is ``fail`` only where the code is one of `REFUSED`, given before anything is
appended; 502 (no majority in time), 501 and 403 (the term changed while it waited) and everything else are ``info``.
Positions count from 1 (DLedger's from 0). Batches, transfers of leadership and snapshots are out of scope.

Source: DLedger's protocol classes and ``DLedgerServer.handleAppend``/``handleGet`` of 0.2.2, 0.3.2 and 0.4.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.systems.framed import FramedLine, FramedLines, NeverSentError, NoAnswerError
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

METADATA, APPEND, GET, HEART_BEAT = 50000, 50001, 50002, 51002
SUCCESS, NOT_LEADER, OUT_OF_RANGE = 200, 404, 410
REFUSED = frozenset({400, 401, 404, 415, 503, 506})
"""Unknown group or member, not the leader, disk full, too many pending, leadership is being handed over."""

HOPS_MAX = 1
WINDOW = 256
"""Entries that are asked for at once."""

KEPT_NS = 5 * SECOND

_JSON_HEADER = 0
"""The serialization in the first byte of the header's length."""


class _Header(msgspec.Struct, frozen=True, gc=False):
    opaque: int
    code: int = 0
    flag: int = 0
    remark: str | None = None


class _Entry(msgspec.Struct, frozen=True, gc=False):
    index: int
    term: int
    body: str | list[int] | None = None


class Answer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The body of an answer, as far as it is read. ``term`` is of the answering member in a heartbeat's."""

    code: int = SUCCESS
    leader_id: str | None = None
    term: int = -1
    index: int = -1
    entries: list[_Entry] | None = None


class _BadAnswerError(Exception):
    pass


_ENCODE = msgspec.json.Encoder().encode
_HEADER = msgspec.json.Decoder(_Header)
_ANSWER = msgspec.json.Decoder(Answer)
_VALUE: msgspec.json.Decoder[tuple[str, int | str]] = msgspec.json.Decoder(tuple[str, int | str])


class _Copy:
    """What was read of one leader's log over one connection: (list, value) by index."""

    def __init__(self, line: FramedLine, term: int, since: Ns) -> None:
        self.line = line
        self.term = term
        self.since = since
        self.entries: list[tuple[str, int | str]] = []


class RocketmqClient:
    """See ``dethrone.harness.core.interfaces.Client``. ``numbers``: bodies are lists of numbers (since 0.3), else
    base64."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int, group: str, numbers: bool) -> None:
        self._kept = FramedLines(nodes, port)
        self._group = group
        self._numbers = numbers
        self._copies: dict[str, _Copy] = {}
        self._last = 0

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation, first at ``target``, then at the leader that it names."""
        deadline = time.monotonic_ns() + timeout_ns
        match f, value:
            case "append", [str(key), int() | str() as item]:
                entry = _ENCODE((key, item))
            case "read", str(key):
                entry = b""
            case _:
                return unsent(f"no operation {f!r} with the value {value!r:.80}")
        if target not in self._kept:
            return unsent(f"no node {target!r}")
        node, outcome = target, unsent("never asked")
        for _ in range(1 + HOPS_MAX):
            try:
                done = self._read(key, node, deadline) if f == "read" else self._append(entry, node, deadline)
            except NeverSentError as error:
                return unsent(f"{node}: {error}")
            except (NoAnswerError, _BadAnswerError) as error:
                self._kept.drop(node)
                return unanswered(f, f"{node}: {error}", node=node)
            if isinstance(done, OpOutcome):
                return done
            outcome = refused(f, done, node=node)
            leader = done.leader_id
            if done.code != NOT_LEADER or leader is None or leader == node or leader not in self._kept:
                return outcome
            node = leader
        return outcome

    def close(self) -> None:
        """Drop all connections."""
        self._kept.close()

    def _append(self, entry: bytes, node: str, deadline: Ns) -> OpOutcome | Answer:
        """The outcome, or the answer that says why not."""
        body = list(entry) if self._numbers else base64.b64encode(entry).decode()
        answer = self._ask(node, APPEND, {"body": body}, deadline)
        if answer.code != SUCCESS or answer.index < 0:
            return answer if answer.code != SUCCESS else msgspec.structs.replace(answer, code=0)
        return OpOutcome(status="ok", value={"index": answer.index + 1, "term": answer.term}, node=node)

    def _read(self, key: str, node: str, deadline: Ns) -> OpOutcome | Answer:
        before = self._term(node, deadline)
        line, copy = self._kept.line(node, deadline), self._copies.get(node)
        if copy is None or copy.line is not line or copy.term != before or time.monotonic_ns() - copy.since > KEPT_NS:
            copy = self._copies[node] = _Copy(line, before, time.monotonic_ns())
        while True:
            stop = self._more(copy, node, deadline)
            if stop is not None and stop.code not in {SUCCESS, OUT_OF_RANGE}:
                return stop
            if stop is not None:
                break
        if self._term(node, deadline) != before:
            self._copies.pop(node, None)
            return OpOutcome(status="fail", error="the term changed while the log was read", node=node)
        return OpOutcome(status="ok", value=[item for name, item in copy.entries if name == key], node=node)

    def _more(self, copy: _Copy, node: str, deadline: Ns) -> Answer | None:
        """Up to `WINDOW` more entries into the copy; the answer at which they end, None: there may be more."""
        line, begin = self._kept.line(node, deadline), len(copy.entries)
        numbers = range(self._last + 1, self._last + 1 + WINDOW)
        self._last += WINDOW
        for number in numbers:
            line.send(self._request(node, GET, number, {"beginIndex": begin + number - numbers[0]}), deadline)
        answers: dict[int, Answer] = {}
        while len(answers) < WINDOW:
            number, answer = _understood(line.receive(deadline))
            if number in numbers:
                answers[number] = answer
        for number in numbers:
            answer = answers[number]
            if answer.code != SUCCESS or not answer.entries:
                return answer
            entry = answer.entries[0]
            if entry.index != len(copy.entries):
                raise _BadAnswerError(f"entry {entry.index} where {len(copy.entries)} was asked for")
            copy.entries.append(_value(entry))
        return None

    def _term(self, node: str, deadline: Ns) -> int:
        """A heartbeat of term −1 is refused with the member's term, and changes nothing."""
        return self._ask(node, HEART_BEAT, {"term": -1, "leaderId": node}, deadline).term

    def _ask(self, node: str, code: int, body: Mapping[str, Any], deadline: Ns) -> Answer:
        line = self._kept.line(node, deadline)
        self._last += 1
        line.send(self._request(node, code, self._last, body), deadline)
        while True:
            number, answer = _understood(line.receive(deadline))
            if number == self._last:
                return answer

    def _request(self, node: str, code: int, number: int, body: Mapping[str, Any]) -> bytes:
        header = _ENCODE(
            {
                "code": code,
                "language": "JAVA",
                "version": 0,
                "opaque": number,
                "flag": 0,
                "serializeTypeCurrentRPC": "JSON",
            }
        )
        content = _ENCODE({"group": self._group, "remoteId": node, "localId": "client", **body})
        return (_JSON_HEADER << 24 | len(header)).to_bytes(4, "big") + header + content


def refused(f: str, answer: Answer, *, node: str) -> OpOutcome:
    """An operation that was answered by anything but success; see the head of this module."""
    error = f"code {answer.code}" + (f", {answer.leader_id} leads" if answer.leader_id else "")
    if answer.code in REFUSED and answer.index < 0:
        return OpOutcome(status="fail", error=error, node=node)
    return unanswered(f, error, node=node)


def _understood(frame: bytes) -> tuple[int, Answer]:
    """The number of the request and the answer's body."""
    size = int.from_bytes(frame[1:4], "big")
    try:
        header = _HEADER.decode(frame[4 : 4 + size])
        body = frame[4 + size :]
        return header.opaque, _ANSWER.decode(body) if body else Answer(code=0)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _BadAnswerError(f"a garbled answer: {error}") from error


def _value(entry: _Entry) -> tuple[str, int | str]:
    body = entry.body
    try:
        data = bytes(number & 0xFF for number in body) if isinstance(body, list) else base64.b64decode(body or "")
        return _VALUE.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _BadAnswerError(f"entry {entry.index} is none of ours: {error}") from error
