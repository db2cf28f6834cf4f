"""Streams of bytes to an agent: the interface that a link needs, and a stream over a socket.

Guarantees: closing a stream ends a read that waits; closing is idempotent. Out of scope: the protocol (``link``).
"""

from __future__ import annotations

import contextlib
import socket
from typing import Protocol


class Stream(Protocol):
    """A duplex stream of bytes to the agent. Two threads may use ``read`` and ``write`` at once."""

    def read(self) -> bytes:
        """Some bytes as soon as any arrive; b"" when the other side is gone. May raise OSError."""

    def write(self, data: bytes) -> None:
        """Send all of it. Raises OSError when the other side is gone."""

    def close(self) -> None:
        """End both directions and any waiting ``read``. Idempotent."""


class SocketStream:
    """A connected stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self) -> bytes:
        """See ``Stream``."""
        return self._socket.recv(256 << 10)

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        self._socket.sendall(data)

    def close(self) -> None:
        """See ``Stream``."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
