"""Lists and registers in two tables of PostgreSQL, over its own protocol, at the server that is asked.

Guarantees: a statement is sent once, and is a transaction of its own; one that changes something counts as done only if
the server says so without a warning, since it warns of a commit that no standby has confirmed. Out of scope: passwords
and TLS, and finding the primary.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
from typing import Any, NamedTuple

APPEND = "INSERT INTO lists VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = lists.value || excluded.value"
READ = "SELECT value FROM lists WHERE key = $1"
PUT = "INSERT INTO registers VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
GET = "SELECT value FROM registers WHERE key = $1"
CREATE = "INSERT INTO registers VALUES ($1, $2) ON CONFLICT DO NOTHING"
REPLACE = "UPDATE registers SET value = $2 WHERE key = $1 AND value = $3"
LIMIT_S = 5
READ_ONLY = "25006"
"""SQLSTATE of a standby that is to change something."""


class NotDoneError(Exception):
    """Nothing has happened."""


class ServerError(Exception):
    """What the server says, by its fields (https://www.postgresql.org/docs/15/protocol-error-fields.html)."""

    def __init__(self, body: bytes) -> None:
        self.fields = {field[:1].decode(): field[1:].decode() for field in body.split(b"\0") if field}
        super().__init__(f"{self.fields.get('C')} {self.fields.get('M')}")


class Answer(NamedTuple):
    """The command's tag, a row's first column, and whether the server warned."""

    tag: str
    found: str | None
    warned: bool


class Connection:
    """To one server (https://www.postgresql.org/docs/15/protocol-flow.html). Raises OSError or ServerError."""

    def __init__(self, address: str, port: int) -> None:
        self._socket = socket.create_connection((address, port), timeout=LIMIT_S)
        self._stream: io.BufferedReader = self._socket.makefile("rb")
        words = b"user\0postgres\0database\0postgres\0\0"
        self._socket.sendall(struct.pack("!ii", 8 + len(words), 3 << 16) + words)
        self._until_ready()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._stream.close()
            self._socket.close()

    def query(self, statement: str, *values: str) -> Answer:
        """What it did. ``values`` stand for ``$1``, ``$2`` and so on."""
        words = [value.encode() for value in values]
        bound = b"".join(struct.pack("!i", len(word)) + word for word in words)
        self._socket.sendall(
            _message(b"P", b"\0" + statement.encode() + bytes(3))
            + _message(b"B", bytes(4) + struct.pack("!h", len(words)) + bound + bytes(2))
            + _message(b"E", bytes(5))
            + _message(b"S", b"")
        )
        return self._until_ready()

    def _until_ready(self) -> Answer:
        tag, found, warned = "", None, False
        error = None
        while True:
            kind, body = self._next()
            if kind == b"Z" and error is None:
                return Answer(tag, found, warned)
            if kind == b"Z" and error is not None:
                raise error
            if kind == b"E":
                error = ServerError(body)
                if error.fields.get("V") != "ERROR":  # it hangs up
                    raise error
            elif kind == b"C":
                tag = body[:-1].decode()
            elif kind == b"D":
                (size,) = struct.unpack_from("!i", body, 2)
                found = body[6 : 6 + size].decode()
            elif kind == b"N":
                warned = warned or ServerError(body).fields.get("V") == "WARNING"
            elif kind == b"R" and body != bytes(4):
                raise NotDoneError("the server wants a password")

    def _next(self) -> tuple[bytes, bytes]:
        head = self._stream.read(5)
        if len(head) < 5:
            raise ConnectionError("the server hung up")
        size = struct.unpack("!i", head[1:])[0] - 4
        body = self._stream.read(size)
        if len(body) < size:
            raise ConnectionError("the server hung up")
        return head[:1], body


class Client:
    """Kept connections to the servers."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, Connection] = {}

    def append(self, node: str, key: str, value: Any) -> None:
        """Add to the row of this list, which the statement locks: the next append sees it."""
        self._change(node, APPEND, key, json.dumps([value]))

    def read(self, node: str, key: str) -> list[Any]:
        """The row of this list, as the server that is asked has it."""
        found = self._query(node, READ, key).found
        return [] if found is None else list(json.loads(found))

    def put(self, node: str, key: str, value: Any) -> None:
        """Replace the row of this register."""
        self._change(node, PUT, key, json.dumps(value))

    def get(self, node: str, key: str) -> Any:
        """The row of this register, likewise."""
        found = self._query(node, GET, key).found
        return None if found is None else json.loads(found)

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Replace the row only if it holds ``old``.

        That it does not, the server says by its own copy, which is old if another one was made primary: that is no
        claim about the register.
        """
        held = () if old is None else (json.dumps(old),)
        if self._change(node, REPLACE if held else CREATE, key, json.dumps(value), *held).endswith(" 0"):
            raise NotDoneError("this server's copy holds something else")
        return True

    def _change(self, node: str, statement: str, *values: str) -> str:
        answer = self._query(node, statement, *values)
        if answer.warned:
            raise ValueError("the server warned: it may not be replicated")
        return answer.tag

    def _query(self, node: str, statement: str, *values: str) -> Answer:
        if node not in self._open:
            try:
                self._open[node] = Connection(self._nodes[node]["address"], self._nodes[node]["sql"])
            except (OSError, ServerError) as error:
                raise NotDoneError(str(error)) from error
        try:
            return self._open[node].query(statement, *values)
        except BaseException as error:
            self._open.pop(node).close()
            if isinstance(error, ServerError) and error.fields.get("C") == READ_ONLY:
                raise NotDoneError(str(error)) from error
            raise


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", 4 + len(body)) + body
