"""The HTTP requests of an operation: one that carries it out, after others that only read.

    cas = { request = ["GET /v/{key}", "PUT /v/{key}?version={1.version} {value}"], held = "1.value" }

``{1.version}`` is a place in the JSON of the first answer, ``{1.header:ETag}`` one of its headers, ``{1}`` all of it.
Guarantees: pure; words in a path are percent-encoded, words in a body are JSON; what an earlier answer does not have
makes no request but a reason; no answer can smuggle in a header. Out of scope: sending (``client``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from dethrone.clusters.own.headers import CONTROL, carried, over
from dethrone.clusters.own.spec import OpTable
from dethrone.clusters.own.values import MISSING, at, decoded
from dethrone.clusters.own.words import check_words, fill_with
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.http_answer import Answer

REQUESTS_MAX = 9
HEADER = "header:"
"""What a place begins with that is a header of the answer."""
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A header's name."""
FIRST = "1"
"""Where earlier answers hold what a register held, if the description does not say it."""
_FORM = re.compile(r"(GET|PUT|POST|DELETE|PATCH) (/\S*)(?: (.*))?", re.DOTALL)
_PLACE = re.compile(r"[1-9](?:\.[^{}\s\"]+)?|/[1-9](?:/[^{}\s\"]+)?")
_EARLIER = re.compile(rf"\{{({_PLACE.pattern})\}}")
_ALIKE = re.compile(r"\{(/?\d[^{}]*)\}")
"""What was meant as such a place."""
_ANY = re.compile(rf"\{{([a-z][a-z0-9_]*|{_PLACE.pattern})\}}")
"""Words of the operation, and places in earlier answers."""
_WRITE = 'write METHOD /path, and the body after a space: "PUT /kv/{key} {value}"'
_ONCE = "a list holds requests that only read, GET, and then the one that decides"


class Request(msgspec.Struct, frozen=True):
    """A request line, taken apart."""

    method: str
    path: str
    body: str


class Whole(msgspec.Struct, frozen=True):
    """A request with all its words filled in, and the headers that it carries."""

    request: Request
    headers: Mapping[str, str]


class Earlier(msgspec.Struct, frozen=True):
    """What earlier requests were answered, by their numbers. ``absent``: those that found nothing at the key."""

    values: Mapping[str, Any] = {}
    headers: Mapping[str, Mapping[bytes, bytes]] = {}
    absent: frozenset[str] = frozenset()

    def and_then(self, answer: Answer, *, absent: bool) -> Earlier:
        """The same, and the answer to the next request."""
        number = str(len(self.values) + 1)
        return Earlier(
            values={**self.values, number: decoded(answer.body)},
            headers={**self.headers, number: answer.headers},
            absent=self.absent | {number} if absent else self.absent,
        )

    def at(self, place: str) -> Any:
        """The value there; ``MISSING``: there is none, also where nothing was found at the key."""
        number, header = _number(place), _header(place)
        if number in self.absent:
            return MISSING
        if header is None:
            return at(self.values, place)
        value = self.headers.get(number, {}).get(header.lower().encode())
        if value is None:
            return MISSING
        text = value.decode("latin-1")
        return int(text) if text.isascii() and text.isdecimal() else text

    def held(self, place: str) -> Any:
        """What the register held; None: nothing."""
        return None if _number(place) in self.absent else self.at(place)


NOTHING_YET = Earlier()


def requests_of(op: OpTable) -> tuple[Request, ...]:
    """The parts of each request that ``check_requests`` let through."""
    return tuple(_taken_apart(text) or Request("GET", "/", "") for text in _texts(op))


def whole(request: Request, op: OpTable, held: Mapping[str, Any], words: Mapping[str, str], earlier: Earlier) -> Whole:
    """What is sent. ``held``: words of the operation; ``words``: of the node. ValueError: an earlier answer lacks what
    the request needs of it.

    Headers that name an earlier answer go with the last request only.
    """
    full, given = said(request, held, earlier), carried(op, words)
    for name in (name for name, value in op.headers.items() if _places(value)):
        given.pop(name)
        if len(earlier.values) + 1 < len(_texts(op)):
            continue
        given[name] = _filled(op.headers[name], words, earlier, plain)
        if CONTROL.search(given[name]) or not given[name].isascii():
            raise ValueError(f"an earlier answer has {given[name][:60]!r}, which is no value of the header {name}")
    return Whole(full, over({"Content-Type": "application/json"} if full.body else {}, given))


def said(request: Request, held: Mapping[str, Any], earlier: Earlier = NOTHING_YET) -> Request:
    """The request with its words filled in. ValueError: an earlier answer lacks one."""
    return Request(
        request.method,
        _filled(request.path, held, earlier, lambda value: quote(plain(value), safe="")),
        _filled(request.body, held, earlier, json.dumps),
    )


def plain(value: Any) -> str:
    """A value as it stands outside of JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def check_requests(op: OpTable, name: str, words: Collection[str], *, where: str) -> None:
    """Raise ConfigError for what is no request, or no list of requests of which the last one decides."""
    texts = _texts(op)
    if not 1 <= len(texts) <= REQUESTS_MAX:
        raise ConfigError(f"{len(texts)} requests", where=where, next_step=f"write 1 to {REQUESTS_MAX}")
    for text in texts:
        if _taken_apart(text) is None:
            redis = '; Redis commands need protocol = "redis"' if isinstance(op.request, tuple) else ""
            raise ConfigError(f"{text!r} is no request", where=where, next_step=_WRITE + redis)
    check_words(texts, words, where=where)
    in_headers = [place for value in op.headers.values() for place in _places(value)]
    if len(texts) == 1:
        if in_headers or op.held is not None:
            key = "held" if op.held is not None else f"the word {{{in_headers[0]}}}"
            raise ConfigError(f"{key} speaks of an earlier answer, and there is one request", where=where, cause=_ONCE)
        return
    for place in (place for text in (*texts, *op.headers.values()) for place in _ALIKE.findall(text)):
        if not _PLACE.fullmatch(place):
            step = 'write a number from 1, and a place: "{1.version}", "{/1/a.b}" or "{1.header:ETag}"'
            raise ConfigError(f"{{{place}}} is no place in an earlier answer", where=where, next_step=step)
    for text in texts[:-1]:
        if not text.startswith("GET "):
            raise ConfigError(
                f"{text!r} comes before the last request, and is no GET",
                where=where,
                cause="requests before the last one only read: an operation that ends at one of them did nothing",
                next_step=_ONCE,
            )
    if not _places(texts[-1]) and not in_headers:
        raise ConfigError(
            "the last request takes nothing out of an earlier answer",
            where=where,
            cause="between the two, another client may change what was read",
            next_step='let it be carried out only if nothing changed: "PUT /v/{key}?version={1.version} {value}"',
        )
    if op.held is not None and (name != "cas" or _PLACE.fullmatch(op.held) is None):
        step = 'only a cas has it: write where an earlier answer says what the register holds, as in held = "1.value"'
        raise ConfigError(f"held = {op.held!r}", where=where, next_step=step)
    each = [(number, place) for number, text in enumerate(texts, start=1) for place in _places(text)]
    each += [(len(texts), place) for place in (*in_headers, *([] if op.held is None else [op.held]))]
    for number, place in each:
        _check_place(place, number, where=where)


def sequences(ops: Mapping[str, OpTable]) -> tuple[str, ...]:
    """The operations of several requests, in words, for ``doctor``."""
    several = {name: op for name, op in ops.items() if isinstance(op.request, tuple) and len(op.request) > 1}
    return tuple(
        f"{name}: {', then '.join(_texts(op))}"
        + (f"; what the register holds is at {op.held or FIRST}" if name == "cas" else "")
        for name, op in several.items()
    )


def _check_place(place: str, number: int, *, where: str) -> None:
    """ConfigError unless an answer before request ``number`` may have it."""
    if int(_number(place)) >= number:
        raise ConfigError(f"{{{place}}} is no earlier answer than the one to request {number}", where=where)
    header = _header(place)
    if header is not None and not TOKEN.fullmatch(header):
        step = 'write it like "{1.header:ETag}"'
        raise ConfigError(f"{header!r} is no name of a header", where=where, next_step=step)


def _filled(text: str, held: Mapping[str, Any], earlier: Earlier, show: Callable[[Any], str]) -> str:
    """Both kinds of words filled in at once, so that no value is taken for a word."""
    if not earlier.values:
        return fill_with(text, held, show)

    def value_of(match: re.Match[str]) -> str:
        word = match[1]
        if not word[0].isalpha():
            value = earlier.at(word)
            if value is MISSING or value is None:
                raise ValueError(f"the answer to request {_number(word)} has nothing at {{{word}}}")
            return show(value)
        return show(held[word]) if word in held else match[0]

    return _ANY.sub(value_of, text)


def _texts(op: OpTable) -> tuple[str, ...]:
    return (op.request,) if isinstance(op.request, str) else op.request


def _taken_apart(text: str) -> Request | None:
    match = _FORM.fullmatch(text)
    return Request(match[1], match[2], match[3] or "") if match else None


def _places(text: str) -> list[str]:
    return [match[1] for match in _EARLIER.finditer(text)]


def _number(place: str) -> str:
    return place.removeprefix("/")[:1]


def _header(place: str) -> str | None:
    """The header that the place is; None: it is one in JSON."""
    _, dot, rest = place.partition(".")
    return rest.removeprefix(HEADER) if dot and not place.startswith("/") and rest.startswith(HEADER) else None
