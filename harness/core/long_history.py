"""A history that is too long for memory: read part by part, at each request.

Guarantees: it is the same history as the one in memory, event by event, and whole: its count and digest fit its ``end``
record. Of a run that was killed it is all that was written, and not complete. Page checksums are verified while it is
read. What cannot be read so is read into memory: a history with a damaged segment, of an older form, or in which a
node's trace is out of order. Rare kinds of events stay in memory; the others are read again when they are asked for.
"""

from __future__ import annotations

import bisect
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from dethrone.harness.core import parquet, rows
from dethrone.harness.core.chunks import Chunk, EventChunk, by_node
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, Begin, End, Event, Invoke, Observed, Return, Traced
from dethrone.harness.core.freed import give_back
from dethrone.harness.core.history import BLOCK_EVENTS, History, LineDigest, Told, View
from dethrone.harness.core.views import columns

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=Event)
PARTS = 16
"""How many parts are read before freed memory goes back."""
TABLES_MAX = 8
"""Row groups that stay in memory for single events."""
FREQUENT: frozenset[type[Event]] = frozenset({Invoke, Observed, Return, Traced})
"""Types of most events, which are not kept."""


class Part(NamedTuple):
    """Consecutive events from ``first`` on: a file of columns, or events that are in memory.

    ``lines``: the digest of their lines; ``groups``: where the row groups of a file begin.
    """

    first: int
    size: int
    source: Path | Sequence[Any]
    lines: str
    groups: tuple[int, ...] = ()

    def chunks(self) -> Iterator[Chunk]:
        """All of it."""
        if isinstance(self.source, Path):
            yield from parquet.chunks_of(self.source)
        else:
            yield EventChunk(self.source)


class _Order:
    """Whether the trace events of every node come in its own order, chunk after chunk."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[int, int]] = {}
        """(group, node) → (incarnation, n) of its last event."""

    def keeps(self, chunk: Chunk) -> bool:
        """Whether this chunk keeps it."""
        for who, places in by_node(chunk):
            life, n = chunk.table.incarnation[places], chunk.table.n[places]
            first = self._last.get(who, (int(life[0]), int(n[0])))
            life, n = np.append(first[0], life), np.append(first[1], n)
            if bool(np.any((life[1:] < life[:-1]) | ((life[1:] == life[:-1]) & (n[1:] < n[:-1])))):
                return False
            self._last[who] = int(life[-1]), int(n[-1])
        return True


class _Rare:
    """The fold of what stays in memory."""

    def __init__(self) -> None:
        self._found: dict[type, list[Any]] = defaultdict(list)
        self._order = _Order()
        self._ordered = True

    def take(self, chunk: Chunk) -> None:
        """Take the next part."""
        self._ordered = self._ordered and self._order.keeps(chunk)
        for kind, events in chunk.without(FREQUENT).items():
            self._found[kind] += events

    def done(self) -> dict[type, list[Any]] | None:
        """Type → its events; None: a node's trace is out of order."""
        return self._found if self._ordered else None


_rare: View[dict[type, list[Any]] | None] = View(_Rare)


class LongHistory(History):
    """See the module. ``slowly`` reads it into memory."""

    def __init__(self, parts: Sequence[Part], slowly: Callable[[], History], *, damage: str | None = None) -> None:
        super().__init__((), damage=damage)
        self._parts = parts
        self._tables: dict[tuple[Path, int], Any] = {}
        """Row groups that single events were read from."""
        self._slowly = slowly
        self._kept: dict[type, list[Any]] = {}
        self._firsts = [part.first for part in parts]
        self._count = parts[-1].first + parts[-1].size
        self._told: Told | None = None
        self._whole: History | None = None
        """The same in memory, once it turned out that it must be there."""
        last = self.at(self._count - 1)
        self.end = last if type(last) is End else None

    @property
    def events(self) -> Sequence[Any]:
        """All events, in memory."""
        return self._in_memory().events

    @property
    def begin(self) -> Begin:
        """The first record."""
        first: Begin = self.at(0)
        return first

    def of(self, kind: type[E]) -> list[E]:
        """All events of one type, in file order; those of frequent types are read from disk."""
        if self._whole is None and kind not in FREQUENT:
            kept = _rare(self)
            if kept is not None:
                return kept.get(kind, [])
        if self._whole is not None:
            return self._whole.of(kind)
        if kind is Observed:
            return list(columns(self).rows())  # type: ignore[arg-type]
        if kind not in self._kept:
            self._kept[kind] = [event for chunk in self.chunks() for event in chunk.of(kind)]
        found: list[E] = self._kept[kind]
        return found

    def at(self, seq: int) -> Any:
        """The event with this ``seq``."""
        if self._whole is not None:
            return self._whole.at(seq)
        seq = range(self._count)[seq]
        part = self._parts[bisect.bisect_right(self._firsts, seq) - 1]
        if not isinstance(part.source, Path):
            return part.source[seq - part.first]
        place = seq - part.first
        group = bisect.bisect_right(part.groups, place) - 1
        if (part.source, group) not in self._tables:
            if len(self._tables) >= TABLES_MAX:
                del self._tables[next(iter(self._tables))]
            self._tables[part.source, group] = parquet.group_at(part.source, group)
        row = self._tables[part.source, group].slice(place - part.groups[group], 1)
        return rows.event_of(row.to_pylist()[0])

    def chunks(self) -> Iterator[Chunk]:
        """All of it, part by part."""
        if self._whole is not None:
            yield from self._whole.chunks()
            return
        for number, part in enumerate(self._parts, 1):
            if self._told is not None:
                self._told("events", part.first, self._count)
            yield from part.chunks()
            if number % PARTS == 0:
                give_back()

    def prepare(self, views: Iterable[View[Any]], told: Told | None = None) -> None:
        """Make these views in one pass. A view that cannot be made raises its error when a checker asks for it."""
        self._told = told
        with contextlib.suppress(Exception):
            self.fold(views)
        self._told = None

    def fold(self, views: Iterable[View[Any]]) -> None:
        """Make those of these views that are not there yet, in one pass."""
        wanted = tuple(views)
        if self._whole is None:
            try:
                super().fold((_rare, *wanted))
            except HistoryError:  # it was whole when it was opened
                self.views.clear()
                self._in_memory()
            if self.views.get(_rare) is None and self._whole is None:
                self.views.clear()
                self._in_memory()
            give_back()
        super().fold(wanted)

    def __len__(self) -> int:
        return self._count if self._whole is None else len(self._whole)

    def __iter__(self) -> Iterator[Any]:
        if self._whole is not None:
            yield from self._whole
            return
        for part in self._parts:
            yield from parquet.stored_events(part.source)[1] if isinstance(part.source, Path) else part.source

    def _in_memory(self) -> History:
        if self._whole is None:
            self._whole = self._slowly()
            self.end, self.damage = self._whole.end, self._whole.damage
        return self._whole


def of_columns(parts: list[Part], slowly: Callable[[], History]) -> LongHistory | None:
    """The history in these parts, if they are several and all of it."""
    whole = len(parts) > 1 and begin_of(parts) is not None and ended(parts) and fit(parts)
    return LongHistory(parts, slowly) if whole else None


def blocks_of(paths: Sequence[Path]) -> list[Part]:
    """These files of columns as parts of one history; none if they do not follow each other.

    HistoryError: one of them cannot be read.
    """
    parts: list[Part] = []
    first = 0
    for path in paths:
        block = parquet.block_of(path, first)
        if block is None:
            return []
        parts.append(Part(first, block.rows, path, block.lines, block.groups))
        first += block.rows
    return parts


def begin_of(parts: Sequence[Part]) -> Begin | None:
    """The first record of these parts, if they are consecutive blocks of one history from its beginning on."""
    count = 0
    for part in parts:
        if part.first != count or part.first % BLOCK_EVENTS or not part.size or not part.lines:
            return None
        count += part.size
    begin = _event(parts[0], 0)
    return begin if type(begin) is Begin and begin.schema <= SCHEMA else None


def ended(parts: Sequence[Part]) -> bool:
    """Whether the last event of these is an ``end`` record."""
    return type(_event(parts[-1], -1)) is End


def fit(parts: Sequence[Part]) -> bool:
    """Whether these blocks fit the ``end`` record that is their last event."""
    digest = LineDigest()
    for part in parts:
        digest.block(part.lines)
    end = _event(parts[-1], -1)
    return bool(end.count == sum(part.size for part in parts) - 1 and end.digest == digest.value())


def _event(part: Part, place: int) -> Any:
    return parquet.event_at(part.source, place) if isinstance(part.source, Path) else part.source[place]
