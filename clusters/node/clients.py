"""The client port: framed JSON requests, replies and the observer's ``status``, many at once on a connection.

In: {"id", "request": {…}} or {"id", "status": true}. Out: {"id", "reply": {…}}, {"id", "status": {…}}, or {"id",
"error"} for a request that the target does not know. Guarantees: replies reach the connection that asked and carry
its id; nothing that a client sends can raise here, malformed frames close its connection and are counted; a client
that does not read is cut off, one that floods is read no further until replies have left. Out of scope: what requests
mean.
"""

from __future__ import annotations

import selectors
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.clusters.node.record import Record
from dethrone.clusters.node.transport import accepted, listen, received, send_some

CONNECTIONS_MAX = 1024
OUT_BYTES_MAX = 8 * 1024 * 1024
OPEN_MAX = 4096
"""Unanswered requests of one connection; beyond, it is not read."""
READ_BYTES = 64 * 1024
FRAME_BYTES_MAX = 4 * 1024 * 1024


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a client sends."""

    id: int
    request: msgspec.Raw = msgspec.Raw(b"null")
    status: bool = False


class ReplyFrame(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request."""

    id: int
    reply: Any


class StatusFrame(msgspec.Struct, frozen=True, gc=False):
    """The answer to ``status``."""

    id: int
    status: Record


class ErrorFrame(msgspec.Struct, frozen=True, gc=False):
    """The request was not understood; certainly no effect."""

    id: int
    error: str


class _Client:
    __slots__ = ("mask", "open", "out", "reader", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = FrameReader(FRAME_BYTES_MAX)
        self.open = 0
        self.out = bytearray()
        self.mask = selectors.EVENT_READ


class Clients:
    """All client connections. ``on_request(id, body)`` gets ids that are unique within the process."""

    def __init__(
        self,
        *,
        bind: str,
        port: int,
        request_type: Any,
        selector: selectors.BaseSelector,
        counters: Counter[str],
        on_request: Callable[[int, Any], None],
        status: Callable[[], Record],
    ) -> None:
        self._selector = selector
        self._count = counters
        self._on_request = on_request
        self._status = status
        self._ask_decoder = msgspec.json.Decoder(Ask)
        self._request_decoder = msgspec.json.Decoder(request_type)
        self._encoder = msgspec.json.Encoder()
        self._asked: dict[int, tuple[_Client, int]] = {}
        self._last_id = 0
        self._clients: set[_Client] = set()
        self._dirty: set[_Client] = set()
        self._listener = listen(bind, port)
        self._opened = False

    def open(self) -> None:
        """Begin to serve; until then connections wait in the listener's backlog."""
        if not self._opened:
            self._opened = True
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def reply(self, request: int, body: Any) -> None:
        """Queue the answer to ``request``; counted and dropped if its client has left."""
        client, asked = self._asked.pop(request, (None, 0))
        if client is None:
            self._count["reply_unclaimed"] += 1
            return
        client.open -= 1
        self._count["client_replied"] += 1
        self._put(client, ReplyFrame(asked, body))

    def write(self) -> None:
        """Write what was queued since the last call."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        for client in dirty:
            self._write(client)

    def close(self) -> None:
        """Close every connection."""
        for client in list(self._clients):
            self._close(client)
        if self._opened:
            self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self, _mask: int) -> None:
        for sock in accepted(self._listener, self._count, full=lambda: len(self._clients) >= CONNECTIONS_MAX):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = _Client(sock)
            self._clients.add(client)
            self._selector.register(sock, client.mask, lambda mask, it=client: self._on_client(it, mask))

    def _on_client(self, client: _Client, mask: int) -> None:
        if client not in self._clients:
            return
        if mask & selectors.EVENT_WRITE:
            self._dirty.add(client)
        if not mask & selectors.EVENT_READ:
            return
        data = received(client.sock, READ_BYTES)
        if data is None:
            return
        if not data:
            self._close(client)
            return
        try:
            frames = client.reader.feed(data)
        except BadFrame:
            self._malformed(client)
            return
        for payload in frames:
            try:
                ask = self._ask_decoder.decode(payload)
            except (ValueError, RecursionError):
                self._malformed(client)
                return
            self._take(client, ask)
        if client.open >= OPEN_MAX:
            self._dirty.add(client)

    def _take(self, client: _Client, ask: Ask) -> None:
        if ask.status:
            self._count["client_status"] += 1
            self._put(client, StatusFrame(ask.id, self._status()))
            return
        try:
            body = self._request_decoder.decode(ask.request)
        except (ValueError, RecursionError) as error:
            self._count["client_malformed"] += 1
            self._put(client, ErrorFrame(ask.id, str(error)))
            return
        self._last_id += 1
        self._asked[self._last_id] = (client, ask.id)
        client.open += 1
        self._count["client_requests"] += 1
        self._on_request(self._last_id, body)

    def _malformed(self, client: _Client) -> None:
        self._count["client_malformed"] += 1
        self._close(client)

    def _put(self, client: _Client, answer: ReplyFrame | StatusFrame | ErrorFrame) -> None:
        if client in self._clients:
            client.out += frame(self._encoder.encode(answer))
            self._dirty.add(client)

    def _write(self, client: _Client) -> None:
        if client not in self._clients:
            return
        try:
            send_some(client.sock, client.out)
        except OSError:
            self._close(client)
            return
        if len(client.out) > OUT_BYTES_MAX:
            self._count["client_cut_off"] += 1
            self._close(client)
            return
        reading = client.open < OPEN_MAX
        mask = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if client.out else 0)
        self._listen_for(client, mask)

    def _listen_for(self, client: _Client, mask: int) -> None:
        if mask == client.mask:
            return

        def call(mask: int) -> None:
            self._on_client(client, mask)

        if client.mask and mask:
            self._selector.modify(client.sock, mask, call)
        elif mask:
            self._selector.register(client.sock, mask, call)
        else:
            self._selector.unregister(client.sock)
        client.mask = mask

    def _close(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.discard(client)
            if client.mask:
                self._selector.unregister(client.sock)
            client.sock.close()
            for request in [request for request, (who, _) in self._asked.items() if who is client]:
                del self._asked[request]
