"""The log in memory, with the configuration entries in it.

Guarantees: indexes start at 1; the configuration in force is found without a scan. Out of scope: what every log does
(``kit.log``), input and output.

Source: Raft paper, figure 2 and 5.3; thesis 4.1 (configuration entries).
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.files import Recovered
from dethrone.clusters.targets.kit.log import EntryLog
from dethrone.clusters.targets.raft.messages import Config, Entry
from dethrone.clusters.targets.raft.storage import LOG, record


class Log(EntryLog[Entry]):
    """The log of one node. ``initial``: the members given at start, in force until an entry says otherwise."""

    def __init__(self, initial: Config, *, sync: bool = True) -> None:
        super().__init__(LOG, sync=sync)
        self.configs: list[tuple[int, Config]] = [(0, initial)]

    def record(self, entry: Entry) -> tuple[bytes, str]:
        """See `EntryLog`."""
        return record(entry)

    def load(self, found: Recovered[Entry]) -> None:
        """Start from what the disk holds."""
        super().load(found)
        self.configs.extend((e.index, e.command) for e in self.entries if type(e.command) is Config)

    def append(self, entry: Entry) -> None:
        """Append in memory."""
        super().append(entry)
        if type(entry.command) is Config:
            self.configs.append((entry.index, entry.command))

    def cut(self, keep: int) -> list[Entry]:
        """Remove everything behind index ``keep``; what went."""
        gone = super().cut(keep)
        while self.configs[-1][0] > keep:
            self.configs.pop()
        return gone

    def first_of_term(self, index: int) -> int:
        """The first index of the run of entries that share the term of ``index``."""
        term = self.term_at(index)
        while index > 1 and self.entries[index - 2].term == term:
            index -= 1
        return index
