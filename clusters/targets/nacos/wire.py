"""The naming Raft's HTTP calls as a pure mapping between messages and (method, path, headers, bytes).

=======================================  ===================================================================
``POST /v1/ns/raft/vote``                form parameter ``vote`` = the candidate's record as JSON
``POST /v1/ns/raft/beat``                gzip of JSON ``{"beat": {"peer": …, "datums": [{key, timestamp} …]}}``
``GET /v1/ns/raft/peer``                 –
``GET /v1/ns/raft/datum?keys=a,b``       the items of these keys
``POST /v1/ns/raft/datum?key=k``         a follower hands a client's write to the leader, JSON ``{key, value}``
``DELETE /v1/ns/raft/datum?key=k``       the same for a removal
``POST /v1/ns/raft/datum/commit?key=k``  the leader's item, JSON ``{datum, source}``
``DELETE /v1/ns/raft/datum/commit``      the leader's removal, JSON ``{datum: {key}, source}``
=======================================  ===================================================================

Answers are 200 with the responder's record, the items or ``ok``; a refused call is 500 with ``illegal state: …`` or
``illegal argument: …``. Numbers that the original does not send travel as query parameters.

Guarantees: ``parse_request(*request(body)) == body`` and ``parse_response(asked, *response(body)) == body``; an invalid
request raises ``BadRequest`` with the status to answer, and nothing else; an invalid answer is ``CallError``, that is
"not OK". No input is unpacked beyond ``BODY_MAX`` bytes.

Out of scope: addresses. The ``ip`` in a record is a NODE NAME; ``sender`` reads it off a request that carries one.

Source: docs/sources.md, nacos.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from dethrone.clusters.targets.nacos import messages as m

VOTE = "/v1/ns/raft/vote"
BEAT = "/v1/ns/raft/beat"
PEER = "/v1/ns/raft/peer"
DATUM = "/v1/ns/raft/datum"
COMMIT = "/v1/ns/raft/datum/commit"
BODY_MAX = 64 * 1024 * 1024

Headers = Mapping[str, str]
T = TypeVar("T")
_JSON = {"Content-Type": "application/json; charset=UTF-8"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
_GZIP = {"Content-Type": "application/json; charset=UTF-8", "Content-Encoding": "gzip"}
_TEXT = {"Content-Type": "text/plain; charset=UTF-8"}
_METHODS = {
    VOTE: ("POST",),
    BEAT: ("POST",),
    PEER: ("GET",),
    DATUM: ("GET", "POST", "DELETE"),
    COMMIT: ("POST", "DELETE"),
}


_RECORDS: Mapping[type, type[m.VoteAnswer | m.BeatAnswer | m.PeerAnswer]] = {
    m.VoteRequest: m.VoteAnswer,
    m.BeatRequest: m.BeatAnswer,
    m.PeerRequest: m.PeerAnswer,
}
"""Request → the answer to it that is a record."""


class BadRequest(ValueError):  # noqa: N818 - named like the status that it becomes
    """A request that no rule can be applied to; ``status`` is 400, 404 or 405."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Beat(msgspec.Struct, frozen=True):
    peer: m.RaftPeer
    datums: tuple[m.DatumStamp, ...] = ()


class _BeatPacket(msgspec.Struct, frozen=True):
    beat: _Beat


class _Publication(msgspec.Struct, frozen=True):
    datum: m.Datum
    source: m.RaftPeer


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Removal(msgspec.Struct, frozen=True):
    datum: _Key
    source: m.RaftPeer


class _Write(msgspec.Struct, frozen=True):
    key: str
    value: Any


class _Ended(msgspec.Struct, frozen=True):
    outcome: str
    why: str = ""


# --- requests ---------------------------------------------------------------------------------------------------


def request(body: m.NacosRequest) -> tuple[str, str, Headers, bytes]:
    """Method, path with query, headers and bytes of a call."""
    match body:
        case m.VoteRequest(vote=vote):
            return "POST", VOTE, _FORM, urlencode({"vote": msgspec.json.encode(vote).decode()}).encode()
        case m.BeatRequest(peer=peer, datums=datums):
            return "POST", BEAT, _GZIP, _gzip(msgspec.json.encode(_BeatPacket(_Beat(peer, datums))))
        case m.PeerRequest():
            return "GET", PEER, {}, b""
        case m.DatumFetch(keys=keys, term=term):
            listed = ",".join(quote(key, safe="") for key in keys)
            return "GET", _path(DATUM, keys=listed, term=term), {}, b""
        case m.DatumPublish(number=number, datum=datum, source=source):
            path = _path(COMMIT, key=datum.key, number=number)
            return "POST", path, _JSON, msgspec.json.encode(_Publication(datum, source))
        case m.DatumDelete(key=key, source=source):
            return "DELETE", COMMIT, _JSON, msgspec.json.encode(_Removal(_Key(key), source))
        case m.Forward(number=number, key=key, value=None, hops=hops):
            return "DELETE", _path(DATUM, key=key, number=number, hops=hops), {}, b""
        case m.Forward(number=number, key=key, value=value, hops=hops):
            path = _path(DATUM, key=key, number=number, hops=hops)
            return "POST", path, _JSON, msgspec.json.encode(_Write(key, value))


def parse_request(method: str, path: str, headers: Headers, content: bytes) -> m.NacosRequest:  # noqa: ARG001
    """The message that a call is; raises BadRequest. As in the original, the bytes themselves show compression."""
    try:
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=16))
    except ValueError as error:
        raise BadRequest(400, f"malformed path: {error}") from error
    allowed = _METHODS.get(parts.path)
    if allowed is None:
        raise BadRequest(404, f"no such call: {parts.path}")
    if method not in allowed:
        raise BadRequest(405, f"{parts.path} is not for {method}")
    content = _unzip(content)
    match method, parts.path:
        case _, "/v1/ns/raft/vote":
            return m.VoteRequest(_decode(_form(content, "vote"), m.RaftPeer))
        case _, "/v1/ns/raft/beat":
            beat = _decode(content, _BeatPacket).beat
            return m.BeatRequest(beat.peer, beat.datums)
        case _, "/v1/ns/raft/peer":
            return m.PeerRequest()
        case "POST", "/v1/ns/raft/datum/commit":
            publication = _decode(content, _Publication)
            return m.DatumPublish(_integer(query, "number"), publication.datum, publication.source)
        case "DELETE", "/v1/ns/raft/datum/commit":
            removal = _decode(content, _Removal)
            return m.DatumDelete(removal.datum.key, removal.source)
        case "GET", _:
            listed = _given(query, "keys")
            keys = tuple(unquote(key) for key in listed.split(",")) if listed else ()
            return m.DatumFetch(keys, _integer(query, "term"))
        case "DELETE", _:
            return m.Forward(_integer(query, "number"), _given(query, "key"), None, _integer(query, "hops"))
        case _:
            write = _decode(content, _Write)
            if write.value is None:
                raise BadRequest(400, "a write needs a value")
            return m.Forward(_integer(query, "number"), write.key, write.value, _integer(query, "hops"))


def sender(body: m.NacosRequest) -> str | None:
    """The name that a request's record gives as its ``ip``; None for a call that carries no record."""
    match body:
        case m.VoteRequest(vote=record) | m.BeatRequest(peer=record):
            return record.ip
        case m.DatumPublish(source=record) | m.DatumDelete(source=record):
            return record.ip
        case _:
            return None


# --- answers ----------------------------------------------------------------------------------------------------


def response(body: m.NacosAnswer) -> tuple[int, Headers, bytes]:
    """Status, headers and bytes of an answer."""
    match body:
        case m.VoteAnswer(peer=peer) | m.BeatAnswer(peer=peer) | m.PeerAnswer(peer=peer):
            return 200, _JSON, msgspec.json.encode(peer)
        case m.FetchAnswer(datums=datums):
            return 200, _JSON, msgspec.json.encode(datums)
        case m.PublishAck() | m.DeleteAck() | m.ForwardAnswer(outcome="ok"):
            return 200, _TEXT, b"ok"
        case m.ForwardAnswer(outcome=outcome, why=why):
            return 500, _JSON, msgspec.json.encode(_Ended(outcome, why))
        case m.CallError(error=error, text=text):
            return 500, _TEXT, f"{error}: {text}".encode()


def parse_response(asked: m.NacosRequest, status: int, headers: Headers, content: bytes) -> m.NacosAnswer:  # noqa: ARG001
    """The answer to ``asked``. Anything that is not a proper answer is ``CallError``."""
    try:
        content = _unzip(content)
        if status != 200:  # the original's "not OK"
            return _refused(asked, content)
        match asked:
            case m.VoteRequest() | m.BeatRequest() | m.PeerRequest():
                return _RECORDS[type(asked)](_decode(content, m.RaftPeer))
            case m.DatumFetch(term=term):
                return m.FetchAnswer(_decode(content, tuple[m.Datum, ...]), term)
            case m.DatumPublish(number=number):
                return m.PublishAck(number)
            case m.DatumDelete():
                return m.DeleteAck()
            case m.Forward(number=number):
                return m.ForwardAnswer(number, "ok")
    except BadRequest as error:
        return _error(asked, "illegal argument", f"malformed answer: {error}")


def _refused(asked: m.NacosRequest, content: bytes) -> m.NacosAnswer:
    if isinstance(asked, m.Forward) and content.startswith(b"{"):
        ended = _decode(content, _Ended)
        match ended.outcome:
            case "not_leader" | "unknown" | "failed" | "refused" as outcome:
                return m.ForwardAnswer(asked.number, outcome, ended.why)
            case _:
                raise BadRequest(400, f"unknown outcome {ended.outcome!r}")
    text = content.decode(errors="replace")
    for kind in get_args(m.ErrorKind):
        if text.startswith(f"{kind}: "):
            return _error(asked, kind, text.removeprefix(f"{kind}: "))
    return _error(asked, "illegal state", text)


def _error(asked: m.NacosRequest, kind: m.ErrorKind, text: str) -> m.CallError:
    call: Any = asked.__struct_config__.tag
    number = asked.number if isinstance(asked, m.DatumPublish | m.Forward) else 0
    return m.CallError(call, kind, text, number)


# --- parts ------------------------------------------------------------------------------------------------------


def _path(path: str, **query: str | int) -> str:
    return f"{path}?{urlencode(query)}"


def _given(query: Mapping[str, str], name: str) -> str:
    if name not in query:
        raise BadRequest(400, f"Param '{name}' is required.")
    return query[name]


def _integer(query: Mapping[str, str], name: str) -> int:
    text = _given(query, name)
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
        raise BadRequest(400, f"Param '{name}' is not a number.")
    return int(text)


def _form(content: bytes, name: str) -> bytes:
    try:
        fields = dict(parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=16))
    except ValueError as error:
        raise BadRequest(400, f"malformed form: {error}") from error
    return _given(fields, name).encode()


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(400, f"malformed JSON: {error}") from error


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)  # 31: gzip framing, without a time in it
    return packer.compress(content) + packer.flush()


def _unzip(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        if len(content) > BODY_MAX:
            raise BadRequest(400, "the body is too large")
        return content
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(content, BODY_MAX)
    except zlib.error as error:
        raise BadRequest(400, f"malformed gzip: {error}") from error
    if not unpacker.eof:
        raise BadRequest(400, "the gzip body is cut short or too large")
    return plain
