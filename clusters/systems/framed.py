"""Blocking connections on which both sides send frames: a 4-byte big-endian length, then that many bytes.

Guarantees: a failed connect has certainly sent nothing (`NeverSentError`); once a frame began to leave, trouble is
`NoAnswerError`; every wait ends at its deadline (ns of the monotonic clock). Out of scope: the content of frames, and
which answer belongs to which question.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Mapping

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import NodeSpec

CONNECT_LIMIT_NS = 1 * SECOND
_READ_BYTES = 256 * 1024


class NeverSentError(Exception):
    """The request certainly did not leave; ``str`` says why."""


class NoAnswerError(Exception):
    """The request left, or may have; ``str`` says why there is no answer."""


class FramedLine:
    """One connection. Raises NeverSentError if it cannot be made in time."""

    def __init__(self, address: tuple[str, int], deadline: Ns) -> None:
        patience = min(deadline - time.monotonic_ns(), CONNECT_LIMIT_NS)
        if patience <= 0:
            raise NeverSentError("no time was left to connect")
        try:
            self._sock = socket.create_connection(address, timeout=patience / SECOND)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise NeverSentError(_reason(error)) from error
        self._reader = FrameReader()
        self._frames: deque[bytes] = deque()

    def ended(self) -> bool:
        """Whether the other end closed, or sent unasked bytes: this connection is no longer used."""
        try:
            return bool(self._frames or self._reader.buffered) or bool(select.select([self._sock], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    def send(self, payload: bytes, deadline: Ns) -> None:
        """Send one frame; raises NoAnswerError."""
        try:
            self._limit(deadline)
            self._sock.sendall(frame(payload))
        except OSError as error:
            raise NoAnswerError(_reason(error)) from error

    def receive(self, deadline: Ns) -> bytes:
        """The next frame's content; raises NoAnswerError."""
        while not self._frames:
            try:
                self._limit(deadline)
                data = self._sock.recv(_READ_BYTES)
                self._frames.extend(self._reader.feed(data))
            except OSError as error:
                raise NoAnswerError(_reason(error)) from error
            except BadFrame as error:
                raise NoAnswerError(f"a garbled answer: {error}") from error
            if not data:
                raise NoAnswerError("the connection was closed")
        return self._frames.popleft()

    def close(self) -> None:
        """Drop it."""
        self._sock.close()

    def _limit(self, deadline: Ns) -> None:
        left = deadline - time.monotonic_ns()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left / SECOND)


class FramedLines:
    """One kept connection a node, to their addresses at ``port``. A node that it does not know is not in it."""

    def __init__(self, nodes: Mapping[str, NodeSpec], port: int) -> None:
        self._addresses = {name: (spec.address, port) for name, spec in nodes.items()}
        self._lines: dict[str, FramedLine] = {}

    def __contains__(self, node: object) -> bool:
        """Whether it has that node's address."""
        return node in self._addresses

    def line(self, node: str, deadline: Ns) -> FramedLine:
        """The connection if it can still be used, else a new one. Raises NeverSentError."""
        line = self._lines.get(node)
        if line is not None and not line.ended():
            return line
        self.drop(node)
        line = self._lines[node] = FramedLine(self._addresses[node], deadline)
        return line

    def drop(self, node: str) -> None:
        """Let go of a connection, if there is one."""
        line = self._lines.pop(node, None)
        if line is not None:
            line.close()

    def close(self) -> None:
        """Drop all of them."""
        for node in list(self._lines):
            self.drop(node)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.strerror or str(error) or type(error).__name__
