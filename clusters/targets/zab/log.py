"""The transaction log and the two epoch files: in memory, and as bytes on disk.

Guarantees: an epoch file is replaced atomically; a log record holds (place from 1, zxid, command) and its checksums; a
cut is synced before anything is appended; a snapshot replaces the log as a whole. The place of a transaction is the
index that observers compare: two logs with the same zxid hold the same history up to it. Out of scope: input, output.

Source: Apache ZooKeeper, FileTxnLog and QuorumPeer (acceptedEpoch, currentEpoch); the framing is ours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Recovered, Unreadable
from dethrone.clusters.targets.zab.messages import Command, Txn
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Write

LOG, LOG_TEMPORARY = "log", "log.tmp"
ACCEPTED, CURRENT = "acceptedEpoch", "currentEpoch"

_encode_command = msgspec.json.Encoder().encode
_decode_command = msgspec.json.Decoder(Command).decode


def epoch_ops(path: str, epoch: int) -> tuple[DiskOp, ...]:
    """The batch that replaces one of the epoch files."""
    return files.replace_ops(path, b"%d\n" % epoch)


def read_epoch(disk: DiskImage, path: str) -> int | None:
    """The epoch in the file, None if there is none; `Unreadable` if it holds anything else."""
    content = files.file_of(disk, path)
    if content is None:
        return None
    word = content.strip()
    if not word.isdigit():
        raise Unreadable(f"{path}: no epoch in {content[:40]!r}")
    return int(word)


def record_bytes(place: int, txn: Txn) -> bytes:
    """The record of a transaction."""
    return files.log_record(place, txn.zxid, _encode_command(txn.command))[0]


def read_log(content: bytes) -> Recovered[Txn]:
    """The log in a file's content."""
    return files.read_log(content, lambda _, zxid, command: Txn(zxid, _decode_command(command)), path=LOG, first=1)


class Log:
    """The log of one node. Every change returns the disk operations that it takes."""

    __slots__ = ("ends", "txns", "zxids")

    def __init__(self) -> None:
        self.txns: list[Txn] = []
        self.zxids: list[int] = []
        self.ends: list[int] = []

    def load(self, content: bytes) -> tuple[DiskOp, ...]:
        """Start from what the disk holds; an unfinished record is cut off."""
        found = read_log(content)
        self.txns, self.ends = found.entries, found.ends
        self.zxids = [txn.zxid for txn in self.txns]
        return files.cut_ops(LOG, self.size) if found.torn else (Fsync(LOG),)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.ends[-1] if self.ends else 0

    @property
    def last(self) -> int:
        """The zxid of the last transaction; 0: none."""
        return self.zxids[-1] if self.zxids else 0

    def upto(self, zxid: int) -> int:
        """How many transactions have this zxid or a smaller one."""
        return bisect_right(self.zxids, zxid)

    def holds(self, zxid: int, within: int) -> bool:
        """Whether it is among the first ``within``."""
        at = bisect_left(self.zxids, zxid)
        return at < within and self.zxids[at] == zxid

    def append(self, txns: Sequence[Txn]) -> tuple[DiskOp, ...]:
        """Append them in one synced write."""
        at = self.size
        data = self._extend(txns)
        return files.append_ops(LOG, data, at) if data else ()

    def cut(self, keep: int) -> tuple[DiskOp, ...]:
        """Remove everything after the first ``keep``."""
        if keep >= len(self.txns):
            return ()
        del self.txns[keep:], self.zxids[keep:], self.ends[keep:]
        return files.cut_ops(LOG, self.size)

    def replace(self, txns: Sequence[Txn]) -> tuple[DiskOp, ...]:
        """Hold these alone."""
        self.txns, self.zxids, self.ends = [], [], []
        write = Write(LOG_TEMPORARY, self._extend(txns), offset=0, truncate=True)
        return write, Fsync(LOG_TEMPORARY), Rename(LOG_TEMPORARY, LOG), Fsync(LOG)

    def _extend(self, txns: Sequence[Txn]) -> bytes:
        parts = []
        for txn in txns:
            data = record_bytes(len(self.txns) + 1, txn)
            self.ends.append(self.size + len(data))
            self.txns.append(txn)
            self.zxids.append(txn.zxid)
            parts.append(data)
        return b"".join(parts)
