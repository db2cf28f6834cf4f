"""The bytes on disk: the file ``quorum-state`` (one JSON line) and the log of the topic ``__cluster_metadata``.

Guarantees: ``quorum-state`` is replaced atomically (write a temporary, fsync, rename, fsync). As in the original it has
no checksum, so only content that is not a JSON object of the right shape is detected (`Unreadable`). Out of scope:
snapshots and segments.

Source: Apache Kafka 3.3.1, FileBasedStateStore, QuorumStateData and ReplicatedLog (endOffsetForEpoch,
truncateToEndOffset); the log's framing is ours.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Recovered, Unreadable
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.kraft.messages import NOBODY, Command, Int32, Int64, Record
from dethrone.harness.core.machine import DiskOp

DIRECTORY = "__cluster_metadata-0"
STATE = f"{DIRECTORY}/quorum-state"
LOG = f"{DIRECTORY}/00000000000000000000.log"


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
    ops = files.replace_ops(STATE, content, "delete_rename" if delete_first else "rename")
    return ops if sync else files.unsynced(ops)


# --- log file -------------------------------------------------------------------------------------------------------

_encode_command = msgspec.json.Encoder().encode
_command_decoder = msgspec.json.Decoder(Command)


def record_bytes(record: Record) -> tuple[bytes, str]:
    """The bytes of a record, and the digest of its command."""
    return files.log_record(record.offset, record.epoch, _encode_command(record.command))


class Log(EntryLog[Record]):
    """The log in memory: offsets start at 0, and the log end offset ``end`` is exclusive."""

    def __init__(self, *, sync: bool = True) -> None:
        super().__init__(LOG, sync=sync)

    def record(self, entry: Record) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record_bytes(entry)

    def term_of(self, entry: Record) -> int:
        """Its epoch."""
        return entry.epoch


def read_log(content: bytes) -> Recovered[Record]:
    """The log in the file's content; offsets start at 0."""
    return files.read_log(
        content,
        lambda offset, epoch, command: Record(offset, epoch, _command_decoder.decode(command)),
        path=LOG,
        first=0,
    )
