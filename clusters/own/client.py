"""A client of a described system: one kept HTTP connection a node, one request an operation.

What a request says and how an answer is understood stands in ``[ops]``. Words in the path are percent-encoded; words
in the body are JSON. Promises: a request is sent once; an answer that the description does not name leaves a changing
operation ``info`` (unknown), as silence does; what reads and is not understood is ``fail``, for it changed nothing.
Leaves out looking for the leader: the workload learns it from the probe and from who answered.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from clusters.own.answers import MISSING, at
from clusters.own.parse import Request, request_of
from clusters.own.spec import Op
from clusters.own.words import fill_with
from clusters.systems.operations import unanswered, unsent
from harness.core.clock import SECOND, Ns
from harness.core.protocols import NodeSpec, OpOutcome

CONNECT_LIMIT_NS = 1 * SECOND
ANSWER_MAX = 16 * 1024 * 1024


class OwnClient:
    """See ``harness.core.protocols.Client``."""

    def __init__(self, nodes: Mapping[str, NodeSpec], ops: Mapping[str, Op], *, port: int) -> None:
        self._addresses = {name: spec.address for name, spec in nodes.items()}
        self._ops = ops
        self._port = port
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation at the node ``target``."""
        deadline = time.monotonic_ns() + timeout_ns
        op, held = self._ops.get(f), words_for(f, value)
        if target not in self._addresses:
            return unsent(f"no node {target!r}")
        if op is None or held is None:
            return unsent(f"no operation {f!r} with the value {value!r:.80}")
        try:
            connection = self._connection(target, deadline)
        except OSError as error:
            return unsent(f"{target}: {_reason(error)}")
        try:
            status, body = _exchange(connection, said(request_of(op), held), deadline)
        except (OSError, http.client.HTTPException) as error:
            self._drop(target)
            return unanswered(f, f"{target}: {_reason(error)}", node=target)
        return understand(f, op, status, body, node=target)

    def close(self) -> None:
        """Drop all connections."""
        for name in list(self._connections):
            self._drop(name)

    def _connection(self, node: str, deadline: Ns) -> http.client.HTTPConnection:
        known = self._connections.get(node)
        if known is not None:
            if known.sock is not None and not select.select([known.sock], [], [], 0)[0]:
                return known
            self._drop(node)  # the other end hung up: nothing may be sent here any more
        patience = min(deadline - time.monotonic_ns(), CONNECT_LIMIT_NS)
        if patience <= 0:
            raise TimeoutError
        made = http.client.HTTPConnection(self._addresses[node], self._port, timeout=patience / SECOND)
        made.connect()
        self._connections[node] = made
        return made

    def _drop(self, node: str) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def words_for(f: str, value: Any) -> Mapping[str, Any] | None:
    """The words of an operation's request; None: its value has the wrong form."""
    match f, value:
        case (("put" | "append" | "add"), [str(key), item]):
            return {"key": key, "value": item}
        case "cas", [str(key), old, new]:
            return {"key": key, "old": old, "value": new}
        case (("get" | "read"), str(key)):
            return {"key": key}
        case _:
            return None


def said(request: Request, held: Mapping[str, Any]) -> Request:
    """The request with its words filled in."""
    return Request(
        request.method,
        fill_with(request.path, held, lambda value: quote(_plain(value), safe="")),
        fill_with(request.body, held, json.dumps),
    )


def understand(f: str, op: Op, status: int, body: bytes, *, node: str) -> OpOutcome:
    """How the operation ended, by the node's answer. Doubt is ``info``."""
    if status in op.fail:
        return OpOutcome(status="fail", error=f"HTTP {status}: {_shown(body)}", node=node)
    if status in op.refused and f == "cas":
        return OpOutcome(status="ok", value=False, node=node)
    if status in op.absent:
        if f in {"get", "read"}:
            return OpOutcome(status="ok", value=[] if f == "read" else None, node=node)
        if f == "cas":
            return OpOutcome(status="ok", value=False, node=node)
    if status not in op.ok:
        return unanswered(f, f"HTTP {status}: {_shown(body)}", node=node)
    if f in {"put", "add"}:
        return OpOutcome(status="ok", node=node)
    value = _value(op, body)
    if f == "append":
        return OpOutcome(status="ok", value=_place(value), node=node)
    if f == "cas":
        if op.value is None and op.refused:
            return OpOutcome(status="ok", value=True, node=node)
        if isinstance(value, bool):
            return OpOutcome(status="ok", value=value, node=node)
    elif f == "read":
        if value is None or (isinstance(value, list) and all(isinstance(item, int | str) for item in value)):
            return OpOutcome(status="ok", value=value or [], node=node)
    elif value is None or isinstance(value, int | str):
        return OpOutcome(status="ok", value=value, node=node)
    return unanswered(f, f"an answer that is not understood: {_shown(body)}", node=node)


def _value(op: Op, body: bytes) -> Any:
    try:
        return at(msgspec.json.decode(body), op.value or "")
    except (msgspec.DecodeError, RecursionError, ValueError):
        return MISSING


def _place(value: Any) -> Mapping[str, int] | None:
    """Where an appended entry stands, if the answer tells it whole."""
    if isinstance(value, dict) and all(type(value.get(name)) is int for name in ("index", "term")):
        return {"index": value["index"], "term": value["term"]}
    return None


def _exchange(connection: http.client.HTTPConnection, request: Request, deadline: Ns) -> tuple[int, bytes]:
    """Send and wait for the whole answer; from here on the request may have arrived."""
    _limit(connection, deadline)
    body = request.body.encode() if request.body else None
    headers = {"Content-Type": "application/json"} if body else {}
    connection.request(request.method, request.path, body, headers)
    _limit(connection, deadline)
    response = connection.getresponse()
    _limit(connection, deadline)
    return response.status, response.read(ANSWER_MAX)


def _limit(connection: http.client.HTTPConnection, deadline: Ns) -> None:
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(left / SECOND)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _shown(body: bytes) -> str:
    return " ".join(body[:120].decode("utf-8", "replace").split())


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
