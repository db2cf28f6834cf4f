"""What a replay of logs knows across nodes: what is committed, acknowledged and stored, and how much was seen.

Guarantees: of each group and term only the furthest commit is kept. Out of scope: single logs (``stored_logs``), and
how all this comes about (``replicas``, ``calm``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from dethrone.checkers.dense import Dense

LAST = 2**62
"""The rank of what came last."""


class Committed(msgspec.Struct, frozen=True):
    """The entry (``entry_term``, ``index``) is known committed in ``term``; ``how`` is for people."""

    group: str
    term: int
    entry_term: int
    index: int
    how: str
    seqs: tuple[int, ...]


class Known:
    """What is known committed: how much, and of each group and term the furthest."""

    def __init__(self) -> None:
        self.count = 0
        self._best: dict[tuple[str, int], tuple[tuple[int, int, int], Committed]] = {}

    def further(self, group: str, term: int, order: tuple[int, int, int]) -> bool:
        """Whether (entry term, index, -rank) is further than all that is known of this term. If not, it is counted."""
        best = self._best.get((group, term))
        if best is None or order > best[0]:
            return True
        self.count += 1
        return False

    def add(self, one: Committed, *, rank: int = 0) -> None:
        """One more. Of two as far that of the lower rank stays, then the first."""
        self.count += 1
        self._take((one.entry_term, one.index, -rank), one)

    def join(self, other: Known) -> None:
        """All that is known there; what is known here stays where it is as far."""
        self.count += other.count
        for (entry_term, index, _), one in other._best.values():
            self._take((entry_term, index, -LAST), one)

    def _take(self, order: tuple[int, int, int], one: Committed) -> None:
        key = (one.group, one.term)
        best = self._best.get(key)
        if best is None or order > best[0]:
            self._best[key] = order, one

    def furthest(self) -> list[Committed]:
        """Of each group and term the furthest."""
        return [one for _, one in self._best.values()]


@dataclass(slots=True)
class State:
    """What is known across nodes."""

    known: Known = field(default_factory=Known)
    committed: dict[str, Dense] = field(default_factory=lambda: defaultdict(lambda: Dense(5)))
    """Group → index → (term, number of the payload, hash of the prefix, seq, rank) of what was committed there."""
    acks: dict[tuple[str, int], dict[str, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    """(group, term) → node → (index stored up to, seq)."""
    own: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    """(group, node, term) → (last index of that term that it stored in the life in which it led it, seq)."""
    appended: int = 0
    compared: int = 0
    commits: int = 0
    pinned: int = 0
