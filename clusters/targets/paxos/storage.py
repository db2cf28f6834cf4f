"""The bytes on disk: one file of records, appended to, that holds what an acceptor and a proposer must never forget.

A missing file is a node that never took part: a wiped disk is beyond any promise. Out of scope: compaction, for a run's
records are few.

Source: Lamport, "Paxos Made Simple", 2.4 (what an acceptor remembers, and the proposer's highest number).
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.paxos.messages import Value
from dethrone.harness.core.machine import DiskImage, DiskOp

FILE = "paxos"


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


def framed(one: DiskRecord) -> bytes:
    """A record as it stands in the file."""
    return files.record(_encode(one))


def append_ops(records: tuple[DiskRecord, ...], *, sync: bool = True) -> tuple[DiskOp, ...]:
    """The batch that appends these records."""
    return files.append_ops(FILE, b"".join(map(framed, records)), None, sync=sync)


def records_in(content: bytes) -> tuple[list[DiskRecord], int, bool]:
    """The records, where the last one ends, and whether an unfinished one follows. Raises `Unreadable` for damage."""
    bodies, torn = files.split(content, path=FILE)
    out: list[DiskRecord] = []
    for body, end in bodies:
        try:
            out.append(_decoder.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(f"{FILE}: the record that ends at byte {end}: {error}") from error
    return out, bodies[-1][1] if bodies else 0, torn


def load(disk: DiskImage) -> Loaded:
    """Everything stored; later records win. Raises `Unreadable`."""
    records, end, torn = records_in(files.file_of(disk, FILE) or b"")
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
