"""What the shells of one node showed of its logs, life after life: a hash at each multiple of ``EVERY`` entries.

A node that starts again finds a log that its trace holds already. Its shell says how much of it is as it was shown
(``log_kept``), and shows the rest. Guarantees: what counts as shown was shown; a log that was cut, or that holds
something else, is shown again from the last mark before that. Out of scope: where marks outlive a process
(``dethrone.clusters.node.kept_marks``), and what was lost on the way from a shell to the history: a judge compares
the hash. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from dethrone.harness.core.rolling import number, roll

EVERY = 64
Entry = tuple[int, int, str]
"""Index, term, hash."""


class Kept(NamedTuple):
    """The first ``size`` entries are those that were shown; ``known``: the hash of that prefix."""

    size: int
    known: int


class Marks:
    """Of one log. ``entries``: what the shell that runs has shown so far; their marks are made when they are needed."""

    def __init__(self) -> None:
        self.rolls: list[int] = []
        """At ``EVERY``, twice ``EVERY`` …: the hash of the prefix of that length."""
        self.entries: Sequence[Entry] = ()
        self._reported = self._same = 0
        """How many marks ``change`` gave away, and how many of them still hold."""

    def cut(self, count: int) -> None:
        """The log ends after ``count`` entries now."""
        del self.rolls[count // EVERY :]
        self._same = min(self._same, len(self.rolls))

    def found(self, entries: Sequence[Entry]) -> Kept:
        """A new life finds these entries: how many of them are as they were shown. Only those count as shown now."""
        self._settle()
        kept = Kept(0, 0)
        for place, shown in enumerate(self.rolls):
            start = EVERY * place
            stretch = entries[start : start + EVERY]
            if len(stretch) < EVERY or _rolled(kept.known, stretch) != shown:
                break
            kept = Kept(start + EVERY, shown)
        self.cut(kept.size)
        self.entries = entries
        return kept

    def change(self) -> tuple[int, list[int]] | None:
        """Since the last time: how many marks stay, and those that follow them. None: nothing changed."""
        if len(self.entries) // EVERY > len(self.rolls):
            self._settle()
        same = self._same
        if same == self._reported == len(self.rolls):
            return None
        self._reported = self._same = len(self.rolls)
        return same, self.rolls[same:]

    def restore(self, same: int, more: Sequence[int]) -> None:
        """One such change, of an earlier life."""
        self.rolls[same:] = more
        self._reported = self._same = len(self.rolls)

    def _settle(self) -> None:
        rolls, entries = self.rolls, self.entries
        for start in range(EVERY * len(rolls), len(entries) - EVERY + 1, EVERY):
            rolls.append(_rolled(rolls[-1] if rolls else 0, entries[start : start + EVERY]))


class LogMarks(dict[str, Marks]):
    """Of all logs of one node, by their files."""

    def of(self, path: str) -> Marks:
        """The marks of this log."""
        return self.setdefault(path, Marks())


@runtime_checkable
class Remembering(Protocol):
    """A witness that does not show again after a restart what it showed before. Its shell sets ``marks``."""

    marks: LogMarks


def _rolled(before: int, entries: Sequence[Entry]) -> int:
    for _, term, payload in entries:
        before = roll(before, term, number(payload))
    return before
