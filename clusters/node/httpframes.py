"""HTTP/1.1 messages on a byte stream, as far as peers of ours need them.

Guarantees: any split of the stream gives the same messages; heads and bodies are bounded; anything unexpected raises
BadHttp. Out of scope: chunked bodies, trailers, continuation lines and everything about meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 16 * 1024 * 1024
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
}


class BadHttp(ValueError):  # noqa: N818 - names the thing found
    """The stream is not the HTTP that we speak; close it."""


class HttpMessage(msgspec.Struct, frozen=True):
    """One request (``method``, ``path``) or answer (``status``). Header names are lower case."""

    headers: Mapping[str, str]
    body: bytes
    method: str = ""
    path: str = ""
    status: int = 0
    close: bool = False
    """Whether the other side wants the connection closed behind this message."""


def render_request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A request with its length."""
    return _render(f"{method} {path} HTTP/1.1", headers, body)


def render_response(status: int, headers: Mapping[str, str], body: bytes, *, close: bool = False) -> bytes:
    """An answer with its length."""
    extra = {"Connection": "close"} if close else {}
    return _render(f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}", {**headers, **extra}, body)


def _render(first: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [first]
    lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() != "content-length"]
    lines.append(f"Content-Length: {len(body)}\r\n\r\n")
    return "\r\n".join(lines).encode("latin-1") + body


class HttpReader:
    """Cuts one connection's bytes into messages, one a call. ``answers``: whether they are answers or requests."""

    __slots__ = ("_answers", "_buffer", "_head", "_length")

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._buffer = bytearray()
        self._head: HttpMessage | None = None
        self._length = 0

    @property
    def buffered(self) -> int:
        """Bytes that no returned message has used."""
        return len(self._buffer)

    def feed(self, data: bytes, *, hold: bool = False) -> HttpMessage | None:
        """Take in ``data``; return the next message if it is complete, unless ``hold``. Raises BadHttp."""
        self._buffer += data
        if len(self._buffer) > HEAD_BYTES_MAX + BODY_BYTES_MAX:
            raise BadHttp("too many bytes before their turn")
        if hold:
            return None
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
            if end < 0:
                if len(self._buffer) >= HEAD_BYTES_MAX:
                    raise BadHttp(f"a head of more than {HEAD_BYTES_MAX} bytes")
                return None
            self._head, self._length = self._parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
        if len(self._buffer) < self._length:
            return None
        message = msgspec.structs.replace(self._head, body=bytes(self._buffer[: self._length]))
        del self._buffer[: self._length]
        self._head = None
        return message

    def _parse_head(self, head: bytes) -> tuple[HttpMessage, int]:
        first, *rest = head.decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in rest:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadHttp(f"not a header: {line[:80]!r}")
            headers[name.lower()] = value.strip()
        if "transfer-encoding" in headers:
            raise BadHttp("chunked bodies are not spoken here")
        digits = headers.get("content-length", "0")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 9 or int(digits) > BODY_BYTES_MAX:
            raise BadHttp(f"a body of {digits[:20]!r} bytes; the bound is {BODY_BYTES_MAX}")
        close = headers.get("connection", "").lower() == "close"
        words = first.split(" ", 2)
        if len(words) < 3:
            raise BadHttp(f"not a first line: {first[:80]!r}")
        if self._answers:
            version, status = words[0], words[1]
            if not (len(status) == 3 and status.isascii() and status.isdigit()):
                raise BadHttp(f"not a status: {status[:20]!r}")
            message = HttpMessage(headers, b"", status=int(status), close=close)
        else:
            version = words[2]
            message = HttpMessage(headers, b"", method=words[0], path=words[1], close=close)
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadHttp(f"not a version: {version[:20]!r}")
        return message, int(digits)
