"""A two-way stream of bytes to a process started in a container, without the docker command line.

Guarantees: what is written arrives as the process' standard input, in order; ``read`` returns its standard output and
then ``b""``; ``close`` wakes a blocked ``read``. Its standard error is kept aside, for error messages. Out of scope:
framing and any notion of an agent.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any

import docker

from dethrone.clusters.docker.client import explained

_STDERR = 2
_COMPLAINT_MAX = 4096


class ExecStream:
    """One process in a running container: a ``dethrone.clusters.agent.streams.Stream``. One thread may read while
    others write."""

    def __init__(self, client: docker.DockerClient, container: str, argv: Sequence[str], *, name: str) -> None:
        self._name = name
        self._complaint = b""
        self._payload = 0
        self._is_output = False
        self._closed = False
        self._writing = threading.Lock()
        with explained("starting a process in a container", where=name):
            execution = client.api.exec_create(container, list(argv), stdin=True, stdout=True, stderr=True)
            opened: Any = client.api.exec_start(str(execution["Id"]), socket=True)
        # The SDK hands out the socket below a buffered reader that may already hold the first bytes: read through it.
        self._opened = opened
        self._socket: socket.socket = getattr(opened, "_sock", opened)
        self._socket.settimeout(None)
        response: Any = getattr(opened, "_response", None)
        self._reader: Any = response.raw._fp.fp if response is not None else self._socket.makefile("rb")  # noqa: SLF001

    @property
    def complaint(self) -> str:
        """The last of what the process wrote to its standard error."""
        return self._complaint.decode(errors="replace").strip()

    def read(self, size: int = 256 << 10) -> bytes:
        """Between 1 and ``size`` bytes of standard output, as soon as there are any; ``b""`` when the stream ended.

        Raises OSError with the process' complaint where it ended with one.
        """
        while True:
            data = b""
            if self._payload or self._next_frame():
                with contextlib.suppress(OSError, ValueError):  # ValueError: closed by another thread
                    data = self._reader.read1(min(size, self._payload))
            if not data:
                if self._complaint and not self._closed:
                    raise OSError(self.complaint[-400:])
                return b""
            self._payload -= len(data)
            if self._is_output:
                return data
            self._complaint = (self._complaint + data)[-_COMPLAINT_MAX:]

    def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises OSError when the stream is broken."""
        with self._writing:
            self._socket.sendall(data)

    def close(self) -> None:
        """End the stream. Idempotent; any thread."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a reader, which holds the buffered reader's lock
        for part in (self._reader, self._opened):
            with contextlib.suppress(OSError, ValueError):
                part.close()

    def _next_frame(self) -> bool:
        """Read the header of the engine's next frame: which of the two outputs, and how many bytes."""
        header = b""
        while len(header) < 8:
            try:
                part: bytes = self._reader.read1(8 - len(header))
            except (OSError, ValueError):
                return False
            if not part:
                return False
            header += part
        self._is_output = header[0] != _STDERR
        self._payload = int.from_bytes(header[4:], "big")
        return True
