"""Connections to the agent: sessions that outlive them, lanes of requests, and the harness' silence.

Guarantees: answers are kept for a session that reconnects; queues and buffers are bounded; a slow reader delays no
thread. Out of scope: reading from sockets, and what requests mean (``server``).
"""

from __future__ import annotations

import collections
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.common import Refused, complain, now_ns

ANSWERS_MAX = 256
"""Answers kept for a session that reconnects."""
LANE_MAX = 256
"""The most requests that wait in one lane; more are refused."""
Verb = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class DeadMan:
    """Measures how long the harness has been silent. ``limit_ns`` 0: disarmed."""

    def __init__(self) -> None:
        self.limit_ns = 0
        self._heard_ns = now_ns()
        self._fired = False

    def arm(self, limit_ns: int) -> None:
        """From now on, a silence of ``limit_ns`` means that the harness is gone; 0 disarms."""
        self.limit_ns = limit_ns
        self.hear()

    def hear(self) -> None:
        """The harness sent something."""
        self._heard_ns = now_ns()
        self._fired = False

    @property
    def silence_ns(self) -> int:
        """How long the harness has been silent."""
        return now_ns() - self._heard_ns

    def due(self) -> int:
        """The length of the silence (ns) if it is too long and not yet reported; otherwise 0."""
        silence = now_ns() - self._heard_ns
        if not self.limit_ns or self._fired or silence < self.limit_ns:
            return 0
        self._fired = True
        return silence


class Session:
    """One harness across its connections: open requests, recent answers, and the current connection."""

    ANSWER_BYTES_MAX = 16 << 20

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.pending: set[int] = set()
        self._answers: collections.OrderedDict[int, bytes] = collections.OrderedDict()
        self._bytes = 0

    def keep(self, number: int, line: bytes) -> None:
        """Keep an answer in case the connection breaks before it arrives; the oldest answers are dropped first."""
        self.pending.discard(number)
        self._answers[number] = line
        self._bytes += len(line)
        while len(self._answers) > 1 and (len(self._answers) > ANSWERS_MAX or self._bytes > self.ANSWER_BYTES_MAX):
            self._bytes -= len(self._answers.popitem(last=False)[1])

    def answer(self, number: int) -> bytes | None:
        """The kept answer to a request that is sent again."""
        return self._answers.get(number)


class Connection:
    """One client of the socket. Any thread may call ``send``; only the server reads."""

    UNSENT_MAX = 64 << 20

    def __init__(self, connected: socket.socket, wake: Callable[[], None]) -> None:
        self.socket = connected
        self.session: Session | None = None
        self.subscribed = False
        self.cursor = 0
        self.unread = bytearray()
        self.closed = False
        self._wake = wake
        self._lock = threading.Lock()
        self._unsent = bytearray()

    @property
    def unsent(self) -> int:
        """The number of bytes that wait for the other side to read."""
        return len(self._unsent)

    def send(self, data: bytes) -> None:
        """Send as much as the socket takes now, and the rest when it takes more."""
        with self._lock:
            if self.closed:
                return
            self._unsent += data
            self._push()
            if self._unsent:
                self._wake()

    def flush(self) -> None:
        """The socket is writable again: send more."""
        with self._lock:
            self._push()

    def _push(self) -> None:
        try:
            while self._unsent:
                # Bounded slices: deleting the head of a large buffer at each small step would be quadratic.
                sent = self.socket.send(memoryview(bytes(self._unsent[: 256 << 10])))
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            if len(self._unsent) > self.UNSENT_MAX:
                self.closed = True
        except OSError:
            self.closed = True

    def close(self) -> None:
        """Close; later calls of ``send`` do nothing."""
        with self._lock:
            self.closed = True
            self._unsent.clear()
            self.socket.close()


class Lane:
    """A thread that serves the requests of one kind one after another."""

    def __init__(self, name: str) -> None:
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue(LANE_MAX)
        self._name = name
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Queue work; raises Refused if the queue is full."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            raise Refused(f"{LANE_MAX} requests wait in lane {self._name} already") from None

    def _serve(self) -> None:
        while True:
            work = self._queue.get()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a lane outlives each of its requests
                complain(self._name, error)
