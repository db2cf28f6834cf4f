"""The log in memory: records, where each epoch begins, what was handed to the disk and what is durable.

Guarantees: the end of an epoch is found without a scan of records; bytes wait here, encoded once, until they are taken
as one disk batch (group commit). Out of scope: input and output: it returns operations.

Source: Apache Kafka 3.3.1, ReplicatedLog (endOffsetForEpoch, truncateToEndOffset) and LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right

from dethrone.clusters.targets.kit.files import Recovered, append_ops, cut_ops
from dethrone.clusters.targets.kraft.messages import Record
from dethrone.clusters.targets.kraft.storage import LOG, record_bytes
from dethrone.harness.core.machine import DiskOp


class Log:
    """The log of one node. ``end`` is the log end offset: exclusive, the next offset to be written."""

    __slots__ = (
        "digests",
        "durable",
        "end",
        "ends",
        "epochs",
        "last_epoch",
        "ops",
        "pending",
        "records",
        "starts",
        "sync",
        "written",
    )

    def __init__(self, *, sync: bool = True) -> None:
        self.records: list[Record] = []
        self.digests: list[str] = []
        self.ends: list[int] = []
        self.epochs: list[int] = []
        self.starts: list[int] = []
        """For each epoch of ``epochs``: the offset of its first record."""
        self.end = 0
        self.last_epoch = 0
        self.sync = sync
        self.ops: list[DiskOp] = []
        """Cuts that the next batch must carry before its records."""
        self.pending: list[bytes] = []
        self.written = 0
        """The end of what was handed to the disk."""
        self.durable = 0
        """The end of what is known to be on disk."""

    def load(self, found: Recovered[Record]) -> None:
        """Start from what the disk holds."""
        self.records, self.digests, self.ends = found.entries, found.digests, found.ends
        for record in found.entries:
            self._open(record)
        self.end = self.written = self.durable = len(found.entries)
        if found.torn:
            self.ops.extend(cut_ops(LOG, self.ends[-1] if self.ends else 0, sync=self.sync))

    def append(self, record: Record) -> None:
        """Append in memory; the bytes wait for `take_ops`."""
        data, digest = record_bytes(record)
        self.pending.append(data)
        self.records.append(record)
        self.digests.append(digest)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self._open(record)
        self.end += 1

    def _open(self, record: Record) -> None:
        if record.epoch != self.last_epoch or not self.epochs:
            self.epochs.append(record.epoch)
            self.starts.append(record.offset)
            self.last_epoch = record.epoch

    def cut(self, to: int) -> None:
        """Remove every record from offset ``to`` on."""
        del self.records[to:], self.digests[to:], self.ends[to:]
        while self.starts and self.starts[-1] >= to:
            self.starts.pop()
            self.epochs.pop()
        self.end = to
        self.last_epoch = self.epochs[-1] if self.epochs else 0
        if to < self.written:
            self.pending.clear()
            self.ops.extend(cut_ops(LOG, self.ends[-1] if self.ends else 0, sync=self.sync))
            self.written = to
            self.durable = min(self.durable, to)
        else:
            del self.pending[to - self.written :]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch ≤ ``epoch`` in this log and the offset where it ends; (0, 0) if there is none."""
        at = bisect_right(self.epochs, epoch)
        if at == 0:
            return 0, 0
        return self.epochs[at - 1], self.starts[at] if at < len(self.starts) else self.end

    def read(self, offset: int, most: int) -> tuple[Record, ...]:
        """At most ``most`` records from ``offset`` on."""
        return tuple(self.records[offset : offset + most])

    def take_ops(self) -> tuple[DiskOp, ...]:
        """Everything not yet handed to the disk, as one batch; empty when there is nothing."""
        ops = tuple(self.ops)
        if self.pending:
            at = self.ends[self.written - 1] if self.written else 0
            ops += append_ops(LOG, b"".join(self.pending), at, sync=self.sync)
        self.ops.clear()
        self.pending.clear()
        self.written = self.end
        return ops
