"""A replica's log with its epochs, its high watermark on disk, and the registers and lists behind it.

Guarantees: those of ``kit.log``; a cut lowers what is durable at once, even during a write. Reads see what the high
watermark covers. Out of scope: snapshots, and every decision when to cut.

Source: docs/sources.md, zk-ephemeral: Kafka's leader-epoch truncation (KIP-101, KIP-595).
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.files import (
    Recovered,
    Unreadable,
    file_of,
    record,
    replace_ops,
    sealed,
    split,
    unsealed,
    unsynced,
)
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.machine import DiskImage, DiskOp

LOG = "log"
HW = "hw"

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Record)


class Log(EntryLog[Record]):
    """Records 1 … ``end``."""

    def __init__(self, *, sync: bool) -> None:
        super().__init__(LOG, sync=sync)
        self.hw = 0
        self.applied = 0
        self.machine = Machine()

    def record(self, entry: Record) -> tuple[bytes, str]:
        """A record as one JSON object; nothing compares digests."""
        return record(_ENCODE(entry)), ""

    def term_of(self, entry: Record) -> int:
        """Its epoch."""
        return entry.epoch

    def begins(self, term: int) -> bool:
        """Epochs only rise."""
        return not self.terms or term > self.terms[-1]

    # --- disk -----------------------------------------------------------------------------------------------------

    def start(self, disk: DiskImage) -> tuple[DiskOp, ...]:
        """Read both files; the operations that cut a torn tail and make durable what was found."""
        ops = self.recover(disk, _read)
        mark = file_of(disk, HW)
        if mark is not None:
            self.hw = min(read_hw(mark), self.end)
        self.apply()
        return ops

    def cut_now(self, end: int) -> tuple[DiskOp, ...]:
        """Keep records 1 … ``end``; the write that cuts the file, if they were handed to it."""
        self.cut(end)
        self.hw = min(self.hw, end)
        if self.applied > end:
            self.applied, self.machine = 0, Machine()
            self.apply()
        ops = tuple(self.ops)
        self.ops.clear()
        return ops

    def diverges(self, last_epoch: int, log_end: int) -> tuple[int, int] | None:
        """Where a follower's log that ends so leaves this one: its (epoch, end); None if it is a prefix."""
        if log_end == 0:
            return None
        epoch, end = self.end_of_term(last_epoch)
        return None if epoch == last_epoch and log_end <= end else (epoch, end)

    # --- registers and lists --------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply everything below the high watermark."""
        while self.applied < self.hw:
            self.applied += 1
            self.machine.apply(self.applied, self.entries[self.applied - 1].command)

    def read(self, key: str) -> Any:
        """The value of a key."""
        return self.machine.read(key)


class LogNode(KitNode):
    """A node with such a log. One write of it is under way at a time; what comes meanwhile waits for that."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        self.batches: dict[int, int] = {}
        """Batch of the log under way → the index that it makes durable."""

    def write_log(self) -> None:
        """Hand what waits in the log to the disk, once it is free."""
        if self.log.waits() and not self.batches:
            self.batches[self.batch(self.log.take_ops())] = self.log.end

    def cut_log(self, end: int) -> None:
        """Keep records 1 … ``end``, also of what is being written."""
        ops = self.log.cut_now(end)
        self.batches = {token: min(index, end) for token, index in self.batches.items()}
        if ops:
            self.batches[self.batch(ops)] = end

    def log_written(self, token: int) -> bool:
        """A batch is done; whether it was one of the log, which is durable so far."""
        index = self.batches.pop(token, None)
        if index is not None:
            self.log.durable = max(self.log.durable, min(index, self.log.end))
        return index is not None

    def show_durable(self) -> None:
        """Reads see all that is durable: no high watermark holds it back."""
        self.log.hw = self.log.durable
        self.log.apply()


def _read(content: bytes) -> Recovered[Record]:
    bodies, torn = split(content, path=LOG)
    try:
        found = [_DECODER.decode(body) for body, _ in bodies]
    except msgspec.DecodeError as error:
        raise Unreadable(f"{LOG}: {error}") from error
    for expected, one in enumerate(found, 1):
        if one.index != expected:
            raise Unreadable(f"{LOG}: record {one.index} where {expected} belongs")
    return Recovered(found, [""] * len(found), [end for _, end in bodies], torn)


def hw_ops(hw: int, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """Replace the HW checkpoint."""
    ops = replace_ops(HW, sealed(b"%d" % hw))
    return ops if sync else unsynced(ops)


def read_hw(content: bytes) -> int:
    """The checkpoint; `Unreadable` when it is not exactly what `hw_ops` writes."""
    return unsealed(content, int, path=HW)
