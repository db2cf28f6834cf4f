"""What a loss of power would leave of one file: its synced content, as what has to be taken back of the present one.

Guarantees: pure but for reading the file's present content; costs nothing for bytes behind the synced end, and one read
for synced bytes that are about to be replaced. Out of scope: names, and when a change of the length is durable
(``volume``).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator

Reader = Callable[[int, int], bytes]
"""(offset, length) → the present bytes there, as far as there are any."""
ZEROS_MAX = 1 << 20


class Unsynced:
    """Changes of one file since its last sync. ``size``: the synced length."""

    __slots__ = ("_at", "_kept", "cuts", "first", "into", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._at: list[int] = []
        self._kept: list[bytes | int] = []
        """Synced bytes that are no longer there, by offset; a number: that many zeros."""
        self.cuts: list[int] = []
        """New lengths that became durable without a sync of the file."""
        self.first: tuple[int, int] | None = None
        """Offset and length of the first write that is not synced: what may be torn."""
        self.into: Unsynced | None = None
        """What took these changes over."""

    def writing(self, at: int, length: int, read: Reader) -> None:
        """Bytes are about to be written."""
        if self.first is None and length:
            self.first = (at, length)
        if at < self.size:
            self._keep(at, min(at + length, self.size), read)

    def cutting(self, length: int, read: Reader) -> None:
        """The file is about to get this length."""
        if length < self.size:
            self._keep(length, self.size, read)

    def cut_is_durable(self, length: int) -> None:
        """The file's new length is durable, although its content is not."""
        self.cuts.append(length)
        if self.first is not None and sum(self.first) > length:
            self.first = (self.first[0], length - self.first[0]) if self.first[0] < length else None
        if length < self.size:
            self._drop(length)
        elif length > self.size:
            self._at.append(self.size)
            self._kept.append(length - self.size)
        self.size = length

    def merged(self, newer: Unsynced) -> Unsynced:
        """These changes and ``newer`` ones, made after a sync that failed."""
        for at, kept in zip(newer._at, newer._kept):  # noqa: B905 - Python 3.9; they are as long as each other
            length = kept if isinstance(kept, int) else len(kept)
            end = min(at + length, self.size)
            if at < end:
                self._keep(at, end, _reader_of(at, kept))
        for length in newer.cuts:
            self.cut_is_durable(length)
        self.first = self.first or newer.first
        newer.into = self
        return self

    def synced(self) -> Iterator[tuple[int, bytes]]:
        """Offset and bytes of all that has to be written back, in pieces. The length is apart (``size``)."""
        for at, kept in zip(self._at, self._kept):  # noqa: B905 - as above
            if isinstance(kept, bytes):
                yield at, kept
                continue
            for start in range(at, at + kept, ZEROS_MAX):
                yield start, bytes(min(ZEROS_MAX, at + kept - start))

    def _keep(self, start: int, end: int, read: Reader) -> None:
        """Keep the present bytes of this range where none are kept yet."""
        at = start
        index = max(0, bisect.bisect_right(self._at, start) - 1)
        while at < end:
            while index < len(self._at) and self._end(index) <= at:
                index += 1
            following = self._at[index] if index < len(self._at) else end
            if following <= at:
                at = self._end(index)
                continue
            length = min(following, end) - at
            found = read(at, length)
            self._at.insert(index, at)
            self._kept.insert(index, found + bytes(length - len(found)))
            at += length

    def _end(self, index: int) -> int:
        kept = self._kept[index]
        return self._at[index] + (kept if isinstance(kept, int) else len(kept))

    def _drop(self, length: int) -> None:
        """Nothing from this offset on is to be written back."""
        while self._at and self._at[-1] >= length:
            self._at.pop()
            self._kept.pop()
        if self._at and self._end(-1 + len(self._at)) > length:
            kept, rest = self._kept[-1], length - self._at[-1]
            self._kept[-1] = rest if isinstance(kept, int) else kept[:rest]


def _reader_of(at: int, kept: bytes | int) -> Reader:
    def read(start: int, length: int) -> bytes:
        return bytes(length) if isinstance(kept, int) else kept[start - at : start - at + length]

    return read
