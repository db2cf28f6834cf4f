"""The log of one partition group in memory: entries, their digests, what was handed to the disk and what is durable.

Guarantees: positions start at 0 and a right end is exclusive; records wait here, encoded once, until they are taken as
one disk batch. Out of scope: input and output: it returns operations.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection`` (last log term and position).
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue.messages import Entry
from dethrone.clusters.targets.joyqueue.storage import record
from dethrone.clusters.targets.kit.files import Recovered, append_ops, cut_ops
from dethrone.harness.core.machine import DiskOp


class Log:
    """The log whose file is ``path``."""

    __slots__ = (
        "digests",
        "durable",
        "ends",
        "entries",
        "last_term",
        "ops",
        "path",
        "records",
        "right",
        "sync",
        "written",
    )

    def __init__(self, path: str, *, sync: bool = True) -> None:
        self.path = path
        self.sync = sync
        self.entries: list[Entry] = []
        self.digests: list[str] = []
        self.ends: list[int] = []
        self.right = 0
        """The right end: how many entries there are."""
        self.last_term = 0
        self.ops: list[DiskOp] = []
        """Cuts that the next batch must carry before its records."""
        self.records: list[bytes] = []
        """The encoded tail that was not handed to the disk yet."""
        self.written = 0
        self.durable = 0

    def load(self, found: Recovered[Entry]) -> None:
        """Start from what the disk holds."""
        self.entries, self.digests, self.ends = found.entries, found.digests, found.ends
        self.right = self.written = self.durable = len(found.entries)
        self.last_term = found.entries[-1].term if found.entries else 0
        if found.torn:
            self.ops.extend(cut_ops(self.path, self.ends[-1] if self.ends else 0, sync=self.sync))

    def term_at(self, position: int) -> int:
        """The term of the entry at ``position``; 0 before the first, −1 beyond the last."""
        if position < 0:
            return 0
        return self.entries[position].term if position < self.right else -1

    def append(self, entry: Entry) -> None:
        """Append in memory; the record waits for `take_ops`."""
        data, name = record(self.right, entry)
        self.records.append(data)
        self.entries.append(entry)
        self.digests.append(name)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self.right += 1
        self.last_term = entry.term

    def cut(self, position: int) -> list[int]:
        """Make ``position`` the right end; the removed entries' terms."""
        terms = [entry.term for entry in self.entries[position:]]
        del self.entries[position:], self.digests[position:], self.ends[position:]
        self.right = position
        self.last_term = self.entries[-1].term if self.entries else 0
        if position < self.written:
            self.records.clear()
            self.ops.extend(cut_ops(self.path, self.ends[-1] if self.ends else 0, sync=self.sync))
            self.written = position
            self.durable = min(self.durable, position)
        else:
            del self.records[self.right - self.written :]
        return terms

    def take_ops(self) -> tuple[DiskOp, ...]:
        """Everything not yet handed to the disk, as one batch; empty when there is nothing."""
        ops = tuple(self.ops)
        if self.records:
            offset = self.ends[self.written - 1] if self.written else 0
            ops += append_ops(self.path, b"".join(self.records), offset, sync=self.sync)
        self.ops.clear()
        self.records.clear()
        self.written = self.right
        return ops
