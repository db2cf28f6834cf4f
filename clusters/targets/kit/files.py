"""Files of a node: one that is replaced as a whole, and one of records that is only appended to or cut.

Guarantees: a replaced file is the old or the new one after any crash (write a temporary, fsync, rename, fsync) and may
carry a checksum. A record carries two, one over its length and one over its body, so that a torn tail (an append that
did not finish) is distinguished from damage: the former is dropped, the latter raises `Unreadable`. A cut that falls
exactly between two records cannot be seen. Out of scope: what a file means, snapshots, input and output.

Source: record framing after etcd's write-ahead log.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, Literal, TypeVar

import msgspec

from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Write

E = TypeVar("E")

_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
_PLACE = struct.Struct("<QQ")  # index, term
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """A file holds something that this node did not write: it must not vote or answer from it."""


def file_of(disk: DiskImage, path: str) -> bytes | None:
    """The content of ``path``, None if absent; `Unreadable` when the disk says so."""
    content = disk.get(path)
    if isinstance(content, str):
        raise Unreadable(f"{path}: cannot be read")
    return content


# --- a file that is replaced --------------------------------------------------------------------------------------


def sealed(body: bytes) -> bytes:
    """One line: a checksum, and the body."""
    return b"%08x %s\n" % (zlib.crc32(body), body)


def unsealed(content: bytes, read: Callable[[bytes], E], *, path: str) -> E:
    """What ``read`` makes of the body; `Unreadable` if it cannot, or the content is not exactly what `sealed` makes."""
    try:
        body = content[9:-1]
        if content[8:9] == b" " and content[-1:] == b"\n" and int(content[:8], 16) == zlib.crc32(body):
            return read(body)
    except (ValueError, msgspec.DecodeError) as error:
        raise Unreadable(f"{path}: {error}") from error
    raise Unreadable(f"{path}: the checksum does not match")


Replacement = Literal["rename", "delete_rename", "in_place"]
"""How a file is replaced: a synced temporary renamed over it · the same, but it is deleted before · written over,
without a sync. Only the first survives every crash; the others are mistakes of known systems."""


def replace_ops(path: str, content: bytes, how: Replacement = "rename", *, scratch: str = "") -> tuple[DiskOp, ...]:
    """The batch that replaces a file. ``scratch``: the temporary; "": ``path`` with ``.tmp``."""
    if how == "in_place":
        return (Write(path, content, offset=0, truncate=True),)
    scratch = scratch or f"{path}.tmp"
    deletion = (Unlink(path),) if how == "delete_rename" else ()
    write = Write(scratch, content, offset=0, truncate=True)
    return (write, Fsync(scratch), *deletion, Rename(scratch, path), Fsync(path))


def unsynced(ops: tuple[DiskOp, ...], *, renames: bool = False) -> tuple[DiskOp, ...]:
    """The same batch without its barriers (those of ``renames``, too): another mistake of known systems."""
    left = (op for op in ops if not isinstance(op, Fsync))
    return tuple(msgspec.structs.replace(op, sync=False) if renames and isinstance(op, Rename) else op for op in left)


# --- a file of records --------------------------------------------------------------------------------------------


def record(body: bytes) -> bytes:
    """One record, ready to be appended."""
    length = len(body)
    return _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body)) + body


def split(content: bytes, *, path: str, base: int = 0, least: int = 0) -> tuple[list[tuple[bytes, int]], bool]:
    """The records as (body, end offset), and whether an unfinished one follows. Raises `Unreadable` for damage.

    ``base`` is added to the offsets; every body is longer than ``least``.
    """
    out: list[tuple[bytes, int]] = []
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size:
            return out, True
        length, length_sum, body_sum = _HEADER.unpack_from(content, at)
        if zlib.crc32(length.to_bytes(4, "little")) != length_sum or not least < length <= RECORD_BYTES_MAX:
            if any(content[at:]):
                raise Unreadable(f"{path}: damaged record header at byte {base + at}")
            return out, True  # the file grew, the data did not arrive: the append was never synced
        start, end = at + _HEADER.size, at + _HEADER.size + length
        if end > size:
            return out, True
        body = content[start:end]
        if zlib.crc32(body) != body_sum:
            if any(content[end:]) or any(body[-8:]):
                raise Unreadable(f"{path}: damaged record at byte {base + at}")
            return out, True  # zeros from somewhere in the last record on: as above
        out.append((body, base + end))
        at = end
    return out, False


def append_ops(path: str, data: bytes, offset: int | None, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Append records at byte ``offset``, the present end as this process knows it; None: wherever the file ends."""
    write = Write(path, data, offset=offset)
    return (write, Fsync(path)) if sync else (write,)


def cut_ops(path: str, end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the file at byte ``end``: on its own and synced before anything is appended, so that a crash in between
    leaves a shorter log and never new records in front of old ones.
    """
    cut = Write(path, b"", offset=end, truncate=True)
    return (cut, Fsync(path)) if sync else (cut,)


# --- a log: records with an index and a term ----------------------------------------------------------------------


class Recovered(msgspec.Struct, Generic[E], frozen=True):
    """A log file as read: its entries, the digest of each, where each record ends, and whether a torn tail follows."""

    entries: list[E]
    digests: list[str]
    ends: list[int]
    torn: bool


@lru_cache(maxsize=256)  # every node of one simulation, and its witness, ask for the same ones
def digest(command: bytes) -> str:
    """The payload hash that names an entry's content in traces and witnesses."""
    return hashlib.blake2b(command, digest_size=8).hexdigest()


def log_record(index: int, term: int, command: bytes) -> tuple[bytes, str]:
    """The record of an entry, and the digest of its command."""
    return record(_PLACE.pack(index, term) + command), digest(command)


def split_log(
    content: bytes, *, path: str, first: int, base: int = 0
) -> tuple[list[tuple[int, int, bytes, int]], bool]:
    """The records as (index, term, command bytes, end offset), and whether an unfinished one follows.

    ``first``: the index that the first one must have. Raises `Unreadable` for damage.
    """
    bodies, torn = split(content, path=path, base=base, least=_PLACE.size)
    out = []
    for expected, (body, end) in enumerate(bodies, first):
        index, term = _PLACE.unpack_from(body, 0)
        if index != expected:
            raise Unreadable(f"{path}: record {index} where {expected} belongs")
        out.append((index, term, body[_PLACE.size :], end))
    return out, torn


def read_log(content: bytes, make: Callable[[int, int, bytes], E], *, path: str, first: int) -> Recovered[E]:
    """The log in a file's content; ``make`` turns (index, term, command bytes) into an entry."""
    records, torn = split_log(content, path=path, first=first)
    try:
        entries = [make(index, term, command) for index, term, command, _ in records]
    except msgspec.DecodeError as error:
        raise Unreadable(f"{path}: {error}") from error
    return Recovered(
        entries=entries,
        digests=[digest(command) for _, _, command, _ in records],
        ends=[end for _, _, _, end in records],
        torn=torn,
    )
