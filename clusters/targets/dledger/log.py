"""The log in memory: entries, their digests, what was handed to the disk and what the disk has.

Guarantees: indexes start at 0 and `end` is -1 when empty; changes wait, encoded once, until they are taken as one disk
batch (group commit), one batch at a time; each batch has a number, so that an answer can wait for the one that carries
its change. Out of scope: input and output: it returns operations.

Source: DLedger 0.2.7, ``DLedgerStore`` and ``DLedgerMmapFileStore``; group commit is ours.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger.messages import Entry
from dethrone.clusters.targets.dledger.storage import LOG, Recovered, record
from dethrone.harness.core.machine import DiskOp, Fsync, Write


class Log:
    """The log of one node. ``sync``: whether batches end with a sync."""

    __slots__ = ("batch", "cuts", "digests", "end", "ends", "entries", "records", "stored", "sync", "target", "written")

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.entries: list[Entry] = []
        self.digests: list[str] = []
        self.ends: list[int] = []
        """Where each record ends in the file."""
        self.end = -1
        self.written = -1
        """Last index handed to the disk."""
        self.stored = -1
        """Last index that the disk is known to have."""
        self.cuts: list[DiskOp] = []
        self.records: list[bytes] = []
        self.batch = 0
        """The number of the batch under way or last done."""
        self.target: int | None = None
        """What the batch under way will have stored; None: none is under way."""

    @property
    def begin(self) -> int:
        """The first index, -1 when empty."""
        return 0 if self.entries else -1

    @property
    def last_term(self) -> int:
        """The term of the last entry, -1 when empty."""
        return self.entries[-1].term if self.entries else -1

    def load(self, found: Recovered) -> None:
        """Start from what the disk holds; what is behind the last good record will be cut off."""
        self.entries, self.digests, self.ends = found.entries, found.digests, found.ends
        self.end = self.written = self.stored = len(found.entries) - 1
        if found.cut:
            self._cut_file()

    def append(self, entry: Entry) -> None:
        """Append in memory; the record waits for `take`."""
        data, digest = record(entry)
        self.records.append(data)
        self.entries.append(entry)
        self.digests.append(digest)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self.end += 1

    def cut(self, keep: int) -> list[tuple[int, int]]:
        """Remove everything behind index ``keep``; what went, as (index, term)."""
        gone = [(entry.index, entry.term) for entry in self.entries[keep + 1 :]]
        del self.entries[keep + 1 :], self.digests[keep + 1 :], self.ends[keep + 1 :]
        self.end = len(self.entries) - 1
        self.stored = min(self.stored, self.end)
        if self.target is not None:
            self.target = min(self.target, self.end)
        if self.end < self.written:
            self.records.clear()
            self._cut_file()
            self.written = self.end
        else:
            del self.records[self.end - self.written :]
        return gone

    def waits(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self.records or self.cuts)

    def take(self) -> tuple[DiskOp, ...]:
        """Everything that waits, as one batch; call `done` when the disk has it."""
        ops = tuple(self.cuts)
        if self.records:
            offset = self.ends[self.written] if self.written >= 0 else 0
            ops += (Write(LOG, b"".join(self.records), offset=offset),)
        if self.sync and ops and not isinstance(ops[-1], Fsync):
            ops += (Fsync(LOG),)
        self.cuts.clear()
        self.records.clear()
        self.written = self.target = self.end
        self.batch += 1
        return ops

    def done(self) -> None:
        """The batch under way is done."""
        if self.target is not None:
            self.stored = max(self.stored, self.target)
            self.target = None

    @property
    def batches_done(self) -> int:
        """The number of the last batch that is done."""
        return self.batch if self.target is None else self.batch - 1

    def due_batch(self) -> int | None:
        """The number of the batch after which everything so far is stored; None: it is."""
        if self.records or self.cuts:
            return self.batch + 1
        return None if self.target is None else self.batch

    def _cut_file(self) -> None:
        """The cut is synced before records follow: a crash in between leaves a shorter log, never new before old."""
        self.cuts.append(Write(LOG, b"", offset=self.ends[-1] if self.ends else 0, truncate=True))
        if self.sync:
            self.cuts.append(Fsync(LOG))
