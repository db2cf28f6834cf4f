"""The terms that nodes traced, and the few events that show how they went: the ends of each stretch of one term.

Guarantees: of each node, in its own order, at least the first and the last event of every stretch in which neither its
incarnation nor its term changes, apart for what its core says and for what its shell witnessed. Out of scope: falls
(``term_never_decreases``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dethrone.checkers.traces import Who, collect
from dethrone.harness.core.chunks import Chunk, by_node
from dethrone.harness.core.columns import changes
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import View

WITNESSED = frozenset({"vote", "elected", "acked", "persisted"})
"""Shell events whose term the node was in, at that moment or (a message that waited) before."""
ORDERED = frozenset({"persisted"})
"""Shell events that happen in the order of the terms they carry."""


@dataclass(frozen=True, slots=True)
class TracedTerms:
    """Events of terms above 0. ``lives``: (group, node) → the lowest and the highest incarnation of all its events."""

    core: Mapping[Who, Sequence[Traced]]
    witnessed: Mapping[Who, Sequence[Traced]]
    ordered: Mapping[Who, Sequence[Traced]]
    lives: Mapping[Who, tuple[int, int]]
    count: int
    top: int
    """The highest term; 0 without one."""


class _TracedTerms:
    def __init__(self) -> None:
        self._core: dict[Who, list[Traced]] = defaultdict(list)
        self._witnessed: dict[Who, list[Traced]] = defaultdict(list)
        self._ordered: dict[Who, list[Traced]] = defaultdict(list)
        self._lives: dict[Who, tuple[int, int]] = {}
        self._count = self._top = 0

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        table, words = chunk.table, chunk.words
        if not len(table):
            return
        positive = table.term > 0
        self._count += int(positive.sum())
        self._top = max(self._top, int(table.term.max()))
        for who, places in by_node(chunk):
            life = table.incarnation[places]
            low, high = self._lives.get(who, (int(life[0]), int(life[0])))
            self._lives[who] = min(low, int(life.min())), max(high, int(life.max()))
        shell = positive & table.shell
        wanted = []
        for found, among in (
            (self._core, positive & ~table.shell),
            (self._witnessed, shell & words.among(table.name, WITNESSED)),
            (self._ordered, shell & words.among(table.name, ORDERED)),
        ):
            for who, places in by_node(chunk, among):
                starts = changes(table.incarnation[places], table.term[places])
                ends = np.append(starts[1:] - 1, len(places) - 1)
                wanted.append((found[who], places[np.union1d(starts, ends)]))
        collect(chunk, wanted)

    def done(self) -> TracedTerms:
        """All parts."""
        return TracedTerms(
            dict(self._core), dict(self._witnessed), dict(self._ordered), self._lives, self._count, self._top
        )


traced_terms: View[TracedTerms] = View(_TracedTerms)
"""The terms of all traces."""
