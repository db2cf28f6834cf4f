"""Polls in order of a moment or of their place, of which those that are asked for become events.

Guarantees: the same events, in the same order, as if all polls of the run were sorted; of a long run only a bounded
number of them is in memory at once, the others are columns. Out of scope: what polls mean (``facts``, ``recognition``).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dethrone.harness.core.columns import Bools, Ints
from dethrone.harness.core.events import Observed
from dethrone.harness.core.views import Columns

BLOCK = 1024
BLOCKS_MAX = 4
"""Blocks of events that stay in memory."""


class Polls:
    """Some polls of a history in order of ``by``: of their answers (``hi``), of their questions (``lo``) or of their
    place in the file (``seq``); polls of one moment in order of their places."""

    def __init__(self, table: Columns, places: Ints, *, by: Literal["lo", "hi", "seq"] = "hi") -> None:
        self._table = table
        self._keys: Ints = getattr(table.observed, by)
        """Of all polls of the history what these are ordered by."""
        places = places.astype(np.uint32 if len(table.observed) < 2**32 else np.int64)
        self._places = places[np.argsort(self._keys[places], kind="stable")]
        self._blocks: dict[int, list[Observed]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Observed]:
        return self.between(0, len(self))

    def column(self, name: str) -> Ints:
        """One field of all of them, see ``ObservedColumns``."""
        values: Ints = getattr(self._table.observed, name)[self._places]
        return values

    def of_node(self, node: str) -> Bools:
        """Which of them are of this node."""
        found: Bools = self.column("node") == self._table.words.code(node)
        return found

    def before(self, key: int) -> int:
        """How many have a smaller key."""
        return bisect.bisect_left(self._places, key, key=self._keys.__getitem__)

    def until(self, key: int) -> int:
        """How many have this key or a smaller one."""
        return bisect.bisect_right(self._places, key, key=self._keys.__getitem__)

    def between(self, first: int, end: int) -> Iterator[Observed]:
        """Those from the one at ``first`` on, up to and without ``end``."""
        while first < end:
            number, at = divmod(first, BLOCK)
            rows = self._block(number)[at : at + end - first]
            yield from rows
            first += len(rows)

    def numbers(self, first: int, end: int, *names: str) -> Iterator[tuple[Any, ...]]:
        """Those fields of these alone, words as codes: no event is made."""
        for start in range(first, end, BLOCK):
            places = self._places[start : min(end, start + BLOCK)]
            yield from zip(*(getattr(self._table.observed, name)[places].tolist() for name in names), strict=True)

    def within(self, lo: int, hi: int) -> list[Observed]:
        """Those with a key within [lo, hi]."""
        return list(self.between(self.before(lo), self.until(hi)))

    def last_until(self, key: int) -> Iterator[Observed]:
        """Those with this key or a smaller one, from the last to the first."""
        for place in range(self.until(key) - 1, -1, -1):
            yield self.at(place)

    def at(self, place: int) -> Observed:
        """The one at this place."""
        number, at = divmod(place, BLOCK)
        return self._block(number)[at]

    @cached_property
    def highest_term(self) -> Ints:
        """Of each the highest term of all up to it."""
        found: Ints = np.maximum.accumulate(self.column("term"))
        return found

    @cached_property
    def _commits(self) -> Ints:
        found: Ints = np.maximum.accumulate(self.column("commit"))
        return found

    def furthest(self, end: int) -> int | None:
        """The place of the first poll with the highest commit of those before ``end``; None: none reports any."""
        highest = int(self._commits[end - 1]) if end else -1
        return None if highest < 0 else int(np.searchsorted(self._commits, highest))

    def _block(self, number: int) -> list[Observed]:
        found = self._blocks.get(number)
        if found is None:
            if len(self._blocks) >= BLOCKS_MAX:
                del self._blocks[next(iter(self._blocks))]
            places = self._places[number * BLOCK : (number + 1) * BLOCK].tolist()
            found = self._blocks[number] = list(self._table.rows(places))
        return found
