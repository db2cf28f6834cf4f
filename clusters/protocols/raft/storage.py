"""The bytes on disk: the vote file (currentTerm, votedFor) and the log file.

Promises: the vote file is replaced atomically (write a temporary, fsync, rename, fsync) and carries a checksum; a log
record carries two, one over its length and one over its body, so that a torn tail (an append that did not finish) is
told from damage. A torn tail is dropped, damage raises `Unreadable`. A cut that falls exactly between two records
cannot be seen. A missing vote file is a node that never voted: a wiped disk is beyond any promise. Leaves out
snapshots.

Source: Raft paper, figure 2 (persistent state); record framing after etcd's write-ahead log.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from functools import lru_cache

import msgspec

from clusters.protocols.raft.messages import Command, Entry
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Write

VOTE = "vote"
VOTE_TEMPORARY = "vote.tmp"
LOG = "log"

_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
_PLACE = struct.Struct("<QQ")  # index, term
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """A file holds something that this node did not write: it must not vote or answer from it."""


class HardState(msgspec.Struct, frozen=True, gc=False):
    """What a node must never forget."""

    term: int = 0
    voted_for: str | None = None


class Recovered(msgspec.Struct, frozen=True):
    """A log file as read: its entries, the digest of each, where each record ends, and whether a torn tail follows."""

    entries: list[Entry]
    digests: list[str]
    ends: list[int]
    torn: bool


# --- vote file --------------------------------------------------------------------------------------------------

_hard_encoder = msgspec.json.Encoder()
_hard_decoder = msgspec.json.Decoder(HardState)


def vote_bytes(state: HardState) -> bytes:
    """The content of the vote file: a checksum and one JSON object."""
    body = _hard_encoder.encode(state)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_vote(content: bytes) -> HardState:
    """The state in the vote file's content; `Unreadable` when it is not exactly what `vote_bytes` writes."""
    try:
        checksum, body = content[:8], content[9:-1]
        if content[8:9] != b" " or content[-1:] != b"\n" or int(checksum, 16) != zlib.crc32(body):
            raise Unreadable("vote file: checksum does not match")
        return _hard_decoder.decode(body)
    except (ValueError, msgspec.DecodeError) as error:
        raise Unreadable(f"vote file: {error}") from error


def vote_ops(state: HardState, *, sync: bool = True, delete_first: bool = False) -> tuple[DiskOp, ...]:
    """The batch that replaces the vote file. The two switches are mistakes of known systems, off when honest."""
    ops: list[DiskOp] = [Write(VOTE_TEMPORARY, vote_bytes(state), offset=0, truncate=True)]
    if sync:
        ops.append(Fsync(VOTE_TEMPORARY))
    if delete_first:
        ops.append(Unlink(VOTE))
    ops.append(Rename(VOTE_TEMPORARY, VOTE, sync=sync))
    if sync:
        ops.append(Fsync(VOTE))
    return tuple(ops)


# --- log file ---------------------------------------------------------------------------------------------------

_encode_command = msgspec.json.Encoder().encode
_command_decoder = msgspec.json.Decoder(Command)


@lru_cache(maxsize=256)  # every node of one simulation, and its witness, ask for the same ones
def digest(command: bytes) -> str:
    """The payload hash that names an entry's content in traces and witnesses."""
    return hashlib.blake2b(command, digest_size=8).hexdigest()


def record(entry: Entry) -> tuple[bytes, str]:
    """The record of an entry, and the digest of its command."""
    command = _encode_command(entry.command)
    body = _PLACE.pack(entry.index, entry.term) + command
    length = len(body)
    head = _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body))
    return head + body, digest(command)


def cut_ops(end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the log file at byte ``end``: on its own and synced before anything is appended, so that a crash in between
    leaves a shorter log and never new records in front of old ones.
    """
    cut = Write(LOG, b"", offset=end, truncate=True)
    return (cut, Fsync(LOG)) if sync else (cut,)


def append_ops(data: bytes, offset: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Append records at byte ``offset``, the present end."""
    write = Write(LOG, data, offset=offset)
    return (write, Fsync(LOG)) if sync else (write,)


def split_records(
    content: bytes, *, first_index: int = 1, base: int = 0
) -> tuple[list[tuple[int, int, bytes, int]], bool]:
    """The records as (index, term, command bytes, end offset), and whether an unfinished one follows.

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
        index, term = _PLACE.unpack_from(body, 0)
        if index != first_index + len(out):
            raise Unreadable(f"log file: record {index} where {first_index + len(out)} belongs")
        out.append((index, term, body[_PLACE.size :], base + end))
        at = end
    return out, False


def read_log(content: bytes) -> Recovered:
    """The log in the file's content."""
    records, torn = split_records(content)
    try:
        entries = [Entry(index, term, _command_decoder.decode(command)) for index, term, command, _ in records]
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
