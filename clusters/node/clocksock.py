"""The clock socket: reports to any process on the host what the clocks of THIS process show.

Each connection gets one JSON line {"mono_ns","wall_ns"} and is closed. Guarantees: the clocks are read right before the
line is sent. Clock faults preloaded into the process (libfaketime) are therefore seen as the process sees them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from pathlib import Path

from dethrone.clusters.node.clocks import read_clocks


class ClockSocket:
    """Listens at ``path``, replacing a socket that a killed process left there."""

    def __init__(self, path: str, selector: selectors.BaseSelector) -> None:
        self._path = Path(path)
        self._selector = selector
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(path)
        self._listener.listen(16)
        selector.register(self._listener, selectors.EVENT_READ, self._answer)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _answer(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.setblocking(False)
                    now = read_clocks()
                    connection.send(b'{"mono_ns":%d,"wall_ns":%d}\n' % (now.mono, now.wall))
