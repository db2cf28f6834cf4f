"""The bytes on disk: the file ``quorum-state`` (one JSON line) and the log of the topic ``__cluster_metadata``.

Promises: ``quorum-state`` is replaced atomically (write a temporary, fsync, rename, fsync). It carries no checksum, as
in the original, so only what is no JSON object of the right shape is noticed (`Unreadable`). A log record carries two
checksums, of its length and of its body, so that a torn tail is told from damage: the tail is dropped, damage raises
`Unreadable`. Leaves out snapshots and segments.

Source: Apache Kafka 3.3.1, FileBasedStateStore and QuorumStateData; the log's framing is ours.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from functools import lru_cache

import msgspec

from clusters.protocols.kraft.messages import NOBODY, Command, Int32, Int64, Record
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Write

DIRECTORY = "__cluster_metadata-0"
STATE = f"{DIRECTORY}/quorum-state"
STATE_TEMPORARY = f"{DIRECTORY}/quorum-state.tmp"
LOG = f"{DIRECTORY}/00000000000000000000.log"

_HEADER = struct.Struct("<III")  # length of the body, checksum of the length, checksum of the body
_PLACE = struct.Struct("<QQ")  # offset, epoch
RECORD_BYTES_MAX = 64 << 20


class Unreadable(Exception):  # noqa: N818 - reads as the state that it reports
    """A file holds something that this node did not write."""


# --- quorum-state ---------------------------------------------------------------------------------------------------


class Voter(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One member of the voter set."""

    voter_id: Int32


class QuorumState(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "cluster_id": "clusterId",
        "leader_id": "leaderId",
        "leader_epoch": "leaderEpoch",
        "voted_id": "votedId",
        "applied_offset": "appliedOffset",
        "current_voters": "currentVoters",
    },
):
    """What a node must never forget. The default is what an absent file means."""

    cluster_id: str = ""
    leader_id: Int32 = NOBODY
    leader_epoch: Int32 = 0
    voted_id: Int32 = NOBODY
    applied_offset: Int64 = 0
    current_voters: tuple[Voter, ...] = ()
    data_version: int = 0

    @property
    def voters(self) -> tuple[int, ...]:
        """The ids of the stored voter set."""
        return tuple(voter.voter_id for voter in self.current_voters)


_state_encoder = msgspec.json.Encoder()
_state_decoder = msgspec.json.Decoder(QuorumState)


def state_bytes(state: QuorumState) -> bytes:
    """The content of the file: one JSON line."""
    return _state_encoder.encode(state) + b"\n"


def read_state(content: bytes) -> QuorumState:
    """The state in the file's content; `Unreadable` if it is none."""
    try:
        state = _state_decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"quorum-state: {error}") from error
    if state.data_version != 0 or state.leader_epoch < 0:
        raise Unreadable(f"quorum-state: version {state.data_version}, epoch {state.leader_epoch}")
    return state


def state_ops(content: bytes, *, sync: bool = True, delete_first: bool = False) -> tuple[DiskOp, ...]:
    """The batch that replaces the file. The two switches are mistakes of known systems, off when honest."""
    ops: list[DiskOp] = [Write(STATE_TEMPORARY, content, offset=0, truncate=True)]
    if sync:
        ops.append(Fsync(STATE_TEMPORARY))
    if delete_first:
        ops.append(Unlink(STATE))
    ops.append(Rename(STATE_TEMPORARY, STATE))
    if sync:
        ops.append(Fsync(STATE))
    return tuple(ops)


# --- log file -------------------------------------------------------------------------------------------------------

_encode_command = msgspec.json.Encoder().encode
_command_decoder = msgspec.json.Decoder(Command)


class Recovered(msgspec.Struct, frozen=True):
    """A log file as read: its records, the digest of each, where each one ends, and whether a torn tail follows."""

    records: list[Record]
    digests: list[str]
    ends: list[int]
    torn: bool


@lru_cache(maxsize=256)  # every node of one simulation, and its witness, ask for the same ones
def digest(command: bytes) -> str:
    """The payload hash that names a record's content in traces and witnesses."""
    return hashlib.blake2b(command, digest_size=8).hexdigest()


def frame(record: Record) -> tuple[bytes, str]:
    """The bytes of a record, and the digest of its command."""
    command = _encode_command(record.command)
    body = _PLACE.pack(record.offset, record.epoch) + command
    length = len(body)
    head = _HEADER.pack(length, zlib.crc32(length.to_bytes(4, "little")), zlib.crc32(body))
    return head + body, digest(command)


def cut_ops(end: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Cut the log file at byte ``end``, synced before anything is appended: a crash in between leaves a shorter log."""
    cut = Write(LOG, b"", offset=end, truncate=True)
    return (cut, Fsync(LOG)) if sync else (cut,)


def append_ops(data: bytes, at: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Append records at byte ``at``, the present end."""
    write = Write(LOG, data, offset=at)
    return (write, Fsync(LOG)) if sync else (write,)


def split(content: bytes, *, first: int = 0, base: int = 0) -> tuple[list[tuple[int, int, bytes, int]], bool]:
    """The records as (offset, epoch, command bytes, end in bytes), and whether an unfinished one follows.

    ``first``: the offset of the first; ``base`` is added to the ends. Raises `Unreadable` for damage.
    """
    out: list[tuple[int, int, bytes, int]] = []
    at, size = 0, len(content)
    while at < size:
        if size - at < _HEADER.size:
            return out, True
        length, length_sum, body_sum = _HEADER.unpack_from(content, at)
        if zlib.crc32(length.to_bytes(4, "little")) != length_sum or not _PLACE.size < length <= RECORD_BYTES_MAX:
            if any(content[at:]):
                raise Unreadable(f"log: damaged record header at byte {base + at}")
            return out, True  # the file grew, the data did not arrive: the append was never synced
        end = at + _HEADER.size + length
        if end > size:
            return out, True
        body = content[at + _HEADER.size : end]
        if zlib.crc32(body) != body_sum:
            if any(content[end:]) or any(body[-8:]):
                raise Unreadable(f"log: damaged record at byte {base + at}")
            return out, True  # zeros from somewhere in the last record on: as above
        offset, epoch = _PLACE.unpack_from(body, 0)
        if offset != first + len(out):
            raise Unreadable(f"log: record {offset} where {first + len(out)} belongs")
        out.append((offset, epoch, body[_PLACE.size :], base + end))
        at = end
    return out, False


def read_log(content: bytes) -> Recovered:
    """The log in the file's content."""
    found, torn = split(content)
    try:
        records = [Record(offset, epoch, _command_decoder.decode(command)) for offset, epoch, command, _ in found]
    except msgspec.DecodeError as error:
        raise Unreadable(f"log: {error}") from error
    return Recovered(
        records=records,
        digests=[digest(command) for _, _, command, _ in found],
        ends=[end for _, _, _, end in found],
        torn=torn,
    )


def file_of(disk: DiskImage, path: str) -> bytes | None:
    """The content of ``path``, None if absent; `Unreadable` when the disk says so."""
    content = disk.get(path)
    if isinstance(content, str):
        raise Unreadable(f"{path}: cannot be read")
    return content
