"""Files of records that are only appended to or cut: framing, torn tails, damage.

Promises: a record carries one checksum over its length and one over its body, so that a torn tail (an append that did
not finish) is told from damage; the former is dropped, the latter raises `Unreadable`. Leaves out what a record means.

Source: framing after etcd's write-ahead log.
"""

from __future__ import annotations

import struct
import zlib

from harness.core.machine import DiskImage, DiskOp, Fsync, Write

_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """A file holds something that this node did not write: it must not go on from it."""


def record(body: bytes) -> bytes:
    """One record, ready to be appended."""
    length = len(body)
    return _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body)) + body


def split(content: bytes, *, path: str) -> tuple[list[tuple[bytes, int]], bool]:
    """The records as (body, end offset), and whether an unfinished one follows. Raises `Unreadable` for damage."""
    out: list[tuple[bytes, int]] = []
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size:
            return out, True
        length, length_sum, body_sum = _HEADER.unpack_from(content, at)
        if zlib.crc32(length.to_bytes(4, "little")) != length_sum or not 0 < length <= RECORD_BYTES_MAX:
            if any(content[at:]):
                raise Unreadable(f"{path}: damaged record header at byte {at}")
            return out, True  # the file grew, the data did not arrive: the append was never synced
        start, end = at + _HEADER.size, at + _HEADER.size + length
        if end > size:
            return out, True
        body = content[start:end]
        if zlib.crc32(body) != body_sum:
            if any(content[end:]) or any(body[-8:]):
                raise Unreadable(f"{path}: damaged record at byte {at}")
            return out, True
        out.append((body, end))
        at = end
    return out, False


def append_ops(path: str, data: bytes, offset: int | None, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Append records at byte ``offset``, the present end as this process knows it; None: wherever the file ends."""
    write = Write(path, data, offset=offset)
    return (write, Fsync(path)) if sync else (write,)


def cut_ops(path: str, end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the file at byte ``end``."""
    cut = Write(path, b"", offset=end, truncate=True)
    return (cut, Fsync(path)) if sync else (cut,)


def file_of(disk: DiskImage, path: str) -> bytes | None:
    """The content of ``path``, None if absent; `Unreadable` when the disk says so."""
    content = disk.get(path)
    if isinstance(content, str):
        raise Unreadable(f"{path}: cannot be read")
    return content
