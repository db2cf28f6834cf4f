"""Views of a history that every reader of columns asks for: see ``history.View``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dethrone.harness.core.chunks import Chunk
from dethrone.harness.core.clock import Span
from dethrone.harness.core.columns import Dictionary, ObservedColumns
from dethrone.harness.core.events import Observed
from dethrone.harness.core.history import View


@dataclass(frozen=True, slots=True)
class Columns:
    """The observations of one history as columns, and the dictionary of their words."""

    words: Dictionary
    observed: ObservedColumns

    def rows(self, places: Iterable[int] | None = None) -> Iterator[Observed]:
        """The observations at these places, as events; default: all."""
        table = self.observed
        within = slice(None) if places is None else np.asarray(list(places), dtype=np.int64)
        names = ("seq", "t", "lo", "hi", "incarnation", "term", "log_term", "log_index", "commit", "leads", "atomic")
        numbers = [getattr(table, name)[within].tolist() for name in names]
        coded = [
            self.words.spelled(getattr(table, name)[within])
            for name in ("group", "node", "role", "leader", "voted_for")
        ]
        for (seq, t, lo, hi, incarnation, term, log_term, log_index, commit, leads, atomic), (
            group,
            node,
            role,
            leader,
            voted_for,
        ) in zip(zip(*numbers, strict=True), zip(*coded, strict=True), strict=True):
            yield Observed(
                seq=seq,
                t=t,
                group=group or "",
                span=Span(lo, hi),
                node=node or "",
                incarnation=incarnation,
                role=role or "",
                leads=leads,
                term=term,
                leader=leader,
                voted_for=voted_for,
                log_end=None if log_index < 0 else (log_term, log_index),
                commit=None if commit < 0 else commit,
                atomic=atomic,
            )

    def at(self, seqs: Sequence[int]) -> Iterator[Observed]:
        """The observations with these ``seq``, as events."""
        return self.rows(np.searchsorted(self.observed.seq, np.asarray(seqs, dtype=np.int64)).tolist())


COUNTS = frozenset({"seq", "incarnation", "term", "log_term", "log_index", "commit"})
"""Fields that are compared, and never added to."""


class _Columns:
    def __init__(self) -> None:
        self._words = Dictionary()
        self._parts: dict[str, list[Any]] = {one.name: [] for one in fields(ObservedColumns)}

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        part = chunk.observed_columns(self._words)
        for name, parts in self._parts.items():
            parts.append(getattr(part, name))

    def done(self) -> Columns:
        """All parts, joined field by field, so that never two of each are in memory; in as few bytes as they need."""
        table = {name: _short(name, np.concatenate(self._parts.pop(name))) for name in list(self._parts)}
        return Columns(self._words, ObservedColumns(**table))


def _short(name: str, column: Any) -> Any:
    """Numbers that only count need no more than 32 bits, but in very odd histories."""
    small = name in COUNTS and len(column) and column.min() >= -(2**31) and column.max() < 2**31
    return column.astype(np.int32) if small else column


columns: View[Columns] = View(_Columns)
"""The observations as columns."""


class _LastNs:
    def __init__(self) -> None:
        self._last = 0

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        self._last = max(self._last, chunk.last_ns)

    def done(self) -> int:
        """The largest of all."""
        return self._last


last_ns: View[int] = View(_LastNs)
"""The largest ``t`` of all events; 0 without an event."""
