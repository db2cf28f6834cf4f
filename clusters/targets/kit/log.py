"""The log of a node in memory: entries, where each term begins, what was handed to the disk and what the disk holds.

    class Log(EntryLog[Entry]):
        def record(self, entry): return log_record(entry.index, entry.term, encode(entry.command))

Guarantees: records wait here, encoded once, until they are taken as one disk batch (group commit); a cut is synced
before the records that follow it; the end of a term is found without a scan. ``end``, ``written`` and ``durable`` count
entries: they are the index of the last one for a protocol that counts from 1, and the next one for one that counts from
0. Out of scope: input and output: it returns operations; what an entry is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from dethrone.clusters.targets.kit.files import Recovered, append_ops, cut_ops, file_of
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync

E = TypeVar("E")


class EntryLog(Generic[E]):
    """The log whose file is ``path``. ``sync``: whether writes carry a barrier."""

    EMPTY_TERM: ClassVar[int] = 0
    """``last_term`` of an empty log."""

    def __init__(self, path: str, *, sync: bool = True) -> None:
        self.path = path
        self.sync = sync
        self.entries: list[E] = []
        self.digests: list[str] = []
        self.ends: list[int] = []
        """Where each record ends in the file."""
        self.end = 0
        """How many entries there are."""
        self.last_term = self.EMPTY_TERM
        self.terms: list[int] = []
        self.starts: list[int] = []
        """The terms in the log, and how many entries are in front of each."""
        self.ops: list[DiskOp] = []
        """Cuts that the next batch must carry before its records."""
        self.records: list[bytes] = []
        """The encoded tail that was not handed to the disk yet."""
        self.written = 0
        """How many entries were handed to the disk."""
        self.durable = 0
        """How many are known to be on disk."""

    # --- what a protocol gives --------------------------------------------------------------------------------------

    def record(self, entry: E) -> tuple[bytes, str]:
        """The record of the entry that is appended next, and the digest of its command."""
        raise NotImplementedError

    def term_of(self, entry: Any) -> int:
        """The entry's term."""
        term: int = entry.term
        return term

    def begins(self, term: int) -> bool:
        """Whether an entry of this term, appended next, begins one."""
        return term != self.last_term or not self.terms

    # --- the log ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes in the file, once everything is written."""
        return self.ends[-1] if self.ends else 0

    def load(self, found: Recovered[E]) -> None:
        """Start from what the disk holds; what follows the last good record is cut off."""
        self.digests, self.ends = found.digests, found.ends
        for entry in found.entries:
            self._put(entry)
        self.written = self.durable = self.end
        if found.torn:
            self._cut_file()

    def recover(self, disk: DiskImage, read: Callable[[bytes], Recovered[E]]) -> tuple[DiskOp, ...]:
        """Start from what the disk holds; the batch that makes it durable, for the last life may not have synced it."""
        content = file_of(disk, self.path)
        if content is None:
            return ()
        self.load(read(content))
        return self.take_ops() or ((Fsync(self.path),) if self.sync else ())

    def append(self, entry: E) -> None:
        """Append in memory; the record waits for `take_ops`."""
        data, name = self.record(entry)
        self.records.append(data)
        self.digests.append(name)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self._put(entry)

    def cut(self, keep: int) -> list[E]:
        """Remove everything behind the first ``keep``; what went."""
        gone = self.entries[keep:]
        del self.entries[keep:], self.digests[keep:], self.ends[keep:]
        while self.starts and self.starts[-1] >= keep:
            self.starts.pop()
            self.terms.pop()
        self.end = len(self.entries)
        self.last_term = self.terms[-1] if self.terms else self.EMPTY_TERM
        if self.end < self.written:
            self.records.clear()
            self._cut_file()
            self.written = self.end
            self.durable = min(self.durable, self.end)
        else:
            del self.records[self.end - self.written :]
        return gone

    def term_at(self, number: int) -> int:
        """The term of the ``number``-th entry, from 1; 0 before the first, -1 beyond the last."""
        if number <= 0:
            return 0
        return self.term_of(self.entries[number - 1]) if number <= self.end else -1

    def end_of_term(self, term: int) -> tuple[int, int]:
        """The largest term up to ``term`` in this log, and how many entries there are up to its end; (0, 0): none."""
        at = bisect_right(self.terms, term)
        if at == 0:
            return 0, 0
        return self.terms[at - 1], self.starts[at] if at < len(self.starts) else self.end

    def waits(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self.records or self.ops)

    def take_ops(self) -> tuple[DiskOp, ...]:
        """Everything not yet handed to the disk, as one batch; empty when there is nothing."""
        ops = tuple(self.ops)
        if self.records:
            offset = self.ends[self.written - 1] if self.written else 0
            ops += append_ops(self.path, b"".join(self.records), offset, sync=self.sync)
        self.ops.clear()
        self.records.clear()
        self.written = self.end
        return ops

    def _put(self, entry: E) -> None:
        term = self.term_of(entry)
        if self.begins(term):
            self.terms.append(term)
            self.starts.append(self.end)
            self.last_term = term
        self.entries.append(entry)
        self.end += 1

    def _cut_file(self) -> None:
        self.ops.extend(cut_ops(self.path, self.size, sync=self.sync))
