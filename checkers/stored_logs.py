"""The log of one node as its shell witnessed it, and what the node's memory held; entries that nodes share stand once.

Guarantees: some fifty bytes an entry, however many nodes store it; a log with a gap is known behind the gap only. Out
of scope: comparing logs (``replicas``).
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from dethrone.checkers.dense import Dense
from dethrone.harness.core.chunks import Note
from dethrone.harness.core.columns import Ints, changes
from dethrone.harness.core.rolling import roll

UNKNOWN = -1
"""The hash of a prefix that is not known; ``roll`` never returns it."""


@dataclass(frozen=True, slots=True)
class Regression:
    """One node's commit or log went where it must not. ``seqs``: the events that show it."""

    what: str
    group: str
    node: str
    term: int
    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeaderEnd:
    """The log end (term, index) with which ``node`` became leader of ``term``: its last entry of an older term."""

    group: str
    node: str
    term: int
    end: tuple[int, int]
    seq: int


class Prefixes:
    """All entries of one group's logs, each where it was stored first: by the node of the lowest rank."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The group's nodes by their rank: in order of appearance."""
        self._terms: dict[int, Dense] = {}
        self.rivals: dict[tuple[int, int], tuple[int, ...]] = {}
        """(index, term) → another entry there, of a node of a lower rank: which others are compared with."""

    def dense(self, term: int) -> Dense:
        """The rows of all entries of this term."""
        return self._terms.get(term) or Dense(4)

    def hold(self, term: int, dense: Dense) -> None:
        """These are its rows."""
        self._terms[term] = dense

    def get(self, index: int, term: int) -> tuple[int, ...] | None:
        """(hash of the prefix, number of the payload, seq, rank) of the entry of this term at this index."""
        rows = self._terms.get(term)
        return None if rows is None else rows.get(index)

    def same(self, index: int, term: int, roll: int, rank: int) -> bool:
        """Whether this prefix, which is known, is the one that a node of no higher rank stored first. Quick."""
        rows = self._terms.get(term) if not self.rivals else None
        return rows is not None and rows.cell(index, 0) == roll and (rows.cell(index, 3) or 0) <= rank

    def put(self, index: int, term: int, row: tuple[int, ...]) -> None:
        """Store it."""
        rows = self._terms.get(term)
        if rows is None:
            rows = self._terms[term] = Dense(4)
        rows.put(index, row)


class Log:
    """One node's log, as far as it is known: entries behind ``offset``; what others store, too, is looked up there."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self._reset(0)

    def _reset(self, offset: int) -> None:
        self.offset = self.end = offset
        """``end``: the last index."""
        self.last = 0 if offset == 0 else UNKNOWN
        """The hash of the whole log."""
        self._starts: list[int] = []
        self._terms: list[int] = []
        """Where each stretch of entries of one term begins, and that term."""
        self._own: dict[int, tuple[int, int]] = {}
        """Index → (hash of the prefix, number of the payload) where another entry stands first in ``prefixes``."""

    def term(self, index: int) -> int:
        """The term of an entry that is there."""
        if index >= self._starts[-1]:
            return self._terms[-1]
        return self._terms[bisect.bisect_right(self._starts, index) - 1]

    def prefix(self, index: int) -> int:
        """The hash of the prefix that ends with this entry, which is there; UNKNOWN: not known."""
        if index == self.end:
            return self.last
        found = self.at(index)
        return UNKNOWN if found is None else found[2]

    def at(self, index: int) -> tuple[int, int, int] | None:
        """(term, number of the payload, hash of the prefix) of this entry, if known."""
        if not self.offset < index <= self.end:
            return None
        term = self.term(index)
        own = self._own.get(index) if self._own else None
        if own is not None:
            return term, own[1], own[0]
        row = self._prefixes.get(index, term)
        return None if row is None else (term, row[1], UNKNOWN if self.offset else row[0])

    def last_before(self, term: int) -> tuple[int, int]:
        """(term, index) of the last entry of an older term; (0, 0): there is none."""
        end = self.end
        for start, held in zip(reversed(self._starts), reversed(self._terms), strict=True):
            if held < term:
                return held, end
            end = start - 1
        return 0, 0

    def cut(self, start: int) -> None:
        """Drop everything from this index on."""
        if start > self.end:
            return
        self.end = max(self.offset, start - 1)
        keep = bisect.bisect_right(self._starts, self.end)
        del self._starts[keep:], self._terms[keep:]
        self._own = {index: own for index, own in self._own.items() if index <= self.end}
        before = self.at(self.end)
        self.last = (0 if self.offset == 0 else UNKNOWN) if before is None else before[2]

    def lose(self, count: int) -> None:
        """There are ``count`` entries, and nothing is known of them."""
        self._reset(count)

    def put(self, index: int, term: int, payload: int) -> int:
        """Store an entry, which is not there yet; a gap makes everything before it unknown. The hash of its prefix."""
        if index <= self.offset or index > self.end + 1:
            self._reset(index - 1)
        elif index <= self.end:
            self.cut(index)
        if not self._terms or self._terms[-1] != term:
            self._starts.append(index)
            self._terms.append(term)
        self.end = index
        if self.last != UNKNOWN:
            self.last = roll(self.last, term, payload)
        return self.last

    @property
    def shared(self) -> bool:
        """Whether all its entries are known, and stand in ``prefixes``."""
        return self.last != UNKNOWN and not self._own

    def extend(self, first: int, terms: Ints, last: int) -> None:
        """Store entries of these terms behind the end, from index ``first`` on. ``last``: the hash of the whole log."""
        for at in changes(terms).tolist():
            if not self._terms or self._terms[-1] != terms[at]:
                self._starts.append(first + at)
                self._terms.append(int(terms[at]))
        if len(terms):
            self.end, self.last = first + len(terms) - 1, last

    def terms(self, indices: Ints) -> Ints:
        """The terms of entries that are there."""
        held: Ints = np.array(self._terms, dtype=np.int64)
        return held[np.searchsorted(np.array(self._starts, dtype=np.int64), indices, side="right") - 1]

    def rows(self, first: int, end: int) -> list[Ints] | None:
        """``at`` of the entries from ``first`` up to and without ``end``, which are there and shared; None: not all
        stand in arrays."""
        parts = []
        place = bisect.bisect_right(self._starts, first) - 1
        while first < end:
            stop = min(end, self._starts[place + 1]) if place + 1 < len(self._starts) else end
            term = self._terms[place]
            held = self._prefixes.dense(term).slice(first, stop)
            if held is None:
                return None
            parts.append((np.full(stop - first, term, dtype=np.int64), held[1], held[0]))
            first, place = stop, place + 1
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def keep(self, index: int, roll: int, payload: int) -> None:
        """This entry differs from the one that stands first in ``prefixes``."""
        self._own[index] = roll, payload


class Replica:
    """One node: its log, and what its memory holds."""

    def __init__(self, group: str, node: str, rank: int, prefixes: Prefixes) -> None:
        self.group, self.node, self.rank, self.prefixes = group, node, rank, prefixes
        self.log = Log(prefixes)
        self.incarnation: int | None = None
        self.regressions: list[Regression] = []
        self.ends: list[LeaderEnd] = []
        self.last_settled = (0, 0)
        """(index, hash of the prefix) up to which what it committed was compared, in any incarnation."""
        self.forget_memory()

    def forget_memory(self) -> None:
        """A new incarnation begins."""
        self.known = False
        """Whether anything of the log was witnessed in this incarnation."""
        self.led: set[int] = set()
        self.told: tuple[int, int] | None = None
        """The core's last commit: (index, seq)."""
        self.pinned = 0
        self.pin_seq = -1
        self.pending: tuple[int, Note] | None = None
        self.leading: tuple[int, Note] | None = None
        """A leader's commit that its own log has not reached yet."""
        self.own_term: int | None = None
        self.truncated: list[tuple[int, int, Note]] = []
        """Truncations while it led, if its next own term is the same: (place among the regressions, term, event)."""

    def settled(self) -> int:
        """The index up to which it committed what its log holds now."""
        index, prefix = self.last_settled
        same = index > self.pinned and index <= self.log.end and self.log.prefix(index) == prefix != UNKNOWN
        return index if same else self.pinned

    def regressed(self, event: Note, what: str, *seqs: int, term: int | None = None) -> None:
        """Note a regression."""
        at = event.term if term is None else term
        self.regressions.append(Regression(what, event.group, event.node, at, seqs))

    def broke_its_commit(self, event: Note, what: str) -> None:
        """Note that it gave up an entry that it had committed."""
        self.regressed(event, what, *((self.pin_seq,) if self.pin_seq >= 0 else ()), event.seq)
