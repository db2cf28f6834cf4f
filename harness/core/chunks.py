"""Parts of a history in their order, which views are folded out of, without an object for each event.

Two forms answer alike: events in memory (``EventChunk``) and columns (``row_chunks``), which make objects of those
events only that are asked for. Guarantees: events in the order of the history, but the trace events of a node in its
own order, ``(incarnation, n)``. Rows cannot be put in order, so that which makes chunks of rows sees to it
(``long_history``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from dethrone.harness.core.columns import (
    Bools,
    Dictionary,
    Ints,
    ObservedColumns,
    TracedColumns,
    changes,
    observed_columns,
    traced_columns,
)
from dethrone.harness.core.events import Event, Invoke, Observed, Return, Traced
from dethrone.harness.core.log_columns import LogColumns
from dethrone.harness.core.op_columns import Asked, Returned, asked_of, returned_of

E = TypeVar("E", bound=Event)
_OWN_ORDER = attrgetter("incarnation", "n")
ALL = slice(None)


class Note(NamedTuple):
    """What a trace event says, without its time. ``log_index``: the log index that its data name, if they name one;
    ``data``: None where it was not asked for."""

    seq: int
    group: str
    node: str
    incarnation: int
    name: str
    term: int
    shell: bool
    log_index: int | None
    data: Mapping[str, Any] | None


class Chunk(Protocol):
    """Consecutive events of a history."""

    def without(self, kinds: Collection[type[Event]]) -> Mapping[type, Sequence[Any]]:
        """Type → its events, of all other types."""

    def of(self, kind: type[E]) -> Sequence[E]:
        """Those of one type."""

    def asked_to(self, functions: Collection[str]) -> Sequence[Invoke]:
        """Invocations that do one of these."""

    def traced(self, names: Collection[str]) -> Sequence[Traced]:
        """Trace events with one of these names."""

    def traced_at(self, places: Ints) -> Sequence[Traced]:
        """Trace events by their places in ``table``."""

    def notes(self, names: Collection[str], indexed: Collection[str], within: slice = ALL) -> Iterable[Note]:
        """``traced`` in short, of them those ``within``; events with the names ``indexed`` have data only where these
        name no index."""

    def logs(self, names: Collection[str]) -> LogColumns | None:
        """The columns of ``notes``; None: these are objects already."""

    @property
    def words(self) -> Dictionary:
        """The words of ``table``."""

    @property
    def table(self) -> TracedColumns:
        """The columns of all trace events."""

    @property
    def by_node(self) -> list[tuple[tuple[str, str], Ints]]:
        """(group, node) → the places of its trace events in ``table``, in order of appearance."""

    def observed_columns(self, words: Dictionary) -> ObservedColumns:
        """The columns of all observations."""

    def asked(self, words: Dictionary) -> Asked:
        """The columns of all invocations."""

    def returned(self, words: Dictionary) -> Returned:
        """The columns of all returns."""

    def answers(self, naming: str) -> Iterable[tuple[int, str, Mapping[str, Any]]]:
        """``seq``, group and value of each return that is ``ok`` with a value that has this key."""

    @property
    def last_ns(self) -> int:
        """The largest ``t``; 0 without an event."""


class EventChunk:
    """Events in memory."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._events = events

    @cached_property
    def by_type(self) -> dict[type, list[Any]]:
        """Type → its events."""
        found: dict[type, list[Any]] = defaultdict(list)
        for event in self._events:
            found[type(event)].append(event)
        return found

    @cached_property
    def _traced(self) -> list[Traced]:
        return in_own_order(self.by_type.get(Traced, []))

    @cached_property
    def _by_name(self) -> dict[str, list[Traced]]:
        found: dict[str, list[Traced]] = defaultdict(list)
        for event in self._traced:
            found[event.name].append(event)
        return found

    def without(self, kinds: Collection[type[Event]]) -> Mapping[type, Sequence[Any]]:
        """See ``Chunk``."""
        return {kind: events for kind, events in self.by_type.items() if kind not in kinds}

    def of(self, kind: type[E]) -> list[E]:
        """See ``Chunk``."""
        return self.by_type.get(kind, [])

    def asked_to(self, functions: Collection[str]) -> list[Invoke]:
        """See ``Chunk``."""
        return [event for event in self.of(Invoke) if event.f in functions]

    def traced(self, names: Collection[str]) -> list[Traced]:
        """See ``Chunk``."""
        held = [name for name in names if name in self._by_name]
        if len(held) < 2:
            return self._by_name[held[0]] if held else []
        wanted = frozenset(held)
        return [event for event in self._traced if event.name in wanted]

    def traced_at(self, places: Ints) -> list[Traced]:
        """See ``Chunk``."""
        return [self._traced[place] for place in places.tolist()]

    def notes(self, names: Collection[str], indexed: Collection[str], within: slice = ALL) -> Iterator[Note]:
        """See ``Chunk``."""
        del indexed
        wanted = (event for event in self._traced if event.name in names)
        for event in islice(wanted, within.start, within.stop):
            data = event.data
            index = data.get("index")
            known = index if type(index) is int else None
            life, shell = event.incarnation, event.source == "shell"
            yield Note(event.seq, event.group, event.node, life, event.name, event.term, shell, known, data)

    def logs(self, names: Collection[str]) -> LogColumns | None:
        """See ``Chunk``."""
        del names
        return None

    @cached_property
    def words(self) -> Dictionary:
        """See ``Chunk``."""
        return Dictionary()

    @cached_property
    def table(self) -> TracedColumns:
        """See ``Chunk``."""
        return traced_columns(self._traced, self.words)

    @cached_property
    def by_node(self) -> list[tuple[tuple[str, str], Ints]]:
        """See ``Chunk``."""
        return nodes_of(self.table, self.words)

    def observed_columns(self, words: Dictionary) -> ObservedColumns:
        """See ``Chunk``."""
        return observed_columns(self.of(Observed), words)

    def asked(self, words: Dictionary) -> Asked:
        """See ``Chunk``."""
        return asked_of(self.of(Invoke), words)

    def returned(self, words: Dictionary) -> Returned:
        """See ``Chunk``."""
        return returned_of(self.of(Return), words)

    def answers(self, naming: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """See ``Chunk``."""
        for back in self.of(Return):
            if back.status == "ok" and isinstance(back.value, Mapping) and naming in back.value:
                yield back.seq, back.group, back.value

    @cached_property
    def last_ns(self) -> int:
        """See ``Chunk``."""
        return max((event.t for event in self._events), default=0)


def in_own_order(traced: list[Traced]) -> list[Traced]:
    """The same events; those of each node take the places that it has, in its own order."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for event in traced:
        who, at = (event.group, event.node), (event.incarnation, event.n)
        if at < last.get(who, at):
            break
        last[who] = at
    else:
        return traced
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, event in enumerate(traced):
        places[event.group, event.node].append(place)
    out = list(traced)
    for mine in places.values():
        for place, event in zip(mine, sorted((traced[place] for place in mine), key=_OWN_ORDER), strict=True):
            out[place] = event
    return out


def by_node(chunk: Chunk, among: Bools | None = None) -> list[tuple[tuple[str, str], Ints]]:
    """(group, node) → the places of its trace events in ``chunk.table``; ``among``: of these rows only."""
    if among is None:
        return chunk.by_node
    picked = ((who, places[among[places]]) for who, places in chunk.by_node)
    return [(who, places) for who, places in picked if len(places)]


def nodes_of(table: TracedColumns, words: Dictionary) -> list[tuple[tuple[str, str], Ints]]:
    """(group, node) → the places of its rows, in order of appearance."""
    who, word = table.group.astype(np.int64) * len(words) + table.node, words.word
    order = np.argsort(who, kind="stable")
    bounds = [*changes(who[order]).tolist(), len(order)]
    parts = [order[lo:hi] for lo, hi in pairwise(bounds)]
    parts.sort(key=lambda places: int(places[0]))
    return [((word(int(table.group[at[0]])) or "", word(int(table.node[at[0]])) or ""), at) for at in parts]
