"""The log in memory: offsets start at 0, and the log end offset ``end`` is exclusive.

Guarantees: those of ``kit.log``. Out of scope: input and output: it returns operations.

Source: Apache Kafka 3.3.1, ReplicatedLog (endOffsetForEpoch, truncateToEndOffset) and LeaderEpochFileCache.
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.kraft.messages import Record
from dethrone.clusters.targets.kraft.storage import LOG, record_bytes


class Log(EntryLog[Record]):
    """The log of one node."""

    def __init__(self, *, sync: bool = True) -> None:
        super().__init__(LOG, sync=sync)

    def record(self, entry: Record) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record_bytes(entry)

    def term_of(self, entry: Record) -> int:
        """Its epoch."""
        return entry.epoch

    def read(self, offset: int, most: int) -> tuple[Record, ...]:
        """At most ``most`` records from ``offset`` on."""
        return tuple(self.entries[offset : offset + most])
