"""Peer messages as HTTP/1.1 requests and answers: server and client in the node's own loop.

A target's ``wire`` says which request a message is and which message an answer is. Guarantees: keep-alive; one
request at a time a connection and a few connections a peer; the sender's name in ``X-Dethrone-Node``, unknown ones
get 403; every request ends in exactly one of an answer or ``failed`` (transport error, time-out, full queue); what
is not HTTP is answered 400, counted and closed, and never raises here. Out of scope: chunked bodies, TLS and
pipelining.
"""

from __future__ import annotations

import importlib
import selectors
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from dethrone.clusters.node.httpframes import BadHttp, HttpReader, render_request, render_response
from dethrone.clusters.node.transport import FAR, Shell, accepted, dial, listen, received, send_some, tune
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.renamed import renamed

CONNECTIONS_A_PEER = 4
QUEUE_MAX = 256
SERVED_MAX = 256
READ_BYTES = 256 * 1024
SENDER = "X-Dethrone-Node"


class Wire(Protocol):
    """How a target's messages look in HTTP.

    Parsers raise ValueError for what they do not know; its ``status``, if it has one, is what the asker gets.
    """

    def request(self, body: Any) -> tuple[str, str, Mapping[str, str], bytes]:
        """Message → method, path, headers, bytes."""

    def parse_request(self, method: str, path: str, headers: Mapping[str, str], data: bytes) -> Any:
        """The reverse; header names are lower case."""

    def response(self, body: Any) -> tuple[int, Mapping[str, str], bytes]:
        """Answer → status, headers, bytes."""

    def parse_response(self, request_body: Any, status: int, headers: Mapping[str, str], data: bytes) -> Any:
        """The reverse; header names are lower case."""


def wire_of(target: str) -> Wire:
    """The module ``wire`` next to the target (named as in the node's configuration). Raises ConfigError."""
    module = renamed(target).partition(":")[0] if ":" in target else f"dethrone.clusters.targets.{target}.target"
    name = module.rpartition(".")[0] + ".wire" if "." in module else "wire"
    try:
        return cast("Wire", importlib.import_module(name))
    except ModuleNotFoundError as error:
        raise ConfigError(f"target {target!r} speaks HTTP but has no module {name}") from error


class _Call:
    """One request of ours, until it is answered or failed."""

    __slots__ = ("body", "connection", "data", "deadline", "over", "to")

    def __init__(self, to: str, body: Any, data: bytes, deadline: Ns) -> None:
        self.to = to
        self.body = body
        self.data = data
        self.deadline = deadline
        self.over = False
        self.connection: _Client | None = None


class _Client:
    """A connection of ours to a peer; ``call`` is the request under way, or the one that it is dialled for."""

    __slots__ = ("armed", "call", "deadline", "out", "peer", "reader", "sock", "up")

    def __init__(self, peer: _Peer, sock: socket.socket, deadline: Ns) -> None:
        self.peer = peer
        self.sock = sock
        self.reader = HttpReader(answers=True)
        self.up = False
        self.armed = True
        self.deadline = deadline
        self.call: _Call | None = None
        self.out = bytearray()


class _Peer:
    """What waits for one peer, and the connections to it."""

    __slots__ = ("address", "clients", "name", "queue", "retry_at")

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.clients: list[_Client] = []
        self.queue: deque[_Call] = deque()
        self.retry_at: Ns = 0


class _Served:
    """A connection of a peer to us; ``request`` is the id that the core has not answered yet."""

    __slots__ = ("armed", "closing", "out", "reader", "request", "sock", "src")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = HttpReader(answers=False)
        self.request: int | None = None
        self.src = ""
        self.out = bytearray()
        self.armed = False
        self.closing = False


class HttpPeers:
    """All peer connections of one node. Times are the process' monotonic ns."""

    def __init__(
        self,
        shell: Shell,
        *,
        node: str,
        members: Mapping[str, str],
        bind: str,
        port: int,
        rpc_timeout_ms: int,
        wire: Wire,
        selector: selectors.BaseSelector,
    ) -> None:
        self._shell = shell
        self._count = shell.counters
        self._node = node
        self._bind = bind
        self._wire = wire
        self._selector = selector
        self._rpc_ns = rpc_timeout_ms * MS
        self._user_timeout_ms = max(500, 4 * rpc_timeout_ms)
        self._members = frozenset(members)
        self._peers = {name: _Peer(name, (address, port)) for name, address in members.items() if name != node}
        self._calls: deque[_Call] = deque()  # all calls in the order of their deadlines: every call has the same limit
        self._served: set[_Served] = set()
        self._waiting: dict[int, _Served] = {}
        self._answers: list[tuple[int, Any]] = []
        self._last_id = 0
        self._dirty_clients: set[_Client] = set()
        self._dirty_served: set[_Served] = set()
        self._resume: list[_Served] = []
        self._listener = listen(bind, port)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    # --- what the shell calls -------------------------------------------------------------------------------------

    def send(self, to: str, body: Any, answers: int | None) -> None:
        """Queue a request, or the answer to the request ``answers``."""
        if answers is not None:
            self._answers.append((answers, body))
            return
        peer = self._peers.get(to)
        if peer is None:
            self._count["peer_unknown"] += 1
            self._shell.failed(to, body, "not a member")
            return
        method, path, headers, data = self._wire.request(body)
        host = f"{peer.address[0]}:{peer.address[1]}"
        whole = render_request(method, path, {"Host": host, **headers, SENDER: self._node}, data)
        call = _Call(to, body, whole, self._shell.mono() + self._rpc_ns)
        peer.queue.append(call)
        self._calls.append(call)
        if len(peer.queue) > QUEUE_MAX:
            self._count["peer_dropped"] += 1
            self._fail(peer.queue.popleft(), "too many requests wait for this peer")

    def stage(self) -> None:
        """Give waiting requests to free connections and answers to theirs, reporting each to the shell before."""
        for peer in self._peers.values():
            if peer.queue:
                self._assign(peer)
        if self._answers:
            answers, self._answers = self._answers, []
            for request, body in answers:
                self._answer(request, body)

    def write(self) -> None:
        """Write what was staged; then serve requests that came behind the answered ones on their connections."""
        if self._dirty_clients:
            clients, self._dirty_clients = self._dirty_clients, set()
            for client in clients:
                self._write_client(client)
        if self._dirty_served:
            served, self._dirty_served = self._dirty_served, set()
            for each in served:
                self._write_served(each)

    def tick(self, mono: Ns) -> Ns:
        """Deadlines; returns the next one, ``FAR`` if there is none."""
        resume, self._resume = self._resume, []
        for served in resume:
            self._serve(served, b"")
        while self._calls and (self._calls[0].over or self._calls[0].deadline <= mono):
            call = self._calls.popleft()
            if not call.over:
                self._count["call_timeout"] += 1
                if call.connection is not None:
                    self._close_client(call.connection)  # a late answer must not meet the next request
                else:
                    self._peers[call.to].queue.remove(call)
                self._fail(call, "timeout")
        after = self._calls[0].deadline if self._calls else FAR
        for peer in self._peers.values():
            for client in [each for each in peer.clients if not each.up]:
                if client.deadline <= mono:
                    self._count["dial_timeout"] += 1
                    self._close_client(client)
                else:
                    after = min(after, client.deadline)
            if peer.queue and not peer.clients:
                after = min(after, max(peer.retry_at, mono + MS))
        return after

    @property
    def waiting(self) -> bool:
        """See ``Transport``."""
        clients = (client for peer in self._peers.values() for client in peer.clients)
        return any(client.up and client.out for client in clients) or any(served.out for served in self._served)

    def close(self) -> None:
        """Close every connection."""
        for peer in self._peers.values():
            for client in list(peer.clients):
                self._close_client(client)
        for served in list(self._served):
            self._close_served(served)
        self._selector.unregister(self._listener)
        self._listener.close()

    # --- our requests ---------------------------------------------------------------------------------------------

    def _assign(self, peer: _Peer) -> None:
        dialling = sum(1 for client in peer.clients if not client.up)
        for client in peer.clients:
            if not peer.queue:
                return
            if client.up and client.call is None:
                self._begin(client, peer.queue.popleft())
        mono = self._shell.mono()
        while dialling < len(peer.queue) and len(peer.clients) < CONNECTIONS_A_PEER and mono >= peer.retry_at:
            if not self._dial(peer, mono):
                return
            dialling += 1

    def _begin(self, client: _Client, call: _Call) -> None:
        self._shell.leaving(call.to, call.body)
        self._count["peer_sent"] += 1
        client.call, call.connection = call, client
        client.out += call.data
        self._dirty_clients.add(client)

    def _dial(self, peer: _Peer, mono: Ns) -> bool:
        self._count["dial"] += 1
        sock = dial(peer.address, source=self._bind, user_timeout_ms=self._user_timeout_ms)
        if sock is None:
            self._dial_failed(peer, "no route")
            return False
        client = _Client(peer, sock, mono + self._rpc_ns)
        peer.clients.append(client)
        self._selector.register(
            sock, selectors.EVENT_READ | selectors.EVENT_WRITE, lambda mask: self._on_client(client, mask)
        )
        return True

    def _dial_failed(self, peer: _Peer, error: str) -> None:
        """A refused dial fails what waits, as an HTTP client does; a silent one lets it run into its time-out."""
        self._count["dial_failed"] += 1
        peer.retry_at = self._shell.mono() + self._rpc_ns // 2
        while peer.queue:
            self._fail(peer.queue.popleft(), error)

    def _on_client(self, client: _Client, mask: int) -> None:
        if client not in client.peer.clients:
            return
        if not client.up:
            code = client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._close_client(client)
                self._dial_failed(client.peer, "connection refused")
                return
            client.up = True
            self._dirty_clients.add(client)
            return
        if mask & selectors.EVENT_READ:
            self._read_client(client)
        elif mask & selectors.EVENT_WRITE:
            self._dirty_clients.add(client)

    def _read_client(self, client: _Client) -> None:
        error = "connection closed"
        try:
            data = client.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as failure:
            data, error = b"", failure.strerror or "connection lost"
        call = client.call
        message = None
        if data:
            try:
                message = client.reader.feed(data)
                if message is None:
                    return
                if call is None:
                    raise BadHttp("an answer without a request")
                body = self._wire.parse_response(call.body, message.status, message.headers, message.body)
            except (ValueError, RecursionError) as failure:
                self._count["malformed"] += 1
                message, error = None, f"malformed answer: {failure}"
        if message is None or call is None:
            self._close_client(client)
            if call is not None:
                self._fail(call, error)
            return
        client.call = None
        call.over = True
        if message.close:
            self._close_client(client)
        self._count["peer_received"] += 1
        self._shell.arrived(call.to, body, None)

    def _write_client(self, client: _Client) -> None:
        if client not in client.peer.clients or not client.up:
            return
        try:
            send_some(client.sock, client.out)
        except OSError as error:
            call = client.call
            self._close_client(client)
            if call is not None:
                self._fail(call, error.strerror or "connection lost")
            return
        if bool(client.out) != client.armed:
            client.armed = bool(client.out)
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.armed else 0)
            self._selector.modify(client.sock, mask, lambda mask: self._on_client(client, mask))

    def _close_client(self, client: _Client) -> None:
        if client in client.peer.clients:
            client.peer.clients.remove(client)
            self._selector.unregister(client.sock)
            client.sock.close()

    def _fail(self, call: _Call, error: str) -> None:
        call.over = True
        self._count["call_failed"] += 1
        self._shell.failed(call.to, call.body, error)

    # --- requests to us -------------------------------------------------------------------------------------------

    def _accept(self, _mask: int) -> None:
        for sock in accepted(self._listener, self._count, full=lambda: len(self._served) >= SERVED_MAX):
            tune(sock, user_timeout_ms=self._user_timeout_ms)
            served = _Served(sock)
            self._served.add(served)
            self._selector.register(sock, selectors.EVENT_READ, lambda mask, it=served: self._on_served(it, mask))

    def _on_served(self, served: _Served, mask: int) -> None:
        if served not in self._served:
            return
        if mask & selectors.EVENT_WRITE:
            self._dirty_served.add(served)
        if mask & selectors.EVENT_READ:
            data = received(served.sock, READ_BYTES)
            if data is None:
                return
            if not data:
                self._close_served(served)
                return
            self._serve(served, data)

    def _serve(self, served: _Served, data: bytes) -> None:
        """Take in ``data``; hand over one request if none is under way on this connection."""
        if served not in self._served:
            return
        try:
            message = served.reader.feed(data, hold=served.request is not None or served.closing)
            if message is None:
                return
            src = message.headers.get(SENDER.lower(), "")
            if src not in self._members or src == self._node:
                self._count["unknown_hello"] += 1
                self._refuse(served, 403, b"not a member")
                return
            body = self._wire.parse_request(message.method, message.path, message.headers, message.body)
        except (ValueError, RecursionError) as error:
            self._count["malformed"] += 1
            self._refuse(served, getattr(error, "status", 400), str(error).encode()[:200])
            return
        self._last_id += 1
        served.request, served.src = self._last_id, src
        served.closing = message.close
        self._waiting[self._last_id] = served
        self._count["peer_received"] += 1
        self._shell.arrived(src, body, self._last_id)

    def _answer(self, request: int, body: Any) -> None:
        served = self._waiting.pop(request, None)
        if served is None:
            self._count["answer_late"] += 1  # the asker has hung up
            return
        status, headers, data = self._wire.response(body)
        self._shell.leaving(served.src, body)
        self._count["peer_sent"] += 1
        served.out += render_response(status, {**headers, SENDER: self._node}, data, close=served.closing)
        served.request = None
        self._dirty_served.add(served)
        if served.reader.buffered:
            self._resume.append(served)

    def _refuse(self, served: _Served, status: int, why: bytes) -> None:
        served.closing = True
        served.out += render_response(status, {"Content-Type": "text/plain"}, why, close=True)
        self._dirty_served.add(served)

    def _write_served(self, served: _Served) -> None:
        if served not in self._served:
            return
        try:
            send_some(served.sock, served.out)
        except OSError:
            self._close_served(served)
            return
        if served.closing and not served.out and served.request is None:
            self._close_served(served)
            return
        if bool(served.out) != served.armed:
            served.armed = bool(served.out)
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if served.armed else 0)
            self._selector.modify(served.sock, mask, lambda mask: self._on_served(served, mask))

    def _close_served(self, served: _Served) -> None:
        if served in self._served:
            self._served.discard(served)
            if served.request is not None:
                self._waiting.pop(served.request, None)
            self._selector.unregister(served.sock)
            served.sock.close()
