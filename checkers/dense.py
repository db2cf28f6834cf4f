"""Rows of whole numbers by index, in arrays: a few bytes an entry of a log instead of hundreds.

Guarantees: any index may be put; those that follow each other cost 8 bytes a number. Out of scope: numbers beyond 64
bits.
"""

from __future__ import annotations

from array import array

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
