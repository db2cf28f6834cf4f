"""Redis' wire protocol (RESP 2), as far as a client of single commands needs it: words to bytes, answers to values.

Guarantees: pure but for ``more``, which fetches bytes; an answer that is malformed, nested deeper than ``DEPTH_MAX`` or
larger than its limits raises ``BadAnswerError``, never anything else of its own; each byte is read once. Out of scope:
RESP 3 (which needs a HELLO), pushed messages, transactions.

Source: Redis serialization protocol specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dethrone.harness.core.limits import CLIENT_BYTES_MAX

DEPTH_MAX = 8
LINE_MAX = 64 << 10
COUNT_MAX = 1 << 20
"""Values in one answer, those within others included."""


class BadAnswerError(Exception):
    """The answer is none of this protocol, or over a limit."""


class ErrorReply(NamedTuple):
    """``-CODE text``."""

    text: str

    @property
    def code(self) -> str:
        """Its first word."""
        return self.text.partition(" ")[0]


Reply = None | int | bytes | ErrorReply | list["Reply"]
"""Nothing, a number, a text (simple or bulk), an error, or several of them."""


def request(words: Sequence[str]) -> bytes:
    """The bytes of a command."""
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Reader:
    """Reads one answer. ``more``: the next bytes, at least one; it raises where there are none."""

    def __init__(self, more: Callable[[], bytes]) -> None:
        self._more = more
        self._held = bytearray()
        self._at = 0
        self._total = 0
        self._count = 0

    def reply(self) -> Reply:
        """The whole answer. BadAnswerError, and what ``more`` raises."""
        return self._value(0)

    def rest(self) -> bool:
        """Whether there are bytes behind it that no request asked for."""
        return self._at < len(self._held)

    def _value(self, depth: int) -> Reply:
        self._count += 1
        if self._count > COUNT_MAX or depth > DEPTH_MAX:
            raise BadAnswerError("the answer holds too many values, or too deep ones")
        line = self._line()
        kind, said = line[:1], line[1:]
        if kind == b"+":
            return said
        if kind == b"-":
            return ErrorReply(said.decode("utf-8", "replace"))
        if kind == b":":
            return _number(said)
        if kind == b"$":
            size = _number(said)
            if size == -1:
                return None
            return self._bulk(size)
        if kind == b"*":
            size = _number(said)
            if size == -1:
                return None
            if not 0 <= size <= COUNT_MAX:
                raise BadAnswerError("an array of impossible length")
            return [self._value(depth + 1) for _ in range(size)]
        raise BadAnswerError(f"no such kind of answer: {bytes(kind)!r}")

    def _bulk(self, size: int) -> bytes:
        if not 0 <= size <= CLIENT_BYTES_MAX:
            raise BadAnswerError("a text of impossible length")
        end = self._at + size
        while len(self._held) < end + 2:
            self._fetch()
        if self._held[end : end + 2] != b"\r\n":
            raise BadAnswerError("a text that does not end where it says")
        out = bytes(self._held[self._at : end])
        self._at = end + 2
        return out

    def _line(self) -> bytes:
        looked = self._at
        while (end := self._held.find(b"\r\n", looked, self._at + LINE_MAX)) < 0:
            if len(self._held) - self._at >= LINE_MAX:
                raise BadAnswerError("a line that is too long")
            looked = max(self._at, len(self._held) - 1)
            self._fetch()
        out = bytes(self._held[self._at : end])
        self._at = end + 2
        return out

    def _fetch(self) -> None:
        data = self._more()
        self._total += len(data)
        if self._total > CLIENT_BYTES_MAX:
            raise BadAnswerError("the answer is too large")
        self._held += data


def _number(said: bytes) -> int:
    digits = said[1:] if said[:1] == b"-" else said
    if not digits.isdigit() or len(digits) > 19:
        raise BadAnswerError(f"no number: {said[:40]!r}")
    return int(said)
