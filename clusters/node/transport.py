"""What peer transports and the loop ask of each other, and how their sockets are made.

Guarantees of a transport: it never calls the shell from within ``send``; nothing leaves between two ``write`` calls;
each message is reported to the shell (``leaving``) before its bytes are written. Out of scope: the wire formats.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError

FAR: Ns = 1 << 63
"""A deadline that never comes."""
_WILDCARDS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - recognised, not bound


class Shell(Protocol):
    """What a transport asks of the loop."""

    counters: Counter[str]

    def mono(self) -> Ns:
        """The monotonic clock as this turn last read it."""

    def arrived(self, src: str, body: Any, request: int | None) -> None:
        """A message is here; ``request`` is its id if it expects an answer."""

    def failed(self, to: str, body: Any, error: str) -> None:
        """A message will certainly not be answered. Queued, so it may be called at any time."""

    def leaving(self, to: str, body: Any) -> None:
        """This message is about to leave."""


class Transport(Protocol):
    """What the loop asks of a transport."""

    def send(self, to: str, body: Any, answers: int | None) -> None:
        """Queue a message."""

    def stage(self) -> None:
        """Decide what leaves in this turn and report it to the shell."""

    def write(self) -> None:
        """Write what was staged."""

    def tick(self, mono: Ns) -> Ns:
        """Deadlines; returns the next one, ``FAR`` if there is none."""

    @property
    def waiting(self) -> bool:
        """Whether something waits to leave on a connection that is there."""

    def close(self) -> None:
        """Close everything."""


def listen(bind: str, port: int) -> socket.socket:
    """A non-blocking listener. Raises ClusterError if the address is not to be had."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((bind, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise ClusterError(
            f"cannot listen: {error.strerror}",
            where=f"{bind}:{port}",
            cause="another process has the port, or the address is not this host's",
        ) from error
    return sock


def accepted(listener: socket.socket, counters: Counter[str], *, full: Callable[[], bool]) -> Iterator[socket.socket]:
    """The connections that wait at a listener; while it is ``full``, each is closed and counted."""
    while True:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            counters["accept_failed"] += 1
            return
        if full():
            counters["refused"] += 1
            sock.close()
        else:
            yield sock


def received(sock: socket.socket, most: int) -> bytes | None:
    """Some bytes; b"" if the connection is over, None if there are none now."""
    try:
        return sock.recv(most)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def send_some(sock: socket.socket, out: bytearray) -> None:
    """Send of ``out`` what can leave now, and take it out. OSError: the connection is over."""
    if out:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            del out[: sock.send(out)]


def tune(sock: socket.socket, *, user_timeout_ms: int) -> None:
    """No delay of small messages; unacknowledged data for ``user_timeout_ms`` kills the flow."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)


def dial(address: tuple[str, int], *, source: str, user_timeout_ms: int) -> socket.socket | None:
    """Begin to connect; None if that failed at once (no route: a fault can do that)."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        tune(sock, user_timeout_ms=user_timeout_ms)
        if source not in _WILDCARDS:
            sock.bind((source, 0))
        code = sock.connect_ex(address)
    except OSError:
        code = errno.EIO
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        return None
    return sock
