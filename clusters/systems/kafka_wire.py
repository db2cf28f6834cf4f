"""Kafka's wire protocol, as far as a client of one log per topic needs it: requests to bytes, answers to values. Pure.

Versions that both Kafka 3.9 and 4.1 serve and whose fields are not tagged: Metadata 7, Produce 7, ListOffsets 5,
Fetch 11; record batches of magic 2, one record each, not compressed. ListOffsets 5 is the first that says
OFFSET_NOT_AVAILABLE while a new leader does not know yet how far its log is committed (KIP-207).

Guarantees: an answer that is cut short or has another form raises `BadAnswerError`, never anything else. Out of scope:
partitions beyond 0, several topics in one request, sessions, transactions.

Source: Kafka protocol guide (request header 1, response header 0; record batch; error codes).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

METADATA, PRODUCE, LIST_OFFSETS, FETCH = 3, 0, 2, 1
_VERSIONS = {METADATA: 7, PRODUCE: 7, LIST_OFFSETS: 5, FETCH: 11}

CLIENT_ID = b"dethrone"
LATEST = -1
ALL_IN_SYNC = -1

ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    38: "INVALID_REPLICATION_FACTOR",
    56: "KAFKA_STORAGE_ERROR",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    87: "INVALID_RECORD",
}


class BadAnswerError(Exception):
    """A malformed answer."""


class Leader(NamedTuple):
    """The leader of partition 0 of a topic, by a broker's metadata. ``node``: a broker id, -1: none."""

    error: int
    node: int
    epoch: int


class Produced(NamedTuple):
    """The answer to a write. ``offset``: where it was written in the leader's own log, -1: nowhere."""

    error: int
    offset: int


class End(NamedTuple):
    """How far the log is committed, as its leader says."""

    error: int
    offset: int


class Fetched(NamedTuple):
    """Records from the asked offset on: (offset, value) each."""

    error: int
    records: tuple[tuple[int, bytes], ...]


def word(error: int) -> str:
    """The error's name."""
    return ERRORS.get(error, f"error {error}")


# --- requests ---------------------------------------------------------------------------------------------------


def metadata(number: int, topic: str) -> bytes:
    """Who leads this topic? It is made if it is not there."""
    return _request(METADATA, number, _i32(1) + _string(topic) + b"\x01")


def produce(number: int, topic: str, value: bytes, *, timeout_ms: int, now_ms: int) -> bytes:
    """Write one record, to be answered when all replicas in sync have it."""
    records = batch(value, now_ms=now_ms)
    body = _i16(-1) + struct.pack(">hi", ALL_IN_SYNC, timeout_ms)
    body += _i32(1) + _string(topic) + _i32(1) + _i32(0) + _i32(len(records)) + records
    return _request(PRODUCE, number, body)


def list_offsets(number: int, topic: str, *, epoch: int) -> bytes:
    """Where does the committed log end? ``epoch``: of the leader that is meant, -1: whichever it is in."""
    body = struct.pack(">ib", -1, 0) + _i32(1) + _string(topic) + _i32(1) + struct.pack(">iiq", 0, epoch, LATEST)
    return _request(LIST_OFFSETS, number, body)


def fetch(number: int, topic: str, *, offset: int, epoch: int, bytes_max: int) -> bytes:
    """The records from ``offset`` on, at once."""
    body = struct.pack(">iiiibii", -1, 0, 0, bytes_max, 0, 0, -1)
    body += _i32(1) + _string(topic) + _i32(1) + struct.pack(">iiqqi", 0, epoch, offset, -1, bytes_max)
    return _request(FETCH, number, body + _i32(0) + _string(""))


def batch(value: bytes, *, now_ms: int) -> bytes:
    """A record batch with one record."""
    record = b"\x00\x00\x00\x01" + _varint(len(value)) + value + b"\x00"  # no attributes, deltas 0, no key, no headers
    records = _varint(len(record)) + record
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + records
    tail = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(tail)) + tail


def _request(key: int, number: int, body: bytes) -> bytes:
    return struct.pack(">hhih", key, _VERSIONS[key], number, len(CLIENT_ID)) + CLIENT_ID + body


# --- answers ----------------------------------------------------------------------------------------------------

_T = TypeVar("_T")


def number_of(answer: bytes) -> int:
    """Which request it answers."""
    return _reading(answer, lambda _: 0)[0]


def leader_of(answer: bytes) -> Leader:
    """From an answer to `metadata`."""
    return _reading(answer, _leader)[1]


def produced(answer: bytes) -> Produced:
    """From an answer to `produce`."""
    return _reading(answer, _produced)[1]


def end_of(answer: bytes) -> End:
    """From an answer to `list_offsets`."""
    return _reading(answer, _end)[1]


def fetched(answer: bytes) -> Fetched:
    """From an answer to `fetch`."""
    return _reading(answer, _fetched)[1]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self._data):
            raise BadAnswerError("an answer that is cut short")
        self.at += count
        return self._data[self.at - count : self.at]

    def left(self) -> int:
        return len(self._data) - self.at

    def num(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def text(self) -> str:
        return self.take(max(0, self.num(2))).decode()

    def blob(self) -> bytes:
        return self.take(max(0, self.num(4)))

    def varint(self) -> int:
        raw = shift = 0
        while True:
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
            shift += 7
            if shift > 63:
                raise BadAnswerError("a number that does not end")

    def one(self) -> None:
        """The head of a list of one."""
        if self.num(4) != 1:
            raise BadAnswerError("an answer about anything but what was asked")


def _reading(answer: bytes, parse: Callable[[_Reader], _T]) -> tuple[int, _T]:
    reader = _Reader(answer)
    try:
        return reader.num(4), parse(reader)
    except UnicodeDecodeError as error:
        raise BadAnswerError("a name that is no text") from error


def _leader(reader: _Reader) -> Leader:
    reader.num(4)
    for _ in range(reader.num(4)):
        reader.num(4)
        reader.text()
        reader.num(4)
        reader.text()
    reader.text()
    reader.num(4)
    reader.one()
    error, _, _, partitions = reader.num(2), reader.text(), reader.num(1), reader.num(4)
    if error or partitions < 1:
        return Leader(error or 5, -1, -1)
    error, _, node, epoch = reader.num(2), reader.num(4), reader.num(4), reader.num(4)
    return Leader(error, node, epoch)


def _produced(reader: _Reader) -> Produced:
    reader.one()
    reader.text()
    reader.one()
    reader.num(4)
    return Produced(reader.num(2), reader.num(8))


def _end(reader: _Reader) -> End:
    reader.num(4)
    reader.one()
    reader.text()
    reader.one()
    reader.num(4)
    error, _, offset = reader.num(2), reader.num(8), reader.num(8)
    return End(error, offset)


def _fetched(reader: _Reader) -> Fetched:
    reader.num(4)
    error = reader.num(2)
    reader.num(4)
    if error:
        return Fetched(error, ())
    reader.one()
    reader.text()
    reader.one()
    reader.num(4)
    error = reader.num(2)
    reader.take(3 * 8)
    for _ in range(max(0, reader.num(4))):
        reader.take(2 * 8)
    reader.num(4)
    return Fetched(error, tuple(_records(_Reader(reader.blob()))))


def _records(reader: _Reader) -> list[tuple[int, bytes]]:
    """Whole batches; the last one may be cut short, as the protocol allows."""
    out: list[tuple[int, bytes]] = []
    while reader.left() >= 12:
        base, size = reader.num(8), reader.num(4)
        if size > reader.left():
            break
        out += _batch(_Reader(reader.take(size)), base)
    return out


def _batch(reader: _Reader, base: int) -> list[tuple[int, bytes]]:
    _, magic, checksum = reader.num(4), reader.num(1), int.from_bytes(reader.take(4), "big")
    checked = reader.take(reader.left())
    if magic != 2 or crc32c(checked) != checksum:
        raise BadAnswerError("a batch of records that is damaged or of another format")
    body = _Reader(checked)
    attributes = body.num(2)
    body.take(4 + 8 + 8 + 8 + 2 + 4)
    if attributes & 0x07 or attributes & 0x20:
        raise BadAnswerError("a batch of records that is compressed or a mark")
    out = []
    for _ in range(body.num(4)):
        record = _Reader(body.take(body.varint()))
        record.take(1)
        record.varint()
        offset = base + record.varint()
        record.take(max(0, record.varint()))
        out.append((offset, record.take(max(0, record.varint()))))
    return out


# --- small parts ------------------------------------------------------------------------------------------------


def _i16(number: int) -> bytes:
    return number.to_bytes(2, "big", signed=True)


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _string(text: str) -> bytes:
    data = text.encode()
    return _i16(len(data)) + data


def _varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _table() -> tuple[int, ...]:
    out = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901 - the register of the division
        out.append(byte)
    return tuple(out)


_CRC = _table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
