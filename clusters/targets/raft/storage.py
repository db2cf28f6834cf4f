"""The bytes on disk, the vote file (currentTerm, votedFor) and the log file; and the log in memory.

A missing vote file is a node that never voted: a wiped disk is beyond any promise. Out of scope: snapshots.

Source: Raft paper, figure 2 (persistent state) and 5.3; thesis 4.1 (configuration entries).
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Recovered
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.raft.messages import Command, Config, Entry
from dethrone.harness.core.machine import DiskOp

VOTE = "vote"
LOG = "log"

_encoder = msgspec.json.Encoder()
_command_decoder = msgspec.json.Decoder(Command)


class HardState(msgspec.Struct, frozen=True, gc=False):
    """What a node must never forget."""

    term: int = 0
    voted_for: str | None = None


_state_decoder = msgspec.json.Decoder(HardState)


def vote_bytes(state: HardState) -> bytes:
    """The content of the vote file: a checksum and one JSON object."""
    return files.sealed(_encoder.encode(state))


def read_vote(content: bytes) -> HardState:
    """The state in the vote file's content; `Unreadable` when it is not exactly what `vote_bytes` writes."""
    return files.unsealed(content, _state_decoder.decode, path=VOTE)


def vote_ops(state: HardState, *, sync: bool = True, delete_first: bool = False) -> tuple[DiskOp, ...]:
    """The batch that replaces the vote file. The two switches are mistakes of known systems, off when honest."""
    ops = files.replace_ops(VOTE, vote_bytes(state), "delete_rename" if delete_first else "rename")
    return ops if sync else files.unsynced(ops, renames=True)


def record(entry: Entry) -> tuple[bytes, str]:
    """The record of an entry, and the digest of its command."""
    return files.log_record(entry.index, entry.term, _encoder.encode(entry.command))


class Log(EntryLog[Entry]):
    """The log of one node in memory, with the configuration entries in it, found without a scan. Indexes start at 1.

    ``initial``: the members given at start, in force until an entry says otherwise.
    """

    def __init__(self, initial: Config, *, sync: bool = True) -> None:
        super().__init__(LOG, sync=sync)
        self.configs: list[tuple[int, Config]] = [(0, initial)]

    def record(self, entry: Entry) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record(entry)

    def load(self, found: Recovered[Entry]) -> None:
        """Start from what the disk holds."""
        super().load(found)
        self.configs.extend((e.index, e.command) for e in self.entries if type(e.command) is Config)

    def append(self, entry: Entry) -> None:
        """Append in memory."""
        super().append(entry)
        if type(entry.command) is Config:
            self.configs.append((entry.index, entry.command))

    def cut(self, keep: int) -> list[Entry]:
        """Remove everything behind index ``keep``; what went."""
        gone = super().cut(keep)
        while self.configs[-1][0] > keep:
            self.configs.pop()
        return gone

    def first_of_term(self, index: int) -> int:
        """The first index of the run of entries that share the term of ``index``."""
        term = self.term_at(index)
        while index > 1 and self.entries[index - 2].term == term:
            index -= 1
        return index


def read_log(content: bytes) -> Recovered[Entry]:
    """The log in the file's content; indexes start at 1."""
    return files.read_log(
        content, lambda index, term, command: Entry(index, term, _command_decoder.decode(command)), path=LOG, first=1
    )
