"""A replica's log with its epochs, its high watermark on disk, and the registers and lists behind it.

Guarantees: `durable` is what the disk certainly holds; a cut lowers it at once, even during a write. Reads see what the
high watermark covers. Out of scope: snapshots, and every decision when to cut.

Source: docs/sources.md, zk-ephemeral: Kafka's leader-epoch truncation (KIP-101, KIP-595).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kit.files import (
    Unreadable,
    append_ops,
    cut_ops,
    file_of,
    record,
    replace_ops,
    sealed,
    split,
    unsealed,
    unsynced,
)
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync

LOG = "log"
HW = "hw"

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Record)


class Log:
    """Records 1 … ``end``. ``sync``: whether writes carry a barrier."""

    __slots__ = ("applied", "data", "durable", "ends", "epochs", "hw", "records", "starts", "sync", "waiting")

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.records: list[Record] = []
        self.ends: list[int] = []
        """Byte offset behind each record."""
        self.epochs: list[int] = []
        self.starts: list[int] = []
        """The epochs in the log, and the index of each one's first record."""
        self.durable = 0
        self.hw = 0
        self.applied = 0
        self.data: dict[str, Any] = {}
        self.waiting = bytearray()

    @property
    def end(self) -> int:
        """The index of the last record."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """Its epoch."""
        return self.epochs[-1] if self.epochs else 0

    # --- disk -----------------------------------------------------------------------------------------------------

    def load(self, disk: DiskImage) -> tuple[DiskOp, ...]:
        """Read both files; the operations that cut a torn tail and make durable what was found."""
        ops: list[DiskOp] = []
        content = file_of(disk, LOG)
        if content is not None:
            bodies, torn = split(content, path=LOG)
            for body, _ in bodies:
                try:
                    one = _DECODER.decode(body)
                except msgspec.DecodeError as error:
                    raise Unreadable(f"{LOG}: {error}") from error
                if one.index != self.end + 1:
                    raise Unreadable(f"{LOG}: record {one.index} where {self.end + 1} belongs")
                self._put(one, body)
            self.waiting.clear()
            end = self.ends[-1] if self.ends else 0
            if torn:
                ops += cut_ops(LOG, end, sync=self.sync)
            elif self.sync:
                ops.append(Fsync(LOG))
        mark = file_of(disk, HW)
        if mark is not None:
            self.hw = min(read_hw(mark), self.end)
        self.durable = self.end
        self.apply()
        return tuple(ops)

    def append(self, one: Record) -> None:
        """Append a record; it is written with the next batch."""
        self._put(one, _ENCODE(one))

    def _put(self, one: Record, body: bytes) -> None:
        data = record(body)
        self.records.append(one)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        if not self.epochs or one.epoch > self.epochs[-1]:
            self.epochs.append(one.epoch)
            self.starts.append(one.index)
        self.waiting += data

    def take(self) -> tuple[DiskOp, ...]:
        """The write of everything that waits; empty if nothing does."""
        if not self.waiting:
            return ()
        data = bytes(self.waiting)
        self.waiting.clear()
        return append_ops(LOG, data, self.ends[-1] - len(data), sync=self.sync)

    def cut(self, end: int) -> tuple[DiskOp, ...]:
        """Keep records 1 … ``end``; the write that cuts the file."""
        behind = self.ends[-1] - len(self.waiting) if self.ends else 0
        del self.records[end:]
        del self.ends[end:]
        while self.starts and self.starts[-1] > end:
            self.starts.pop()
            self.epochs.pop()
        self.durable = min(self.durable, end)
        self.hw = min(self.hw, end)
        if self.applied > end:
            self.applied, self.data = 0, {}
            self.apply()
        at = self.ends[-1] if self.ends else 0
        kept = at - behind
        if kept >= 0:  # nothing that was handed to the disk goes
            del self.waiting[kept:]
            return ()
        self.waiting.clear()
        return cut_ops(LOG, at, sync=self.sync)

    # --- epochs ---------------------------------------------------------------------------------------------------

    def end_of(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch up to ``epoch`` in the log, the index of its last record); (0, 0) if there is none."""
        at = bisect_right(self.epochs, epoch)
        if at == 0:
            return 0, 0
        return self.epochs[at - 1], (self.starts[at] - 1 if at < len(self.starts) else self.end)

    def diverges(self, last_epoch: int, log_end: int) -> tuple[int, int] | None:
        """Where a follower's log that ends so leaves this one: (epoch, end) as `end_of`; None if it is a prefix."""
        if log_end == 0:
            return None
        epoch, end = self.end_of(last_epoch)
        return None if epoch == last_epoch and log_end <= end else (epoch, end)

    # --- registers and lists --------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply everything below the high watermark."""
        while self.applied < self.hw:
            command = self.records[self.applied].command
            self.applied += 1
            if isinstance(command, Append):
                held = self.data.get(command.key)
                if isinstance(held, list):
                    held.append(command.value)
                else:
                    self.data[command.key] = [command.value]
            else:
                self.data[command.key] = command.value

    def read(self, key: str) -> Any:
        """The value of a key; a list is copied."""
        held = self.data.get(key)
        return list(held) if isinstance(held, list) else held


def hw_ops(hw: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Replace the HW checkpoint."""
    ops = replace_ops(HW, sealed(b"%d" % hw))
    return ops if sync else unsynced(ops)


def read_hw(content: bytes) -> int:
    """The checkpoint; `Unreadable` when it is not exactly what `hw_ops` writes."""
    try:
        return int(unsealed(content, path=HW))
    except ValueError as error:
        raise Unreadable(f"{HW}: {error}") from error
