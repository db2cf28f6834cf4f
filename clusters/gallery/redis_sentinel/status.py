"""What a node with a Redis server and a sentinel is: one line of JSON for each line of input.

    python3 status.py ADDRESS REDIS_PORT SENTINEL_PORT NAME

``leads``: the server is a master, and the sentinel next to it named it before and after it said so, in the same epoch.
``epoch``: the sentinel's config epoch, which begins with 0. ``leader``: the address that the sentinel names.
Out of scope: passwords and TLS.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
from typing import Any

LIMIT_S = 0.2


class Connection:
    """A kept connection to a server that speaks RESP, version 2; it is made again after an error."""

    def __init__(self, address: str, port: int) -> None:
        self._place = (address, port)
        self._stream: io.BufferedRWPair | None = None

    def ask(self, *commands: tuple[str, ...]) -> list[Any]:
        """The answers to these commands, which are sent at once. Raises OSError or ValueError."""
        try:
            if self._stream is None:
                self._stream = socket.create_connection(self._place, timeout=LIMIT_S).makefile("rwb")
            for words in commands:
                self._stream.write(b"*%d\r\n" % len(words))
                for word in words:
                    self._stream.write(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
            self._stream.flush()
            return [_read(self._stream) for _ in commands]
        except (OSError, ValueError):
            if self._stream is not None:
                with contextlib.suppress(OSError):
                    self._stream.close()
                self._stream = None
            raise


def _read(stream: io.BufferedRWPair) -> Any:
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the connection is closed")
    kind, rest = line[:1], line[1:-2]
    if kind == b"*":
        return [_read(stream) for _ in range(int(rest))]
    if kind == b"$":
        return stream.read(int(rest) + 2)[:-2].decode() if int(rest) >= 0 else None
    if kind == b"-":
        raise ValueError(rest.decode())
    return rest.decode()


def known(sentinel: Connection, name: str) -> tuple[int, str]:
    """The epoch and the master's address that the sentinel names, of one moment."""
    fields, place = sentinel.ask(("SENTINEL", "MASTER", name), ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
    return int(dict(zip(fields[::2], fields[1::2], strict=False))["config-epoch"]), place[0]


def status(redis: Connection, sentinel: Connection, *, address: str, name: str) -> dict[str, Any] | None:
    """One answer; None: the sentinel changed its mind meanwhile."""
    before = known(sentinel, name)
    role = redis.ask(("ROLE",))[0][0]
    if known(sentinel, name) != before:
        return None
    epoch, leader = before
    return {"role": role, "leads": role == "master" and leader == address, "epoch": epoch, "leader": leader}


def main(address: str, redis_port: str, sentinel_port: str, name: str) -> None:
    """Answer until the input ends."""
    redis, sentinel = Connection(address, int(redis_port)), Connection(address, int(sentinel_port))
    for _ in sys.stdin:
        try:
            found: Any = status(redis, sentinel, address=address, name=name)
        except (OSError, ValueError, LookupError, TypeError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
