"""The link socket: the agent asks this process to double, reorder or hold back messages, and hears what it counted.

A connection sends one JSON line, ``{peer: Wish}``, gets one, ``{"counts": {peer: {what: number}}}``, and is closed.
Guarantees: the answer comes after the wish is in force; what is not a wish is answered with an error, and changes
nothing. Out of scope: what becomes of messages (``inbox``).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.node.inbox import Arrival, Inbox, Wish

LINE_MAX = 1 << 16

_decode = msgspec.json.Decoder(dict[str, Wish]).decode


class LinkSocket:
    """Listens at ``path``. ``take``: handles a message that was held back until now."""

    def __init__(
        self,
        path: str,
        selector: selectors.BaseSelector,
        inbox: Inbox,
        take: Callable[[Arrival], None],
    ) -> None:
        self._path = Path(path)
        self._selector = selector
        self._inbox, self._take = inbox, take
        self._asking: dict[socket.socket, bytearray] = {}
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(path)
        self._listener.listen(16)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        for connection in list(self._asking):
            self._end(connection)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._asking[connection] = bytearray()
                self._selector.register(
                    connection, selectors.EVENT_READ, lambda _mask, connection=connection: self._read(connection)
                )

    def _read(self, connection: socket.socket) -> None:
        line = self._asking[connection]
        try:
            data = connection.recv(LINE_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        line += data
        if data and b"\n" not in data and len(line) < LINE_MAX:
            return
        with contextlib.suppress(OSError):
            connection.send(msgspec.json.encode(self._answer(bytes(line))) + b"\n")
        self._end(connection)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            wishes = _decode(line)
        except msgspec.MsgspecError as error:
            return {"error": str(error)}
        for one in self._inbox.wish(wishes):
            self._take(one)
        return {"counts": self._inbox.counts}

    def _end(self, connection: socket.socket) -> None:
        del self._asking[connection]
        self._selector.unregister(connection)
        connection.close()
