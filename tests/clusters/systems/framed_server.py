"""A server of frames, one thread a connection, for tests of clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


class FramedServer:
    """``answer`` makes of each request the bytes that are sent back as they are; None hangs up."""

    def __init__(self, answer: Callable[[bytes], bytes | None], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._answer = answer
        self._listener = socket.create_server((host, port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                answer = self._answer(stream.read(int.from_bytes(size, "big")))
                if answer is None:
                    return
                connection.sendall(answer)

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()
