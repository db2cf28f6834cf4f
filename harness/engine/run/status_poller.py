"""One selector thread that asks every node for its status, at a fixed pace, and never waits for any of them.

Guarantees: at most one open question per node; each answer's span is ``[asked, answered]`` on the harness' monotonic
clock; a node that does not answer within the bound is reported silent and its connection dropped. No answer ends the
thread: one that exceeds a limit, or makes ``System.reading`` raise, is silence with its reason. ``System.reading``
interprets answers.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from dethrone.harness.core.clock import MS, Ns, Span
from dethrone.harness.core.http_answer import AnswerReader
from dethrone.harness.core.interfaces import NodeSpec, Reading, StatusCall, System
from dethrone.harness.core.limits import STATUS_BYTES_MAX, reading_trouble
from dethrone.harness.core.tls import context_of, secured
from dethrone.harness.core.world import Broken, Happening, Polled, Stalled

ANSWER_BOUND_NS = 500 * MS
RETRY_NS = 80 * MS
STALL_NS = 50 * MS
WAITING = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""There is nothing to be read, or no room for what is to be sent, yet."""


class _Line:
    """The connection to one node and the question that is open on it."""

    def __init__(self, node: NodeSpec, call: StatusCall) -> None:
        self.node = node
        self.call = call
        self.sock: socket.socket | None = None
        self.connected = False
        self.shaking = False
        """Whether TLS has yet to be agreed on."""
        self.unsent = b""
        self.answer: StatusReader = status_reader(call)
        self.asked_ns: Ns | None = None
        self.due_ns: Ns = 0
        if call.tls is not None:
            context_of(call.tls)  # a file that cannot be used ends the run before it begins


class Poller:
    """Start it, stop it; answers go to ``put``. ``clock`` reads ns since the run began."""

    def __init__(
        self,
        system: System,
        nodes: Mapping[str, NodeSpec],
        *,
        interval_ns: Ns,
        clock: Callable[[], Ns],
        put: Callable[[Happening], None],
    ) -> None:
        self._system = system
        self._interval_ns = interval_ns
        self._clock = clock
        self._put = put
        self._lines = [_Line(node, call) for node in nodes.values() if (call := system.status_call(node)) is not None]
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._raised = False
        """Whether ``System.reading`` raised already: the run gets one report."""
        self._thread = threading.Thread(target=self._run, name="status-poller", daemon=True)

    def start(self) -> None:
        """Begin to ask; the nodes' questions are spread over the interval."""
        now = self._clock()
        for position, line in enumerate(self._lines):
            line.due_ns = now + position * self._interval_ns // max(1, len(self._lines))
        self._thread.start()

    def stop(self) -> None:
        """End the thread and drop the connections."""
        self._stop.set()
        self._thread.join(timeout=5)
        for line in self._lines:
            self._drop(line)
        self._selector.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            now = self._clock()
            wake = now + 20 * MS
            for line in self._lines:
                if line.asked_ns is None and line.due_ns <= now:
                    self._ask(line, now)
                elif line.asked_ns is not None and now - line.asked_ns > ANSWER_BOUND_NS:
                    self._silent(line, "no answer in time")
                if line.asked_ns is None:
                    wake = min(wake, line.due_ns)
            before = self._clock()
            timeout = max(0, wake - before)
            for key, mask in self._selector.select(timeout / 1e9):
                self._ready(key.data, mask)
            late = self._clock() - before - timeout
            if late > STALL_NS:
                self._put(Stalled(Span(before, before + timeout + late), late))

    def _ask(self, line: _Line, now: Ns) -> None:
        line.asked_ns = now
        line.due_ns = now + self._interval_ns
        line.unsent = line.call.request
        line.answer = status_reader(line.call)
        try:
            if line.sock is None:
                line.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                line.sock.setblocking(False)
                line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line.connected, line.shaking = False, line.call.tls is not None
                code = line.sock.connect_ex((line.node.address, line.call.port))
                if code not in {0, errno.EINPROGRESS}:
                    self._silent(line, errno.errorcode.get(code, str(code)))
                    return
                self._selector.register(line.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
            else:
                self._send(line)
        except OSError as error:
            self._silent(line, error.strerror or str(error))

    def _ready(self, line: _Line, mask: int) -> None:
        if line.sock is None:
            return
        try:
            if mask & selectors.EVENT_WRITE and not line.connected:
                code = line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._silent(line, errno.errorcode.get(code, str(code)))
                    return
                line.connected = True
                if line.call.tls is not None:
                    line.sock = secured(line.sock, line.call.tls, line.node.address, shake=False)
            if line.shaking and not self._shook(line):
                return
            if mask & selectors.EVENT_WRITE or line.unsent:
                self._send(line)
            if mask & selectors.EVENT_READ:
                self._receive(line)
        except OSError as error:
            self._silent(line, error.strerror or str(error))

    def _shook(self, line: _Line) -> bool:
        """Whether the handshake is done; a step of it, if not. OSError: it failed."""
        if not line.connected or not isinstance(line.sock, ssl.SSLSocket):
            return False
        try:
            line.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(line.sock, selectors.EVENT_READ, line)
        except ssl.SSLWantWriteError:
            self._selector.modify(line.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        else:
            line.shaking = False
        return not line.shaking

    def _send(self, line: _Line) -> None:
        if line.sock is None:
            return
        if line.unsent:
            with contextlib.suppress(*WAITING):
                line.unsent = line.unsent[line.sock.send(line.unsent) :]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.unsent else 0)
        self._selector.modify(line.sock, wanted, line)

    def _receive(self, line: _Line) -> None:
        if line.sock is None:
            return
        try:
            chunk = line.sock.recv(65536)
        except WAITING:
            return
        if not chunk:
            self._silent(line, "connection closed")
            return
        if line.asked_ns is None:
            self._silent(line, "an answer without a query")
            return
        try:
            body = line.answer.feed(chunk)
        except ValueError as error:
            self._silent(line, str(error))
            return
        if body is None:
            return
        span = Span(line.asked_ns, self._clock())
        reading, why = self._read(line, body)
        if reading is None:
            self._put(Polled(line.node.name, span, None, why))
        else:
            self._put(Polled(line.node.name, span, reading))
        line.asked_ns = None
        if not line.answer.keep:
            self._drop(line)

    def _read(self, line: _Line, body: bytes) -> tuple[Reading | None, str]:
        """The answer's reading; or None, and why there is none."""
        try:
            reading = self._system.reading(line.node, body)
            trouble = "" if reading is None else reading_trouble(reading)
        except Exception as error:  # noqa: BLE001 - an adapter's bug must not blind the run to every node
            why = f"reading a status answer raised {type(error).__name__}: {error!s:.200}"
            if not self._raised:
                self._raised = True
                self._put(Broken("status", f"{line.node.name}: {why}", ends=False))
            return None, why
        if reading is None:
            return None, "an answer that is not a status"
        return (None, f"a status over a limit: {trouble}") if trouble else (reading, "")

    def _silent(self, line: _Line, why: str) -> None:
        now = self._clock()
        asked = line.asked_ns if line.asked_ns is not None else now
        open_question = line.asked_ns is not None
        self._drop(line)
        line.asked_ns = None
        line.due_ns = max(line.due_ns, now + RETRY_NS)
        if open_question:
            self._put(Polled(line.node.name, Span(asked, now), None, why))

    def _drop(self, line: _Line) -> None:
        if line.sock is not None:
            with contextlib.suppress(KeyError, ValueError):  # never registered: the connect failed at once
                self._selector.unregister(line.sock)
            line.sock.close()
            line.sock = None


class StatusReader(Protocol):
    """One status answer out of bytes as they arrive."""

    keep: bool
    """Whether the connection can be used again."""

    def feed(self, data: bytes) -> bytes | None:
        """The body, once it is whole. ValueError: nonsense, or over a limit."""


class _Frame:
    """A 4-byte big-endian length, then that many bytes."""

    def __init__(self) -> None:
        self.keep = True
        self._received = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        self._received += data
        if len(self._received) < 4:
            return None
        size = int.from_bytes(self._received[:4], "big")
        if size > STATUS_BYTES_MAX:
            raise ValueError(f"a status answer of {size} bytes; at most {STATUS_BYTES_MAX} are read")
        if len(self._received) < 4 + size:
            return None
        self.keep = len(self._received) == 4 + size  # more than was asked for: who knows what the next answer is to
        return bytes(self._received[4 : 4 + size])


class _Http:
    """HTTP/1.1 responses with a length, one after another; any status but 200 is a ValueError."""

    def __init__(self, answers: int) -> None:
        self.keep = True
        self._bodies: list[bytes] = []
        self._answers = answers
        self._reader = self._next()

    def _next(self) -> AnswerReader:
        last = len(self._bodies) + 1 == self._answers
        return AnswerReader(body_max=STATUS_BYTES_MAX, until_close=False, followed=not last)

    def feed(self, data: bytes) -> bytes | None:
        while (answer := self._reader.feed(data)) is not None:
            self.keep = answer.keep
            if answer.status != 200:
                raise ValueError(f"HTTP {answer.status}")
            self._bodies.append(answer.body)
            if len(self._bodies) == self._answers:
                return b"\0".join(self._bodies)
            if not answer.keep:
                raise ValueError(f"the connection ends after {len(self._bodies)} of {self._answers} answers")
            data, self._reader = self._reader.rest, self._next()
        return None


def status_reader(call: StatusCall) -> StatusReader:
    """A reader for what this call is answered with, once."""
    return _Frame() if call.framing == "u32" else _Http(call.answers)
