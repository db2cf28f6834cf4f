"""The log in memory, and the one disk batch that is under way.

Guarantees: those of ``kit.log``; indexes start at 0, and `last` and `stored` are -1 when there is none; each batch has
a number, so that an answer can wait for the one that carries its change. Out of scope: input and output: it returns
operations.

Source: DLedger 0.2.7, ``DLedgerStore`` and ``DLedgerMmapFileStore``; group commit is ours.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger.messages import Entry
from dethrone.clusters.targets.dledger.storage import LOG, record
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.harness.core.machine import DiskOp


class Log(EntryLog[Entry]):
    """The log of one node. ``sync``: whether batches end with a sync."""

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
