"""One kept HTTP connection a node, under deadlines: what clients of systems that talk HTTP have in common.

Promises: a connection that the other end hung up is never sent anything; connecting and talking end by the deadline.
Leaves out what is said, and what an answer or its absence means: until ``exchange`` is called nothing was sent.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import time
from collections.abc import Mapping

from harness.core.clock import SECOND, Ns

CONNECT_LIMIT_NS = 1 * SECOND


class KeptHttp:
    """Connections to the nodes at ``addresses``, all at ``port``."""

    def __init__(self, addresses: Mapping[str, str], port: int) -> None:
        self._addresses = addresses
        self._port = port
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def connection(self, node: str, deadline: Ns) -> http.client.HTTPConnection:
        """A connection that is open. OSError if there is none in time."""
        known = self._connections.get(node)
        if known is not None:
            if known.sock is not None and not select.select([known.sock], [], [], 0)[0]:
                return known
            self.drop(node)  # the other end hung up: nothing may be sent here any more
        patience = min(deadline - time.monotonic_ns(), CONNECT_LIMIT_NS)
        if patience <= 0:
            raise TimeoutError
        made = http.client.HTTPConnection(self._addresses[node], self._port, timeout=patience / SECOND)
        made.connect()
        self._connections[node] = made
        return made

    def drop(self, node: str) -> None:
        """Let go of a connection, if there is one."""
        connection = self._connections.pop(node, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def close(self) -> None:
        """Drop all connections."""
        for name in list(self._connections):
            self.drop(name)


def exchange(
    connection: http.client.HTTPConnection,
    deadline: Ns,
    *,
    method: str,
    path: str,
    body: str | bytes | None,
    headers: Mapping[str, str],
    answer_max: int | None = None,
) -> tuple[int, bytes]:
    """Send and wait for the whole answer, or ``answer_max`` bytes of it; from here on the request may have arrived."""
    _limit(connection, deadline)
    connection.request(method, path, body, headers)
    _limit(connection, deadline)
    response = connection.getresponse()
    _limit(connection, deadline)
    return response.status, response.read(answer_max)


def reason(error: Exception) -> str:
    """A few words on what went wrong."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _limit(connection: http.client.HTTPConnection, deadline: Ns) -> None:
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(left / SECOND)
