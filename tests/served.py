"""A server of the standard library that a test asks, for as long as the test needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)
POLL_S = 0.01
"""How often a server looks whether it shall end: by default every half second, as long as a test takes."""


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Serve meanwhile, on a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
