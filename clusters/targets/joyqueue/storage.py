"""The bytes on disk of one partition group: its metadata file and its log file.

A missing metadata file is a group that never voted. Out of scope: log segments, and the deletion of old messages.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection`` (what is written); atomic replacement and checksums are ours.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.joyqueue.messages import Command, Entry
from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Recovered, Replacement
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.harness.core.machine import DiskOp

TOPIC = "topic"
METADATA = "metadata"
LOG = "log"


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
    return files.sealed(_encoder.encode(metadata))


def read_metadata(content: bytes) -> Metadata:
    """The metadata in a file's content; `Unreadable` when it is not exactly what `metadata_bytes` writes."""
    return files.unsealed(content, _decoder.decode, path=METADATA)


def metadata_ops(group: str, metadata: Metadata, how: Replacement = "rename") -> tuple[DiskOp, ...]:
    """The batch that replaces the metadata file."""
    return files.replace_ops(f"{group}/{METADATA}", metadata_bytes(metadata), how)


# --- log --------------------------------------------------------------------------------------------------------

_command_decoder = msgspec.json.Decoder(Command)


def record(position: int, entry: Entry) -> tuple[bytes, str]:
    """The record of the entry at ``position`` (from 0), and the digest of its command."""
    return files.log_record(position, entry.term, _encoder.encode(entry.command))


class Log(EntryLog[Entry]):
    """The log of one group in memory: positions start at 0, and the right end ``end`` is exclusive."""

    def record(self, entry: Entry) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record(self.end, entry)


def read_log(content: bytes) -> Recovered[Entry]:
    """The log in the file's content; positions start at 0."""
    return files.read_log(
        content, lambda _, term, command: Entry(term, _command_decoder.decode(command)), path=LOG, first=0
    )
