"""One HTTP/1.1 answer out of bytes as they arrive, with a limit on everything that the other end decides.

Guarantees: pure and linear, however the bytes are cut: nothing is read twice. A length that is no plain number, a chunk
below zero, a line, a head or a body over its limit is a ValueError; so is what follows the end of an answer. Out of
scope: sockets, deadlines, and what a status code means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

HEAD_MAX = 32 * 1024
"""Bytes of the status line and the headers; of all trailers as well."""
HEADERS_MAX = 100
CHUNK_LINE_MAX = 256
CHUNKS_MAX = 50_000
INTERIM_MAX = 8
"""Heads with a 1xx status before the answer proper."""

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_DIGITS = re.compile(rb"[0-9]{1,12}")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")
_BODILESS = frozenset({204, 304})


class Answer(msgspec.Struct, frozen=True):
    """A whole answer. ``keep``: whether another request may be sent over the same connection. ``headers``: by
    lower-case name."""

    status: int
    body: bytes
    keep: bool
    headers: Mapping[bytes, bytes] = {}


class AnswerReader:
    """Feed it until it returns an answer, once; ``end`` when the other end closes the connection.

    ``until_close``: also take an answer without a length, which ends with its connection. Such an answer may be cut
    off without a trace. ``followed``: more was asked for, so the beginning of the next answer may follow: ``rest``.
    """

    def __init__(self, *, body_max: int, until_close: bool, followed: bool = False) -> None:
        self._body_max = body_max
        self._followed = followed
        self._may_close = until_close
        self._unread = bytearray()
        self._seen = 0
        """How much of ``_unread`` was searched for the end of a line without finding one."""
        self._body = bytearray()
        self._state: Literal["head", "length", "chunk line", "chunk", "trailer", "close"] = "head"
        self._left = 0
        self._chunks = 0
        self._trailers = 0
        self._interim = 0
        self._status = 0
        self._keep = True
        self._headers: Mapping[bytes, bytes] = {}

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is whole; None before that. ValueError: nonsense, or over a limit."""
        self._unread += data
        while True:
            state = self._state
            if state == "head":
                done = self._head()
            elif state in {"length", "chunk"}:
                done = self._take_body()
            elif state == "chunk line":
                done = self._chunk_line()
            elif state == "trailer":
                done = self._trailer()
            else:
                self._until_close()
                return None
            if isinstance(done, Answer):
                if self._unread and not self._followed:
                    raise ValueError("bytes follow the end of the answer")
                return done
            if not done:
                return None

    @property
    def rest(self) -> bytes:
        """What came after the answer."""
        return bytes(self._unread)

    def end(self) -> Answer:
        """The other end closed: the answer, if that is its end. ValueError: it was not whole."""
        if self._state != "close":
            raise ValueError("the connection was closed before the answer was whole")
        return self._answer(keep=False)

    # --- steps: True means go further, False means wait for more ------------------------------------------------

    def _line(self, most: int, what: str) -> bytes | None:
        """The next line without its end."""
        at = self._unread.find(b"\n", self._seen)
        if at < 0:
            if len(self._unread) > most:
                raise ValueError(f"{what} of over {most} bytes")
            self._seen = len(self._unread)
            return None
        if at > most:
            raise ValueError(f"{what} of over {most} bytes")
        line = bytes(self._unread[:at]).removesuffix(b"\r")
        del self._unread[: at + 1]
        self._seen = 0
        return line

    def _head(self) -> bool | Answer:
        at = self._unread.find(b"\r\n\r\n", max(0, self._seen - 3))
        if at < 0 or at > HEAD_MAX:
            if max(at, len(self._unread)) > HEAD_MAX:
                raise ValueError(f"an HTTP head of over {HEAD_MAX} bytes")
            self._seen = len(self._unread)
            return False
        lines = bytes(self._unread[:at]).split(b"\r\n")
        del self._unread[: at + 4]
        self._seen = 0
        if len(lines) > HEADERS_MAX + 1:
            raise ValueError(f"over {HEADERS_MAX} HTTP headers")
        found = _STATUS_LINE.fullmatch(lines[0])
        if found is None:
            raise ValueError(f"no HTTP status line: {lines[0][:60]!r}")
        self._status = int(found[1])
        if self._status < 200:
            self._interim += 1
            if self._interim > INTERIM_MAX or self._status == 101:
                raise ValueError(f"HTTP {self._status} in place of an answer")
            return True
        return self._plan_body(_headers(lines[1:]), old=lines[0].startswith(b"HTTP/1.0"))

    def _plan_body(self, headers: dict[bytes, bytes], *, old: bool) -> bool | Answer:
        self._headers = headers
        connection = headers.get(b"connection", b"").lower()
        self._keep = b"close" not in connection and (not old or b"keep-alive" in connection)
        if self._status in _BODILESS:
            return self._answer(keep=self._keep)
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked" or b"content-length" in headers:
                raise ValueError(f"HTTP transfer-encoding {coding[:40]!r}")
            self._state = "chunk line"
            return True
        length = headers.get(b"content-length")
        if length is None:
            if not self._may_close:
                raise ValueError("an HTTP answer without a length")
            self._state = "close"
            return True
        self._state, self._left = "length", self._bounded(length, _DIGITS, 10)
        return self._answer(keep=self._keep) if self._left == 0 else True

    def _bounded(self, word: bytes, form: re.Pattern[bytes], base: int) -> int:
        if form.fullmatch(word) is None:
            raise ValueError(f"an HTTP length of {word[:40]!r}")
        size = int(word, base)
        if len(self._body) + size > self._body_max:
            raise ValueError(f"an HTTP body of over {self._body_max} bytes")
        return size

    def _take_body(self) -> bool | Answer:
        taken = min(self._left, len(self._unread))
        self._body += self._unread[:taken]
        del self._unread[:taken]
        self._left -= taken
        if self._left:
            return False
        if self._state == "length":
            return self._answer(keep=self._keep)
        if len(self._unread) < 2:
            return False
        if self._unread[:2] != b"\r\n":
            raise ValueError("an HTTP chunk that does not end where it should")
        del self._unread[:2]
        self._state = "chunk line"
        return True

    def _chunk_line(self) -> bool | Answer:
        line = self._line(CHUNK_LINE_MAX, "the first line of an HTTP chunk")
        if line is None:
            return False
        self._chunks += 1
        if self._chunks > CHUNKS_MAX:
            raise ValueError(f"an HTTP body in over {CHUNKS_MAX} chunks")
        self._left = self._bounded(line.split(b";", 1)[0].strip(), _HEX, 16)
        self._state = "chunk" if self._left else "trailer"
        return True

    def _trailer(self) -> bool | Answer:
        line = self._line(HEAD_MAX, "an HTTP trailer")
        if line is None:
            return False
        if not line:
            return self._answer(keep=self._keep)
        self._trailers += len(line) + 1
        if self._trailers > HEAD_MAX:
            raise ValueError(f"HTTP trailers of over {HEAD_MAX} bytes")
        return True

    def _until_close(self) -> None:
        if len(self._body) + len(self._unread) > self._body_max:
            raise ValueError(f"an HTTP body of over {self._body_max} bytes")
        self._body += self._unread
        self._unread.clear()

    def _answer(self, *, keep: bool) -> Answer:
        return Answer(self._status, bytes(self._body), keep, self._headers)


def _headers(lines: list[bytes]) -> dict[bytes, bytes]:
    """By lower-case name. Two lengths that differ are a ValueError: the end of the body would be a guess."""
    out: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise ValueError(f"an HTTP header without a colon: {line[:60]!r}")
        name, value = name.strip().lower(), value.strip()
        if name in {b"content-length", b"transfer-encoding"} and out.get(name, value) != value:
            raise ValueError(f"two HTTP headers {name.decode()} that differ")
        out[name] = value
    return out
