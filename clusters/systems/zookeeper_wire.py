"""ZooKeeper's client protocol as bytes: jute records in frames of a 4-byte length.

Guarantees: pure; what cannot be read is a ValueError, never a guess. Out of scope is what our clients do not need:
watches, authentication, multi-operations, access lists other than "world:anyone".

Source: Apache ZooKeeper 3.9, zookeeper.jute, ZooDefs.OpCode, KeeperException.Code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN, SYNC, PING, CREATE2, CLOSE = 1, 2, 3, 4, 5, 8, 9, 11, 15, -11
"""Kinds of requests."""

OF_A_WATCH, OF_A_PING = -1, -2
"""Numbers of what is no answer to a request, and of pings with their answers."""

PERSISTENT, EPHEMERAL, PERSISTENT_SEQUENTIAL, EPHEMERAL_SEQUENTIAL = 0, 1, 2, 3
"""How nodes are created."""

NO_NODE, NODE_EXISTS, BAD_VERSION = -101, -110, -103

REFUSED = frozenset({-6, -8, -102, NO_NODE, BAD_VERSION, -108, NODE_EXISTS, -111, -112, -114, -118, -119, -127})
"""Errors after which a request certainly had no effect: unimplemented, bad arguments, no permission, no node, wrong
version, no children for ephemerals, node exists, not empty, session expired, invalid access list, session moved, not
writable, throttled."""

ANY_VERSION = -1
SEQUENCE_DIGITS = 10
"""Of the number that ends the name of a sequential node."""

_PASSWORD_BYTES = 16


class Session(NamedTuple):
    """What a server says of a session. ``number`` 0: there is none. With ``password`` it can be taken up again."""

    number: int
    timeout_ms: int
    password: bytes = b""


class Header(NamedTuple):
    """The head of an answer: to which request, the last transaction that the server has applied, and the error."""

    xid: int
    zxid: int
    error: int


class Stat(NamedTuple):
    """Of a node: the transaction that created it, its data's version, the session of an ephemeral one (else 0)."""

    czxid: int
    version: int
    owner: int = 0


class Reader:
    """Reads one record from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """Four bytes."""
        return int(self._unpack(">i", 4))

    def long(self) -> int:
        """Eight bytes."""
        return int(self._unpack(">q", 8))

    def flag(self) -> bool:
        """One byte."""
        return bool(self._unpack(">?", 1))

    def buffer(self) -> bytes:
        """Bytes with their length in front; nothing where it is negative."""
        size = self.number()
        if size <= 0:
            return b""
        if size > len(self._data) - self._at:
            raise ValueError(f"a field of {size} bytes is cut off")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        """The same in UTF-8."""
        return self.buffer().decode()

    def texts(self) -> list[str]:
        """A vector of them."""
        return [self.text() for _ in range(max(0, self.number()))]

    def header(self) -> Header:
        """The head of an answer."""
        return Header(self.number(), self.long(), self.number())

    def stat(self) -> Stat:
        """What is known of a node."""
        czxid, _, _, _, version = self.long(), self.long(), self.long(), self.long(), self.number()
        self._skip(4 + 4)
        owner = self.long()
        self._skip(4 + 4 + 8)
        return Stat(czxid, version, owner)

    def session(self) -> Session:
        """The answer to ``connect``."""
        self.number()
        timeout_ms, number = self.number(), self.long()
        return Session(number, timeout_ms, self.buffer())

    def watch(self) -> tuple[int, str]:
        """What a watch reports: the kind of change, and the node."""
        kind = self.number()
        self.number()
        return kind, self.text()

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise ValueError(f"{size} bytes are cut off")
        self._at += size

    def _unpack(self, form: str, size: int) -> int:
        self._skip(size)
        (value,) = struct.unpack_from(form, self._data, self._at - size)
        return int(value)


def connect(timeout_ms: int, session: Session | None = None) -> bytes:
    """Ask for a session that runs out so long after the last word of its client: a new one, or this one again."""
    number, password = (0, bytes(_PASSWORD_BYTES)) if session is None else (session.number, session.password)
    return struct.pack(">iqiq", 0, 0, timeout_ms, number) + _buffer(password) + b"\0"


def request(xid: int, kind: int, body: bytes = b"") -> bytes:
    """A request of a session."""
    return struct.pack(">ii", xid, kind) + body


def create(path: str, data: bytes, how: int) -> bytes:
    """The body of ``CREATE`` and ``CREATE2``; anyone may do anything with the node."""
    anyone = struct.pack(">ii", 1, 31) + _text("world") + _text("anyone")
    return _text(path) + _buffer(data) + anyone + struct.pack(">i", how)


def delete(path: str, version: int = ANY_VERSION) -> bytes:
    """The body of ``DELETE``."""
    return _text(path) + struct.pack(">i", version)


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> bytes:
    """The body of ``SET_DATA``."""
    return _text(path) + _buffer(data) + struct.pack(">i", version)


def unwatched(path: str) -> bytes:
    """The body of ``GET_DATA``, ``EXISTS`` and ``GET_CHILDREN``."""
    return _text(path) + b"\0"


def watched(path: str) -> bytes:
    """The same, with a watch for the next change."""
    return _text(path) + b"\1"


def path_only(path: str) -> bytes:
    """The body of ``SYNC``."""
    return _text(path)


def in_sequence(names: Sequence[str]) -> list[str]:
    """Names of sequential nodes in the order of their numbers. ValueError for one without a number."""
    return sorted(names, key=lambda name: int(name[-SEQUENCE_DIGITS:]))


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _text(word: str) -> bytes:
    return _buffer(word.encode())
