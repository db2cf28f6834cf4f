"""The bytes on disk: the file ``currterm``, the log, and the checkpoint.

Guarantees: a term file carries a checksum; the caller chooses how it is replaced (atomically, as upstream, not at all).
A log is read as DLedger recovers it: entries with consecutive indexes and terms that do not fall are kept; everything
from the first bad entry on is cut silently, torn tail or damage alike. The checkpoint is a hint and is ignored if it
cannot be read. Out of scope: segments and deletion of old entries: the log begins at 0.

Source: DLedger 0.2.7, ``MemberState.persistTerm`` and ``loadTerm``, ``IOUtils.string2File``,
``DLedgerMmapFileStore.recover``.
"""

from __future__ import annotations

import struct
import zlib
from typing import Literal

import msgspec

from dethrone.clusters.targets.dledger.messages import Command, Entry
from dethrone.clusters.targets.kit.files import Recovered, Unreadable, digest
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Write

TERM = "currterm"
TERM_TEMPORARY = "currterm.tmp"
TERM_BACKUP = "currterm.bak"
LOG = "log"
CHECKPOINT = "checkpoint"

_HEADER = struct.Struct("<II")  # length of the body, its checksum
_PLACE = struct.Struct("<QQ")  # index, term
RECORD_BYTES_MAX = 64 << 20


class TermState(msgspec.Struct, frozen=True, gc=False):
    """What a node must never forget. The first election of a virgin cluster runs in term 0."""

    term: int = 0
    voted_for: str | None = None


# --- currterm -----------------------------------------------------------------------------------------------------


def term_bytes(state: TermState) -> bytes:
    """The content of the term file."""
    body = f"currTerm={state.term}\nvoteLeader={state.voted_for or ''}\n".encode()
    return body + b"crc=%08x\n" % zlib.crc32(body)


def read_term(content: bytes) -> TermState:
    """The state in it; `Unreadable` when it is not exactly what `term_bytes` writes."""
    try:
        first, second, _, rest = content.decode().split("\n")
        state = TermState(int(first.partition("=")[2]), second.partition("=")[2] or None)
    except ValueError as error:
        raise Unreadable(f"currterm: {error}") from error
    if rest or term_bytes(state) != content:
        raise Unreadable("currterm: checksum does not match")
    return state


Replacement = Literal["atomic", "upstream", "unsynced", "delete_rename"]
"""How the term file is replaced: temporary, sync, rename, sync · as DLedger 0.2.7 does it: temporary, copy of the old
one to a backup that is never read, delete, rename, no sync · in place without a sync · synced, but deleted before the
rename. Only the first survives every crash."""


def term_ops(state: TermState, how: Replacement = "atomic", *, old: bytes | None = None) -> tuple[DiskOp, ...]:
    """The batch that replaces the term file; ``old`` is what it holds, if it is there."""
    content = term_bytes(state)
    if how == "unsynced":
        return (Write(TERM, content, offset=0, truncate=True),)
    temporary = Write(TERM_TEMPORARY, content, offset=0, truncate=True)
    rename = Rename(TERM_TEMPORARY, TERM)
    if how == "atomic":
        return (temporary, Fsync(TERM_TEMPORARY), rename, Fsync(TERM))
    if how == "delete_rename":
        return (temporary, Fsync(TERM_TEMPORARY), Unlink(TERM), rename, Fsync(TERM))
    backup = () if old is None else (Write(TERM_BACKUP, old, offset=0, truncate=True),)
    return (temporary, *backup, Unlink(TERM), rename)


# --- log ----------------------------------------------------------------------------------------------------------

_encode_command = msgspec.json.Encoder().encode
_command_decoder = msgspec.json.Decoder(Command)


def record(entry: Entry) -> tuple[bytes, str]:
    """The record of an entry, and the digest of its command."""
    command = _encode_command(entry.command)
    body = _PLACE.pack(entry.index, entry.term) + command
    return _HEADER.pack(len(body), zlib.crc32(body)) + body, digest(command)


def split_records(
    content: bytes, *, first_index: int = 0, least_term: int = 0, base: int = 0
) -> list[tuple[int, int, bytes, int]]:
    """The good records as (index, term, command bytes, end offset), up to the first bad one."""
    out: list[tuple[int, int, bytes, int]] = []
    at, size = 0, len(content)
    while size - at >= _HEADER.size:
        length, checksum = _HEADER.unpack_from(content, at)
        start = at + _HEADER.size
        end = start + length
        if not _PLACE.size < length <= RECORD_BYTES_MAX or end > size:
            break
        body = content[start:end]
        if zlib.crc32(body) != checksum:
            break
        index, term = _PLACE.unpack_from(body, 0)
        if index != first_index + len(out) or term < least_term:
            break
        least_term = term
        out.append((index, term, body[_PLACE.size :], base + end))
        at = end
    return out


class Log(EntryLog[Entry]):
    """The log of one node, and the one disk batch that is under way. ``sync``: whether batches end with a sync.

    Indexes start at 0, and `last` and `stored` are -1 when there is none; each batch has a number, so that an answer
    can wait for the one that carries its change. Group commit is ours.
    """

    EMPTY_TERM = -1

    def __init__(self, *, sync: bool) -> None:
        super().__init__(LOG, sync=sync)
        self.batch = 0
        """The number of the batch under way or last done."""
        self.target: int | None = None
        """How many entries the disk will have after the batch under way; None: none is under way."""

    def record(self, entry: Entry) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record(entry)

    @property
    def begin(self) -> int:
        """The first index, -1 when empty."""
        return 0 if self.entries else -1

    @property
    def last(self) -> int:
        """The last index, -1 when empty."""
        return self.end - 1

    @property
    def stored(self) -> int:
        """The last index that the disk is known to have."""
        return self.durable - 1

    def cut(self, keep: int) -> list[Entry]:
        """Remove everything behind the first ``keep``; what went."""
        gone = super().cut(keep)
        if self.target is not None:
            self.target = min(self.target, self.end)
        return gone

    def take_ops(self) -> tuple[DiskOp, ...]:
        """Everything that waits, as one batch; call `done` when the disk has it."""
        self.target = self.end
        self.batch += 1
        return super().take_ops()

    def done(self) -> None:
        """The batch under way is done."""
        if self.target is not None:
            self.durable = max(self.durable, self.target)
            self.target = None

    @property
    def batches_done(self) -> int:
        """The number of the last batch that is done."""
        return self.batch if self.target is None else self.batch - 1

    def due_batch(self) -> int | None:
        """The number of the batch after which everything so far is stored; None: it is."""
        if self.waits():
            return self.batch + 1
        return None if self.target is None else self.batch


def read_log(content: bytes) -> Recovered[Entry]:
    """The log in the file's content; all that follows the last good record counts as a torn tail."""
    entries: list[Entry] = []
    digests: list[str] = []
    ends: list[int] = []
    for index, term, command, end in split_records(content):
        try:
            entries.append(Entry(index, term, _command_decoder.decode(command)))
        except msgspec.DecodeError:
            break
        digests.append(digest(command))
        ends.append(end)
    return Recovered(entries, digests, ends, torn=len(content) > (ends[-1] if ends else 0))


# --- checkpoint ---------------------------------------------------------------------------------------------------


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Log end and committed index, as of some moment."""

    end: int = -1
    committed: int = -1


_checkpoint_decoder = msgspec.json.Decoder(Checkpoint)


def checkpoint_ops(end: int, committed: int) -> tuple[DiskOp, ...]:
    """The checkpoint, rewritten in place and not synced, as upstream does it."""
    return (Write(CHECKPOINT, msgspec.json.encode(Checkpoint(end, committed)), offset=0, truncate=True),)


def read_checkpoint(disk: DiskImage) -> Checkpoint:
    """What the checkpoint says; nothing if it is missing or damaged."""
    content = disk.get(CHECKPOINT)
    if content is None or isinstance(content, str):
        return Checkpoint()
    try:
        return _checkpoint_decoder.decode(content)
    except msgspec.DecodeError:
        return Checkpoint()
