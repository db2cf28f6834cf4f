"""What nodes traced, by name: views of those trace events only that a checker looks at.

Most trace events concern few checkers, and of a long history only a part fits into memory, so each checker names what
it reads. Guarantees: each node's events are in its own order. Out of scope: what the events mean (``facts``).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter

import numpy as np

from dethrone.harness.core.chunks import Chunk, by_node
from dethrone.harness.core.columns import Ints, changes
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import View

Who = tuple[str, str]
"""(group, node)."""
ByNode = Mapping[Who, Sequence[Traced]]


class _Named:
    def __init__(self, name: str, kept: Callable[[Traced], bool] | None) -> None:
        self._name, self._kept = name, kept
        self._found: list[Traced] = []

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        events = chunk.traced((self._name,))
        self._found += events if self._kept is None else filter(self._kept, events)

    def done(self) -> Sequence[Traced]:
        """All parts, in file order."""
        return sorted(self._found, key=attrgetter("seq"))


@functools.cache
def named(name: str, kept: Callable[[Traced], bool] | None = None) -> View[Sequence[Traced]]:
    """The view of all trace events with this name; ``kept``: of those only that it accepts."""
    return View(lambda: _Named(name, kept))


class _Traces:
    def __init__(self, names: frozenset[str] | None, once: str = "") -> None:
        self._names, self._once = names, once
        """The names of the events, None: all; and the one of which the first in a row is enough."""
        self._found: dict[Who, list[Traced]] = defaultdict(list)

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        table, words = chunk.table, chunk.words.words
        once = words.index(self._once) if self._once in words else -1
        wanted = []
        among = None if self._names is None else chunk.words.among(table.name, self._names)
        for who, places in by_node(chunk, among):
            name = table.name[places]
            first = np.zeros(len(places), dtype=np.bool_)
            first[changes(name, table.incarnation[places], table.term[places])] = True
            wanted.append((self._found[who], places[first | (name != once)]))
        collect(chunk, wanted)

    def done(self) -> ByNode:
        """All parts."""
        return dict(self._found)


def collect(chunk: Chunk, wanted: Sequence[tuple[list[Traced], Ints]]) -> None:
    """Append to each list the trace events at its places of the chunk, which are made all at once."""
    if wanted:
        events = iter(chunk.traced_at(np.concatenate([places for _, places in wanted])))
        for found, places in wanted:
            found.extend(islice(events, len(places)))


@functools.cache
def traces(*names: str, once: str = "") -> View[ByNode]:
    """The view of trace events with these names: (group, node) → its events.

    ``once``: of several in a row with this name, from one incarnation and term, the first is enough.
    """
    return View(lambda: _Traces(frozenset(names), once))


class _Reporters:
    def __init__(self) -> None:
        self._found: dict[Who, None] = {}

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        for who, _ in by_node(chunk):
            self._found[who] = None

    def done(self) -> Sequence[Who]:
        """All parts."""
        return list(self._found)


reporters: View[Sequence[Who]] = View(_Reporters)
"""(group, node) of all that traced anything, in order of appearance."""


everything: View[ByNode] = View(lambda: _Traces(None))
"""(group, node) → all its events. Of a long history that needs much memory."""
