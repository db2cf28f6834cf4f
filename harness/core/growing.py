"""A column of numbers that grows part by part, in place and in as few bytes as its numbers need.

Guarantees: the numbers of all parts in order. A fold that keeps its parts and joins them at the end needs twice the
memory, and leaves gaps that the process keeps. Out of scope: numbers beyond 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FIRST = 4096
"""The room that a column begins with."""
SPARE = 1 / 8
"""A full column grows by this fraction of it."""
_KINDS = tuple((kind, int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in (np.int8, np.int16, np.int32))


class Growing:
    """``counts``: the numbers only count or name something, so 8, 16 or 32 bits may do: they are compared, and never
    added to."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self._held: Any = None
        self._size = 0

    def extend(self, part: Any) -> None:
        """The next numbers."""
        kind = _fitting(part) if self._counts else part.dtype
        if self._held is None:
            self._held = np.empty(FIRST, dtype=kind)
        kind = np.promote_types(self._held.dtype, kind)
        if kind != self._held.dtype:
            self._held = self._held.astype(kind)
        size = self._size + len(part)
        if size > len(self._held):
            self._held.resize(max(size, int(len(self._held) * (1 + SPARE)) + 1), refcheck=False)
        self._held[self._size : size] = part
        self._size = size

    def column(self) -> Any:
        """All of them. No more can follow."""
        if self._held is None:
            return np.empty(0, dtype=np.int64)
        self._held.resize(self._size, refcheck=False)
        return self._held


def _fitting(part: Any) -> Any:
    """The smallest type for these numbers."""
    if part.dtype == np.bool_ or not len(part):
        return part.dtype if part.dtype == np.bool_ else np.int8
    low, high = int(part.min()), int(part.max())
    return next((np.dtype(kind) for kind, least, most in _KINDS if least <= low and high <= most), part.dtype)
