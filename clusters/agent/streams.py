"""Streams of bytes to an agent: the interface that a link needs, and streams over a socket or a command's pipes.

Guarantees: closing a stream ends a read that waits; closing is idempotent. Out of scope: the protocol (``link``).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence
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


class ProcessStream:
    """The pipes of a relay command: ``docker exec -i HOST … relay``, ``ssh HOST … relay``."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )

    @property
    def pid(self) -> int:
        """The relay command's process."""
        return self._process.pid

    def read(self) -> bytes:
        """See ``Stream``; if the relay ends with a message on stderr, that is the error."""
        if self._process.stdout is None:
            return b""
        data = os.read(self._process.stdout.fileno(), 256 << 10)
        if not data and self._process.stderr is not None:
            complaint = os.read(self._process.stderr.fileno(), 4096)
            if complaint:
                raise OSError(complaint.decode("utf-8", "replace").strip()[-400:])
        return data

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        if self._process.stdin is None:
            raise BrokenPipeError
        view = memoryview(data)
        while view:
            view = view[os.write(self._process.stdin.fileno(), view) :]

    def close(self) -> None:
        """See ``Stream``."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
