"""The bytes on disk of one partition group: its metadata file and its log file.

Promises: the metadata file is replaced atomically (write a temporary, fsync, rename, fsync) and carries a checksum; a
log record carries two, one over its length and one over its body, so that a torn tail (an append that did not finish)
is told from damage. A torn tail is dropped, damage raises `Unreadable`. A missing metadata file is a group that never
voted. Leaves out log segments and the deletion of old messages.

Source: specification of JoyQueue's ``RaftLeaderElection``, §2 (what is written); atomic replacement and checksums are
ours, as the specification leaves the format open.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Literal

import msgspec

from clusters.protocols.joyqueue.messages import Command, Entry
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Write

TOPIC = "topic"
METADATA = "metadata"
TEMPORARY = "metadata.tmp"
LOG = "log"

_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
_PLACE = struct.Struct("<QQ")  # position, term
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """A file holds something that this node did not write: it must not vote or answer from it."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The part of the metadata that a restart uses."""

    term: int = 0
    voted_for: str | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The metadata file. ``leader_id`` is written and not used after a restart."""

    election_type: str = "raft"
    all_nodes: tuple[str, ...]
    learners: tuple[str, ...] = ()
    local_node_id: str
    leader_id: str | None
    voted_for: str | None
    current_term: int


class Recovered(msgspec.Struct, frozen=True):
    """A log file as read: entries, the digest of each, where each record ends, and whether a torn tail follows."""

    entries: list[Entry]
    digests: list[str]
    ends: list[int]
    torn: bool


def group_names(groups: int) -> tuple[str, ...]:
    """The partition groups of the topic, by the names of their folders and on the wire: one is the topic itself."""
    return (TOPIC,) if groups == 1 else tuple(f"{TOPIC}/{number}" for number in range(groups))


def label_of(group: str) -> str:
    """What traces and statuses call the group: nothing where there is one only."""
    return "" if group == TOPIC else group


# --- metadata ---------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Metadata)


def metadata_bytes(metadata: Metadata) -> bytes:
    """The content of the metadata file: a checksum and one JSON object."""
    body = _encoder.encode(metadata)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_metadata(content: bytes) -> Metadata:
    """The metadata in a file's content; `Unreadable` when it is not exactly what `metadata_bytes` writes."""
    try:
        checksum, body = content[:8], content[9:-1]
        if content[8:9] != b" " or content[-1:] != b"\n" or int(checksum, 16) != zlib.crc32(body):
            raise Unreadable("metadata file: checksum does not match")
        return _decoder.decode(body)
    except (ValueError, msgspec.DecodeError) as error:
        raise Unreadable(f"metadata file: {error}") from error


Replacement = Literal["rename", "delete_rename", "in_place"]
"""How the metadata file is replaced: a synced temporary renamed over it · the same, but it is deleted before · written
over, without a sync. Only the first survives every crash."""


def metadata_ops(group: str, metadata: Metadata, how: Replacement = "rename") -> tuple[DiskOp, ...]:
    """The batch that replaces the metadata file."""
    path, scratch = f"{group}/{METADATA}", f"{group}/{TEMPORARY}"
    content = metadata_bytes(metadata)
    if how == "in_place":
        return (Write(path, content, offset=0, truncate=True),)
    deletion = (Unlink(path),) if how == "delete_rename" else ()
    write = Write(scratch, content, offset=0, truncate=True)
    return (write, Fsync(scratch), *deletion, Rename(scratch, path), Fsync(path))


# --- log --------------------------------------------------------------------------------------------------------

_encode_command = msgspec.json.Encoder().encode
_command_decoder = msgspec.json.Decoder(Command)


def digest(command: bytes) -> str:
    """The payload hash that names an entry's content in traces and witnesses."""
    return hashlib.blake2b(command, digest_size=8).hexdigest()


def record(position: int, entry: Entry) -> tuple[bytes, str]:
    """The record of the entry at ``position`` (from 0), and the digest of its command."""
    command = _encode_command(entry.command)
    body = _PLACE.pack(position, entry.term) + command
    length = len(body)
    head = _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body))
    return head + body, digest(command)


def cut_ops(path: str, end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the log file at byte ``end``: synced before anything is appended, so that a crash in between leaves a
    shorter log and never new records in front of old ones.
    """
    cut = Write(path, b"", offset=end, truncate=True)
    return (cut, Fsync(path)) if sync else (cut,)


def append_ops(path: str, data: bytes, offset: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Append records at byte ``offset``, the present end."""
    write = Write(path, data, offset=offset)
    return (write, Fsync(path)) if sync else (write,)


def split_records(
    content: bytes, *, first_position: int = 0, base: int = 0
) -> tuple[list[tuple[int, int, bytes, int]], bool]:
    """The records as (position, term, command bytes, end offset), and whether an unfinished one follows.

    ``base`` is added to the offsets. Raises `Unreadable` for damage.
    """
    out: list[tuple[int, int, bytes, int]] = []
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size:
            return out, True
        length, length_sum, body_sum = _HEADER.unpack_from(content, at)
        if zlib.crc32(length.to_bytes(4, "little")) != length_sum or not _PLACE.size < length <= RECORD_BYTES_MAX:
            if any(content[at:]):
                raise Unreadable(f"log file: damaged record header at byte {base + at}")
            return out, True  # the file grew, the data did not arrive: the append was never synced
        start, end = at + _HEADER.size, at + _HEADER.size + length
        if end > size:
            return out, True
        body = content[start:end]
        if zlib.crc32(body) != body_sum:
            if any(content[end:]) or any(body[-8:]):
                raise Unreadable(f"log file: damaged record at byte {base + at}")
            return out, True  # zeros from somewhere in the last record on: as above
        position, term = _PLACE.unpack_from(body, 0)
        if position != first_position + len(out):
            raise Unreadable(f"log file: record {position} where {first_position + len(out)} belongs")
        out.append((position, term, body[_PLACE.size :], base + end))
        at = end
    return out, False


def read_log(content: bytes) -> Recovered:
    """The log in the file's content."""
    records, torn = split_records(content)
    try:
        entries = [Entry(term, _command_decoder.decode(command)) for _, term, command, _ in records]
    except msgspec.DecodeError as error:
        raise Unreadable(f"log file: {error}") from error
    return Recovered(
        entries=entries,
        digests=[digest(command) for _, _, command, _ in records],
        ends=[end for _, _, _, end in records],
        torn=torn,
    )


def file_of(disk: DiskImage, path: str) -> bytes | None:
    """The content of ``path``, None if absent; `Unreadable` when the disk says so."""
    content = disk.get(path)
    if isinstance(content, str):
        raise Unreadable(f"{path} file: cannot be read")
    return content
