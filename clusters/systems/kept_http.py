"""One kept HTTP connection a node, with deadlines: the common part of clients of systems that speak HTTP.

Guarantees: a connection that the other end closed, or on which it sent unasked bytes, is not used again; connecting,
sending and the whole answer end by the deadline, however slowly its bytes come; an answer over a limit counts as none.
With TLS the handshake is part of connecting. A missing answer is an outcome, ``fail`` as long as nothing was sent
(``ask``). The content is out of scope.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Mapping

from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.http_answer import Answer, AnswerReader
from dethrone.harness.core.interfaces import OpOutcome
from dethrone.harness.core.limits import CLIENT_BYTES_MAX
from dethrone.harness.core.tls import Tls, secured

CONNECT_LIMIT_NS = 1 * SECOND
_READ_BYTES = 256 * 1024


class Line:
    """One connection that is open. ``usable``: another request may be sent over it."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock = sock
        self.host = host
        self.usable = True


class KeptHttp:
    """Connections to the nodes at ``addresses``, all at ``port``. ``tls``: of the nodes that are asked with it."""

    def __init__(self, addresses: Mapping[str, str], port: int, *, tls: Mapping[str, Tls] | None = None) -> None:
        self._tls = tls or {}
        self._addresses = addresses
        self._port = port
        self._lines: dict[str, Line] = {}

    def connection(self, node: str, deadline: Ns) -> Line:
        """A connection that is open, with its handshake done. OSError if there is none in time."""
        known = self._lines.get(node)
        if known is not None:
            if known.usable and not select.select([known.sock], [], [], 0)[0]:
                return known
            self.drop(node)  # the other end hung up: nothing may be sent here any more
        began = time.monotonic_ns()
        patience = min(deadline - began, CONNECT_LIMIT_NS)
        if patience <= 0:
            raise TimeoutError
        address = self._addresses[node]
        sock = socket.create_connection((address, self._port), timeout=patience / SECOND)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if node in self._tls:
            sock.settimeout(max(MS, min(deadline, began + CONNECT_LIMIT_NS) - time.monotonic_ns()) / SECOND)
            sock = secured(sock, self._tls[node], address)
        shown = f"[{address}]" if ":" in address else address
        made = self._lines[node] = Line(sock, f"{shown}:{self._port}")
        return made

    def ask(
        self,
        f: str,
        node: str,
        deadline: Ns,
        *,
        method: str,
        path: str,
        body: str | bytes | None,
        headers: Mapping[str, str],
    ) -> Answer | OpOutcome:
        """A node's answer to a request of the operation ``f``; or how it ended without one."""
        try:
            line = self.connection(node, deadline)
        except OSError as error:
            return unsent(f"{node}: {reason(error)}")
        try:
            return exchange(line, deadline, method=method, path=path, body=body, headers=headers)
        except (OSError, ValueError) as error:
            self.drop(node)
            return unanswered(f, f"{node}: {reason(error)}", node=node)

    def drop(self, node: str) -> None:
        """Let go of a connection, if there is one."""
        line = self._lines.pop(node, None)
        if line is not None:
            with contextlib.suppress(OSError):
                line.sock.close()

    def close(self) -> None:
        """Drop all connections."""
        for name in list(self._lines):
            self.drop(name)


def exchange(
    line: Line, deadline: Ns, *, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]
) -> Answer:
    """Send and wait for the whole answer; from here on the request may have arrived.

    OSError: there was none in time. ValueError: it is nonsense, or over a limit. Drop the connection after either.
    """
    line.usable = False
    _limit(line.sock, deadline)
    line.sock.sendall(_request(line.host, method, path, body, headers))
    reader = AnswerReader(body_max=CLIENT_BYTES_MAX, until_close=True)
    while True:
        _limit(line.sock, deadline)
        data = line.sock.recv(_READ_BYTES)
        answer = reader.feed(data) if data else reader.end()
        if answer is not None:
            line.usable = answer.keep
            return answer


def _request(host: str, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if raw is not None or method in {"POST", "PUT", "PATCH"}:
        lines.append(f"Content-Length: {len(raw or b'')}")
    return "\r\n".join([*lines, "", ""]).encode() + (raw or b"")


def reason(error: Exception) -> str:
    """A few words on what went wrong."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _limit(sock: socket.socket, deadline: Ns) -> None:
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left / SECOND)
