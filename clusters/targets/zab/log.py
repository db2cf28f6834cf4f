"""The transaction log and the two epoch files: in memory, and as bytes on disk.

Guarantees: those of ``kit.log``; an epoch file is replaced atomically; a log record holds (place from 1, zxid, command)
and its checksums; a snapshot replaces the log as a whole. The place of a transaction is the index that observers
compare: two logs with the same zxid hold the same history up to it. Out of scope: input, output.

Source: Apache ZooKeeper, FileTxnLog and QuorumPeer (acceptedEpoch, currentEpoch); the framing is ours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from dethrone.clusters.targets.kit import files
from dethrone.clusters.targets.kit.files import Recovered, Unreadable
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.zab.messages import Command, Txn
from dethrone.harness.core.machine import DiskImage, DiskOp

LOG, LOG_TEMPORARY = "log", "log.tmp"
ACCEPTED, CURRENT = "acceptedEpoch", "currentEpoch"

_encode_command = msgspec.json.Encoder().encode
_decode_command = msgspec.json.Decoder(Command).decode


def epoch_ops(path: str, epoch: int) -> tuple[DiskOp, ...]:
    """The batch that replaces one of the epoch files."""
    return files.replace_ops(path, b"%d\n" % epoch)


def epoch_in(content: bytes, *, path: str) -> int:
    """The epoch in the file's content; `Unreadable` if it holds anything else."""
    word = content.strip()
    if not word.isdigit():
        raise Unreadable(f"{path}: no epoch in {content[:40]!r}")
    return int(word)


def read_epoch(disk: DiskImage, path: str) -> int | None:
    """The epoch in the file, None if there is none."""
    content = files.file_of(disk, path)
    return None if content is None else epoch_in(content, path=path)


def read_log(content: bytes) -> Recovered[Txn]:
    """The log in a file's content."""
    return files.read_log(content, lambda _, zxid, command: Txn(zxid, _decode_command(command)), path=LOG, first=1)


class Log(EntryLog[Txn]):
    """The log of one node; its zxids are what `EntryLog` calls terms. A change returns the operations that it takes."""

    def __init__(self) -> None:
        super().__init__(LOG)

    def record(self, entry: Txn) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return files.log_record(self.end + 1, entry.zxid, _encode_command(entry.command))

    def term_of(self, entry: Txn) -> int:
        """Its zxid, which is no other's."""
        return entry.zxid

    def begins(self, term: int) -> bool:
        """Each, even a second one of that zxid, which a broken build makes."""
        del term
        return True

    @property
    def last(self) -> int:
        """The zxid of the last transaction; 0: none."""
        return self.last_term

    def upto(self, zxid: int) -> int:
        """How many transactions have this zxid or a smaller one."""
        return bisect_right(self.terms, zxid)

    def extend(self, txns: Iterable[Txn]) -> tuple[DiskOp, ...]:
        """Append them in one synced write."""
        for txn in txns:
            self.append(txn)
        return self.take_ops()

    def keep(self, count: int) -> tuple[DiskOp, ...]:
        """Remove everything after the first ``count``."""
        self.cut(count)
        return self.take_ops()

    def replace(self, txns: Iterable[Txn]) -> tuple[DiskOp, ...]:
        """Hold these alone."""
        self.cut(0)
        self.ops.clear()
        for txn in txns:
            self.append(txn)
        content = b"".join(self.records)
        self.take_ops()
        return files.replace_ops(LOG, content, scratch=LOG_TEMPORARY)
