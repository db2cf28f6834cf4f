"""Views of a history that every reader of columns asks for: see ``history.View``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dethrone.harness.core.chunks import Chunk
from dethrone.harness.core.clock import Span
from dethrone.harness.core.columns import Dictionary, ObservedColumns
from dethrone.harness.core.events import Observed
from dethrone.harness.core.growing import Growing
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


TIMES = frozenset({"t", "lo", "hi"})
"""Fields that are added to; the others only count or name something."""


class _Columns:
    def __init__(self) -> None:
        self._words = Dictionary()
        self._table = {one.name: Growing(counts=one.name not in TIMES) for one in fields(ObservedColumns)}

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        part = chunk.observed_columns(self._words)
        for name, column in self._table.items():
            column.extend(getattr(part, name))

    def done(self) -> Columns:
        """All parts."""
        return Columns(self._words, ObservedColumns(**{name: column.column() for name, column in self._table.items()}))


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
