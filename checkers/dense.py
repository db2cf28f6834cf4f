"""Rows of whole numbers by index, in arrays: a few bytes an entry of a log instead of hundreds.

Guarantees: any index may be put; those that follow each other cost 8 bytes a number. Out of scope: numbers beyond 64
bits.
"""

from __future__ import annotations

from array import array

Row = tuple[int, ...]


class Dense:
    """Index → a row of ``width`` numbers."""

    __slots__ = ("_columns", "_first", "_others")

    def __init__(self, width: int) -> None:
        self._first = 0
        self._columns = tuple(array("q") for _ in range(width))
        self._others: dict[int, Row] = {}
        """Rows away from those that follow each other."""

    def get(self, index: int) -> Row | None:
        """The row at this index."""
        place = index - self._first
        if 0 <= place < len(self._columns[0]):
            return tuple([column[place] for column in self._columns])
        return self._others.get(index)

    def put(self, index: int, row: Row) -> None:
        """Store a row, in place of one that is there."""
        place, size = index - self._first, len(self._columns[0])
        if not size:
            self._first, place = index, 0
        if place == size and index not in self._others:
            for column, number in zip(self._columns, row, strict=True):
                column.append(number)
        elif 0 <= place < size:
            for column, number in zip(self._columns, row, strict=True):
                column[place] = number
        else:
            self._others[index] = row
