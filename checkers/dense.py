"""Rows of whole numbers by index, in arrays: a few bytes an entry of a log instead of hundreds.

Guarantees: any index may be put; those that follow each other cost 8 bytes a number, and many of them are compared and
stored at once (``Patch``). Out of scope: numbers beyond 64 bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from dethrone.harness.core.columns import Bools, Ints

Row = tuple[int, ...]


class Dense:
    """Index → a row of ``width`` numbers."""

    __slots__ = ("_others", "columns", "first")

    def __init__(self, width: int) -> None:
        self.first = 0
        self.columns = tuple(array("q") for _ in range(width))
        """Of the rows from index ``first`` on, which follow each other."""
        self._others: dict[int, Row] = {}

    def get(self, index: int) -> Row | None:
        """The row at this index."""
        place = index - self.first
        if 0 <= place < len(self.columns[0]):
            return tuple([column[place] for column in self.columns])
        return self._others.get(index)

    def cell(self, index: int, column: int) -> int | None:
        """One number of this row."""
        place, numbers = index - self.first, self.columns[column]
        if 0 <= place < len(numbers):
            return numbers[place]
        row = self._others.get(index)
        return None if row is None else row[column]

    def put(self, index: int, row: Row) -> None:
        """Store a row, in place of one that is there."""
        place, size = index - self.first, len(self.columns[0])
        if not size:
            self.first, place = index, 0
        if place == size and index not in self._others:
            for column, number in zip(self.columns, row, strict=True):
                column.append(number)
        elif 0 <= place < size:
            for column, number in zip(self.columns, row, strict=True):
                column[place] = number
        else:
            self._others[index] = row

    @property
    def scattered(self) -> bool:
        """Whether a row stands outside the arrays."""
        return bool(self._others)

    def slice(self, first: int, end: int) -> list[Ints] | None:
        """The columns of the rows from ``first`` up to and without ``end``; None: not all stand in arrays."""
        lo, hi = first - self.first, end - self.first
        if lo < 0 or hi > len(self.columns[0]):
            return None
        return [np.array(memoryview(column)[lo:hi], dtype=np.int64) for column in self.columns]


class Patch:
    """Rows from index ``first`` up to and without ``end``, to which many are added at once before they are stored.

    The last column is the rank of who stored the row: of equal rows that of the lowest rank stays, then the first. The
    first ``compared`` columns are what must be equal.
    """

    def __init__(self, dense: Dense, first: int, end: int, *, compared: int) -> None:
        self.dense, self._first, self._compared = dense, first, compared
        size = len(dense.columns[0])
        stored_end = dense.first + size if size else first
        self.fits = not dense.scattered and (not size or dense.first <= first <= stored_end)
        """Whether these rows can stand in the arrays: they follow those that are there."""
        self.columns = tuple(np.zeros(end - first, dtype=np.int64) for _ in dense.columns)
        self._known: Bools = np.zeros(end - first, dtype=np.bool_)
        self.held = max(0, min(end, stored_end) - first) if self.fits else 0
        """How many of them were there before."""
        if self.held:
            for mine, stored in zip(self.columns, dense.slice(first, first + self.held) or (), strict=True):
                mine[: self.held] = stored
            self._known[: self.held] = True

    def add(self, first: int, rows: Sequence[Ints], rank: int) -> bool:
        """Add rows from index ``first`` on, without their rank. False: one of them is not equal to what is there."""
        at = slice(first - self._first, first - self._first + len(rows[0]))
        known = self._known[at]
        for mine, theirs in zip(rows[: self._compared], self.columns, strict=False):
            if bool(np.any((mine != theirs[at]) & known)):
                return False
        better = ~known | (self.columns[-1][at] > rank)
        for mine, theirs in zip(rows, self.columns, strict=False):
            theirs[at][better] = mine[better]
        self.columns[-1][at][better] = rank
        known[:] = True
        return True

    def __len__(self) -> int:
        return len(self._known)

    @property
    def whole(self) -> bool:
        """Whether all rows are there."""
        return bool(self._known.all())

    def store(self) -> None:
        """Put them where they belong."""
        dense = self.dense
        if not dense.columns[0]:
            dense.first = self._first
        at = self._first - dense.first
        for stored, mine in zip(dense.columns, self.columns, strict=True):
            stored[at : at + self.held] = array("q", mine[: self.held].tobytes())
            stored.frombytes(mine[self.held :].tobytes())
