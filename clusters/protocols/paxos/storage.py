"""The bytes on disk: one file of records, appended to, that holds what an acceptor and a proposer must never forget.

Promises: each record carries two checksums, one over its length and one over its body, so that a torn tail (an append
that did not finish) is told from damage; a torn tail is dropped, damage raises `Unreadable`. A cut that falls exactly
between two records cannot be seen. A missing file is a node that never took part: a wiped disk is beyond any promise.
Leaves out compaction: a run's records are few.

Source: Lamport, "Paxos Made Simple", 2.4 (what an acceptor remembers, and the proposer's highest number).
"""

from __future__ import annotations

import struct
import zlib

import msgspec

from clusters.protocols.paxos.messages import Value
from harness.core.machine import DiskImage, DiskOp, Fsync, Write

FILE = "paxos"
_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """The file holds something that this node did not write: it must not promise or accept anything from it."""


class Counted(msgspec.Struct, frozen=True, gc=False, tag="cnt"):
    """The proposer's counter, stored before a number made of it is used."""

    cnt: int


class Promised(msgspec.Struct, frozen=True, gc=False, tag="promised"):
    """The highest number promised in an instance."""

    instance: int
    max_id: int


class Stored(msgspec.Struct, frozen=True, gc=False, tag="accepted"):
    """The latest proposal accepted in an instance, with the highest number promised then."""

    instance: int
    max_id: int
    id: int
    value: Value


class Chosen(msgspec.Struct, frozen=True, gc=False, tag="chosen"):
    """What a learner learned; only with ``learner=disk``."""

    instance: int
    id: int
    value: Value


DiskRecord = Counted | Promised | Stored | Chosen


class Acceptor(msgspec.Struct):
    """What an acceptor remembers of one instance. ``accepted_id`` 0 and no value: nothing was accepted."""

    max_id: int = 0
    accepted_id: int = 0
    accepted_value: Value | None = None


class Loaded(msgspec.Struct):
    """A file as read. ``end``: where its last whole record ends; ``torn``: more, unfinished bytes follow."""

    cnt: int = 0
    acceptors: dict[int, Acceptor] = {}
    chosen: dict[int, tuple[int, Value]] = {}
    end: int = 0
    torn: bool = False


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(DiskRecord)


def framed(record: DiskRecord) -> bytes:
    """A record as it stands in the file."""
    body = _encode(record)
    length = len(body)
    return _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body)) + body


def append_ops(records: tuple[DiskRecord, ...], *, sync: bool = True) -> tuple[DiskOp, ...]:
    """The batch that appends these records."""
    write = Write(FILE, b"".join(map(framed, records)))
    return (write, Fsync(FILE)) if sync else (write,)


def cut_ops(end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the file at byte ``end``."""
    cut = Write(FILE, b"", offset=end, truncate=True)
    return (cut, Fsync(FILE)) if sync else (cut,)


def records_in(content: bytes) -> tuple[list[DiskRecord], int, bool]:
    """The records, where the last one ends, and whether an unfinished one follows. Raises `Unreadable` for damage."""
    out: list[DiskRecord] = []
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size:
            return out, at, True
        length, length_sum, body_sum = _HEADER.unpack_from(content, at)
        if zlib.crc32(length.to_bytes(4, "little")) != length_sum or not 0 < length <= RECORD_BYTES_MAX:
            if any(content[at:]):
                raise Unreadable(f"damaged record header at byte {at}")
            return out, at, True  # the file grew, the data did not arrive: the append was never synced
        start, end = at + _HEADER.size, at + _HEADER.size + length
        if end > size:
            return out, at, True
        body = content[start:end]
        if zlib.crc32(body) != body_sum:
            if any(content[end:]) or any(body[-8:]):
                raise Unreadable(f"damaged record at byte {at}")
            return out, at, True  # zeros from somewhere in the last record on: as above
        try:
            out.append(_decoder.decode(body))
        except msgspec.DecodeError as error:
            raise Unreadable(f"record at byte {at}: {error}") from error
        at = end
    return out, at, False


def load(disk: DiskImage) -> Loaded:
    """Everything stored; later records win. Raises `Unreadable`."""
    content = disk.get(FILE, b"")
    if isinstance(content, str):
        raise Unreadable("it cannot be read")
    records, end, torn = records_in(content)
    loaded = Loaded(acceptors={}, chosen={}, end=end, torn=torn)
    for record in records:
        if isinstance(record, Counted):
            loaded.cnt = record.cnt
        elif isinstance(record, Promised):
            loaded.acceptors.setdefault(record.instance, Acceptor()).max_id = record.max_id
        elif isinstance(record, Stored):
            loaded.acceptors[record.instance] = Acceptor(record.max_id, record.id, record.value)
        else:
            loaded.chosen[record.instance] = (record.id, record.value)
    return loaded
