"""The log of one partition group in memory: positions start at 0, and the right end ``end`` is exclusive.

Guarantees: those of ``kit.log``. Out of scope: input and output: it returns operations.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection`` (last log term and position).
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue.messages import Entry
from dethrone.clusters.targets.joyqueue.storage import record
from dethrone.clusters.targets.kit.log import EntryLog


class Log(EntryLog[Entry]):
    """The log whose file is ``path``."""

    def record(self, entry: Entry) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record(self.end, entry)
