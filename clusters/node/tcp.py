"""One-way peer messages over TCP: framed JSON, one persistent outgoing connection to each peer.

The first frame of a connection is a hello with the sender's name; only members are accepted. Guarantees: a connect is
given up after one RPC timeout and tried again within another; the kernel detects a flow that a fault cut
(TCP_USER_TIMEOUT), so it is dialled again soon after the heal; queues are bounded, and what they lose is counted and
reported as failed; nothing that a peer sends can raise here. Messages may be lost, never torn. Out of scope:
acknowledgement and encryption.
"""

from __future__ import annotations

import errno
import selectors
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.clusters.node.transport import FAR, Shell, accepted, dial, listen, received, send_some, tune
from dethrone.harness.core.clock import MS, Ns

QUEUE_FRAMES_MAX = 1024
QUEUE_BYTES_MAX = 8 * 1024 * 1024
OUT_BYTES_LOW = 64 * 1024
"""A connection takes new frames only below this backlog: what waits longer stays where it can be dropped."""
READ_BYTES = 256 * 1024
INBOUND_SPARE = 16


class Hello(msgspec.Struct, frozen=True):
    """The first frame of a connection."""

    hello: str
    incarnation: int = 0


class _Link:
    """The outgoing connection to one peer and what waits for it."""

    __slots__ = (
        "address",
        "armed",
        "backlog",
        "deadline",
        "name",
        "out",
        "queue",
        "queue_bytes",
        "retry_at",
        "sock",
        "up",
    )

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.sock: socket.socket | None = None
        self.up = False
        self.armed = False  # whether the selector also waits for room to write
        self.deadline: Ns = 0  # of the connect under way
        self.retry_at: Ns = 0  # when there is no socket
        self.queue: deque[tuple[Ns, Any, bytes]] = deque()
        self.queue_bytes = 0
        self.out = bytearray()


class _Inbound:
    """A connection from a peer; ``src`` is None until its hello."""

    __slots__ = ("deadline", "reader", "sock", "src")

    def __init__(self, sock: socket.socket, deadline: Ns) -> None:
        self.sock = sock
        self.reader = FrameReader()
        self.src: str | None = None
        self.deadline = deadline


class TcpPeers:
    """All peer connections of one node. Times are the process' monotonic ns."""

    def __init__(
        self,
        shell: Shell,
        *,
        node: str,
        incarnation: int,
        members: Mapping[str, str],
        bind: str,
        port: int,
        rpc_timeout_ms: int,
        message_type: Any,
        selector: selectors.BaseSelector,
    ) -> None:
        self._shell = shell
        self._count = shell.counters
        self._selector = selector
        self._bind = bind
        self._rpc_ns = rpc_timeout_ms * MS
        # The first retransmission comes after 200 ms at the earliest: a bound below that would kill live flows.
        self._user_timeout_ms = max(500, 4 * rpc_timeout_ms)
        self._stale_ns = max(4 * self._rpc_ns, 500 * MS)
        self._hello_ns = max(10 * self._rpc_ns, 2000 * MS)
        self._others = frozenset(members) - {node}
        self._decoder = msgspec.json.Decoder(message_type)
        self._hello_decoder = msgspec.json.Decoder(Hello)
        self._encoder = msgspec.json.Encoder()
        self._hello = frame(self._encoder.encode(Hello(node, incarnation)))
        self._links = {name: _Link(name, (address, port)) for name, address in members.items() if name != node}
        self._dirty: set[_Link] = set()
        self._inbound: set[_Inbound] = set()
        self._inbound_max = 2 * len(members) + INBOUND_SPARE
        self._next: Ns = 0
        self._listener = listen(bind, port)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    # --- what the shell calls -------------------------------------------------------------------------------------

    def send(self, to: str, body: Any, answers: int | None) -> None:
        """Queue ``body`` for the peer ``to``; drops the oldest beyond the bounds. ``answers`` has no meaning here."""
        del answers
        link = self._links.get(to)
        if link is None:
            self._count["peer_unknown"] += 1
            return
        data = frame(self._encoder.encode(body))
        link.queue.append((self._shell.mono(), body, data))
        link.queue_bytes += len(data)
        while len(link.queue) > QUEUE_FRAMES_MAX or link.queue_bytes > QUEUE_BYTES_MAX:
            self._drop(link, "too much waits for this peer")
        if link.up:
            self._dirty.add(link)

    def stage(self) -> None:
        """Move what can leave now into the connections' buffers, reporting each message to the shell before."""
        for link in self._dirty:
            while link.up and link.queue and len(link.out) < OUT_BYTES_LOW:
                _, body, data = link.queue.popleft()
                link.queue_bytes -= len(data)
                self._shell.leaving(link.name, body)
                self._count["peer_sent"] += 1
                link.out += data

    def write(self) -> None:
        """Write what was staged."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        for link in dirty:
            self._write(link)

    def tick(self, mono: Ns) -> Ns:
        """Dial, give up, expire; returns when it wants to be called again (``FAR``: when something happens)."""
        if mono < self._next:
            return self._next
        after: list[Ns] = []
        for link in self._links.values():
            if link.sock is None and mono >= link.retry_at:
                self._dial(link, mono)
            elif link.sock is not None and not link.up and mono >= link.deadline:
                self._count["dial_timeout"] += 1
                self._lost(link, mono)
            if not link.up:
                self._expire(link, mono)
                after.append(link.deadline if link.sock is not None else link.retry_at)
        for inbound in [each for each in self._inbound if each.src is None]:
            if mono >= inbound.deadline:
                self._refuse(inbound)
            else:
                after.append(inbound.deadline)
        self._next = min(after, default=FAR)
        return self._next

    @property
    def waiting(self) -> bool:
        """See ``Transport``."""
        return any(link.up and (link.out or link.queue) for link in self._links.values())

    def close(self) -> None:
        """Close every connection."""
        for link in self._links.values():
            if link.sock is not None:
                self._selector.unregister(link.sock)
                link.sock.close()
        for inbound in list(self._inbound):
            self._close_inbound(inbound)
        self._selector.unregister(self._listener)
        self._listener.close()

    # --- outgoing -------------------------------------------------------------------------------------------------

    def _dial(self, link: _Link, mono: Ns) -> None:
        self._count["dial"] += 1
        link.retry_at = mono + self._rpc_ns
        link.deadline = mono + self._rpc_ns
        sock = dial(link.address, source=self._bind, user_timeout_ms=self._user_timeout_ms)
        if sock is None:
            self._count["dial_failed"] += 1
            return
        link.sock = sock
        link.out.clear()
        link.armed = True
        self._selector.register(
            sock, selectors.EVENT_READ | selectors.EVENT_WRITE, lambda mask: self._on_link(link, mask)
        )

    def _on_link(self, link: _Link, mask: int) -> None:
        if link.sock is None:
            return
        if not link.up:
            code = link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._count["dial_failed"] += 1
                self._lost(link, self._shell.mono())
                return
            link.up = True
            link.out[:0] = self._hello
            self._dirty.add(link)
            return
        if mask & selectors.EVENT_READ:
            # A peer never speaks on this connection: anything but silence is its end.
            try:
                if link.sock.recv(1):
                    self._count["malformed"] += 1
                self._lost(link, self._shell.mono())
                return
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._lost_for(error)
                self._lost(link, self._shell.mono())
                return
        if mask & selectors.EVENT_WRITE:
            self._dirty.add(link)

    def _write(self, link: _Link) -> None:
        if link.sock is None or not link.up:
            return
        try:
            send_some(link.sock, link.out)
        except OSError as error:
            self._lost_for(error)
            self._lost(link, self._shell.mono())
            return
        waiting = bool(link.out) or bool(link.queue)
        if waiting != link.armed:
            link.armed = waiting
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
            self._selector.modify(link.sock, mask, lambda mask: self._on_link(link, mask))

    def _lost_for(self, error: OSError) -> None:
        self._count["link_timeout" if error.errno == errno.ETIMEDOUT else "link_reset"] += 1

    def _lost(self, link: _Link, mono: Ns) -> None:
        """The connection is gone: what was handed to it is lost, what is queued waits for the next one."""
        if link.sock is not None:
            self._selector.unregister(link.sock)
            link.sock.close()
        # At most one dial an RPC timeout: a peer that is dead, or that refuses us, must cost little.
        link.retry_at = max(mono, link.retry_at)
        link.sock, link.up, link.armed = None, False, False
        link.out.clear()
        self._next = 0

    def _expire(self, link: _Link, mono: Ns) -> None:
        while link.queue and mono - link.queue[0][0] > self._stale_ns:
            self._drop(link, "no connection")

    def _drop(self, link: _Link, why: str) -> None:
        """It never left, so it will certainly not be answered."""
        _, body, data = link.queue.popleft()
        link.queue_bytes -= len(data)
        self._count["peer_dropped"] += 1
        self._shell.failed(link.name, body, why)

    # --- incoming -------------------------------------------------------------------------------------------------

    def _accept(self, _mask: int) -> None:
        for sock in accepted(self._listener, self._count, full=lambda: len(self._inbound) >= self._inbound_max):
            tune(sock, user_timeout_ms=self._user_timeout_ms)
            inbound = _Inbound(sock, self._shell.mono() + self._hello_ns)
            self._inbound.add(inbound)
            self._next = 0
            self._selector.register(sock, selectors.EVENT_READ, lambda _mask, it=inbound: self._on_inbound(it))

    def _on_inbound(self, inbound: _Inbound) -> None:
        if inbound not in self._inbound:
            return
        data = received(inbound.sock, READ_BYTES)
        if data is None:
            return
        if not data:
            self._close_inbound(inbound)
            return
        try:
            frames = inbound.reader.feed(data)
        except BadFrame:
            self._refuse(inbound)
            return
        for payload in frames:
            if inbound.src is None:
                if not self._welcome(inbound, payload):
                    return
                continue
            try:
                body = self._decoder.decode(payload)
            except (ValueError, RecursionError):
                self._refuse(inbound)
                return
            self._count["peer_received"] += 1
            self._shell.arrived(inbound.src, body, None)

    def _welcome(self, inbound: _Inbound, payload: bytes) -> bool:
        try:
            hello = self._hello_decoder.decode(payload)
        except (ValueError, RecursionError):
            self._refuse(inbound)
            return False
        if hello.hello not in self._others:
            self._count["unknown_hello"] += 1
            self._refuse(inbound)
            return False
        for other in [each for each in self._inbound if each.src == hello.hello]:
            self._close_inbound(other)  # one flow a peer: an older one is what a fault left behind
        inbound.src = hello.hello
        return True

    def _refuse(self, inbound: _Inbound) -> None:
        self._count["malformed"] += 1
        self._close_inbound(inbound)

    def _close_inbound(self, inbound: _Inbound) -> None:
        if inbound in self._inbound:
            self._inbound.discard(inbound)
            self._selector.unregister(inbound.sock)
            inbound.sock.close()
