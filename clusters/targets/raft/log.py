"""The log in memory: entries, their digests, what was handed to the disk and what is durable.

Guarantees: indexes start at 1; the configuration in force is found without a scan; records wait here, encoded once,
until they are taken as one disk batch (group commit). Out of scope: input and output: it returns operations.

Source: Raft paper, figure 2 and 5.3; thesis 4.1 (configuration entries).
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.files import Recovered, append_ops, cut_ops
from dethrone.clusters.targets.raft.messages import Config, Entry
from dethrone.clusters.targets.raft.storage import LOG, record
from dethrone.harness.core.machine import DiskOp


class Log:
    """The log of one node. ``initial``: the members given at start, in force until an entry says otherwise."""

    __slots__ = (
        "configs",
        "digests",
        "durable",
        "ends",
        "entries",
        "last_index",
        "last_term",
        "ops",
        "records",
        "sync",
        "written",
    )

    def __init__(self, initial: Config, *, sync: bool = True) -> None:
        self.entries: list[Entry] = []
        self.digests: list[str] = []
        self.ends: list[int] = []
        self.last_index = 0
        self.last_term = 0
        self.configs: list[tuple[int, Config]] = [(0, initial)]
        self.sync = sync
        self.ops: list[DiskOp] = []
        """Cuts that the next batch must carry before its records."""
        self.records: list[bytes] = []
        """The encoded tail that was not handed to the disk yet."""
        self.written = 0
        """Last index handed to the disk."""
        self.durable = 0
        """Last index known to be on disk."""

    def load(self, found: Recovered[Entry]) -> None:
        """Start from what the disk holds."""
        self.entries, self.digests, self.ends = found.entries, found.digests, found.ends
        self.last_index = self.written = self.durable = len(found.entries)
        self.last_term = found.entries[-1].term if found.entries else 0
        self.configs.extend((e.index, e.command) for e in found.entries if type(e.command) is Config)
        if found.torn:
            self.ops.extend(cut_ops(LOG, self.ends[-1] if self.ends else 0, sync=self.sync))

    def term_at(self, index: int) -> int:
        """The term of the entry at ``index``; 0 before the first, -1 beyond the last."""
        if index <= 0:
            return 0
        return self.entries[index - 1].term if index <= self.last_index else -1

    def append(self, entry: Entry) -> None:
        """Append in memory; the record waits for `take_ops`."""
        data, digest = record(entry)
        self.records.append(data)
        self.entries.append(entry)
        self.digests.append(digest)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self.last_index = entry.index
        self.last_term = entry.term
        if type(entry.command) is Config:
            self.configs.append((entry.index, entry.command))

    def cut(self, start: int) -> list[int]:
        """Remove the entry at ``start`` and all after it; their terms."""
        terms = [e.term for e in self.entries[start - 1 :]]
        del self.entries[start - 1 :], self.digests[start - 1 :], self.ends[start - 1 :]
        self.last_index = start - 1
        self.last_term = self.entries[-1].term if self.entries else 0
        if start <= self.written:
            self.records.clear()
            self.ops.extend(cut_ops(LOG, self.ends[-1] if self.ends else 0, sync=self.sync))
            self.written = start - 1
            self.durable = min(self.durable, start - 1)
        else:
            del self.records[self.last_index - self.written :]
        while self.configs[-1][0] >= start:
            self.configs.pop()
        return terms

    def take_ops(self) -> tuple[DiskOp, ...]:
        """Everything not yet handed to the disk, as one batch; empty when there is nothing."""
        ops = tuple(self.ops)
        if self.records:
            offset = self.ends[self.written - 1] if self.written else 0
            ops += append_ops(LOG, b"".join(self.records), offset, sync=self.sync)
        self.ops.clear()
        self.records.clear()
        self.written = self.last_index
        return ops

    def first_of_term(self, index: int) -> int:
        """The first index of the run of entries that share the term of ``index``."""
        term = self.term_at(index)
        while index > 1 and self.entries[index - 2].term == term:
            index -= 1
        return index
