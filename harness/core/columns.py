"""Columns: one numpy array a field, for observations and for what all trace events have.

Guarantees: in file order, words coded by one dictionary, integers only; an unknown value is -1 (-1 as a code: none).
Out of scope: where they come from (``chunks``), and events of other types, of which there are fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dethrone.harness.core.events import Observed, Traced

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bools = NDArray[np.bool_]

_INT_MAX = 2**63 - 1
_SHORT_MAX = 2**31 - 1
_DENSE_MAX = 2**22


class Dictionary:
    """Words as small integers, in order of appearance. None is -1."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._codes: dict[str | None, int] = {None: -1}

    def code(self, word: str | None) -> int:
        """The code of a word, a new one if it is new."""
        found = self._codes.get(word)
        if found is None:
            found = self._codes[word] = len(self.words)
            self.words.append(str(word))
        return found

    def coded(self, words: list[Any]) -> Codes:
        """The codes of all these words at once."""
        table = {word: self.code(word) for word in dict.fromkeys(words)}
        return np.array(list(map(table.__getitem__, words)), dtype=np.int32)

    def among(self, codes: Codes, wanted: Collection[str]) -> Bools:
        """Which of these codes stand for one of these words."""
        found: Bools = np.isin(codes, [code for code, word in enumerate(self.words) if word in wanted])
        return found

    def word(self, code: int) -> str | None:
        """The word behind a code."""
        return None if code < 0 else self.words[code]

    def spelled(self, codes: Codes) -> list[Any]:
        """The words behind all these codes at once."""
        return list(map([*self.words, None].__getitem__, codes.tolist()))

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, eq=False)
class ObservedColumns:
    """``Observed`` events. ``log_term``, ``log_index``, ``commit``: -1 where not reported."""

    seq: Ints
    t: Ints
    lo: Ints
    hi: Ints
    group: Codes
    node: Codes
    incarnation: Codes
    role: Codes
    leads: Bools
    term: Ints
    leader: Codes
    voted_for: Codes
    log_term: Ints
    log_index: Ints
    commit: Ints
    atomic: Bools

    def __len__(self) -> int:
        return len(self.seq)

    @cached_property
    def identities(self) -> Codes:
        """One small code for each (group, node, incarnation), row by row."""
        return _identities(self)

    @cached_property
    def order(self) -> Ints:
        """A stable order of the rows by (group, node, incarnation), then as asked."""
        return _node_order(self)

    @cached_property
    def told_at_once(self) -> Bools:
        """Rows whose role, leader and vote certainly belong to their term.

        Either the system gave them as one atom, or the same process reported the same term before and after.
        """
        return _told_at_once(self)


@dataclass(frozen=True, eq=False)
class TracedColumns:
    """What all ``Traced`` events have, without their data. ``shell``: whether the shell witnessed it."""

    seq: Ints
    group: Codes
    node: Codes
    incarnation: Ints
    n: Ints
    name: Codes
    term: Ints
    shell: Bools

    def __len__(self) -> int:
        return len(self.seq)


def traced_columns(rows: Sequence[Traced], words: Dictionary) -> TracedColumns:
    """The columns of these trace events."""
    return TracedColumns(
        seq=ints([row.seq for row in rows]),
        group=words.coded([row.group for row in rows]),
        node=words.coded([row.node for row in rows]),
        incarnation=ints([row.incarnation for row in rows]),
        n=ints([row.n for row in rows]),
        name=words.coded([row.name for row in rows]),
        term=ints([row.term for row in rows]),
        shell=np.array([row.source == "shell" for row in rows], dtype=np.bool_),
    )


def observed_columns(rows: Sequence[Observed], words: Dictionary) -> ObservedColumns:
    """The columns of these observations."""
    return ObservedColumns(
        seq=ints([row.seq for row in rows]),
        t=ints([row.t for row in rows]),
        lo=ints([row.span.lo for row in rows]),
        hi=ints([row.span.hi for row in rows]),
        group=words.coded([row.group for row in rows]),
        node=words.coded([row.node for row in rows]),
        incarnation=_narrow([row.incarnation for row in rows]),
        role=words.coded([row.role for row in rows]),
        leads=np.array([row.leads for row in rows], dtype=np.bool_),
        term=ints([row.term for row in rows]),
        leader=words.coded([row.leader for row in rows]),
        voted_for=words.coded([row.voted_for for row in rows]),
        log_term=ints([-1 if row.log_end is None else row.log_end[0] for row in rows]),
        log_index=ints([-1 if row.log_end is None else row.log_end[1] for row in rows]),
        commit=ints([-1 if row.commit is None else row.commit for row in rows]),
        atomic=np.array([row.atomic for row in rows], dtype=np.bool_),
    )


def ints(values: list[int]) -> Ints:
    """An int64 array; values beyond 64 bits are cut to the nearest one that fits."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([max(-_INT_MAX, min(_INT_MAX, value)) for value in values], dtype=np.int64)


def _narrow(values: list[int]) -> Codes:
    """An int32 array, cut likewise."""
    return np.clip(ints(values), -_SHORT_MAX, _SHORT_MAX).astype(np.int32)


# --- questions that several checkers ask ------------------------------------------------------------------------


def _identities(obs: ObservedColumns) -> Codes:
    """One small code for each (group, node, incarnation), row by row."""
    if not len(obs):
        return obs.node
    parts = [obs.group.astype(np.int64), obs.node.astype(np.int64), obs.incarnation.astype(np.int64)]
    packed = np.zeros(len(obs), dtype=np.int64)
    size = 1
    for part in parts:
        low, high = int(part.min()), int(part.max())
        packed = packed * (high - low + 1) + (part - low)
        size *= high - low + 1
    if size <= _DENSE_MAX:
        present = np.zeros(size, dtype=np.int32)
        present[packed] = 1
        dense: Codes = (np.cumsum(present, dtype=np.int32) - 1)[packed]
        return dense
    inverse = np.unique(np.stack(parts), axis=1, return_inverse=True)[1]
    sparse: Codes = inverse.reshape(-1).astype(np.int32)
    return sparse


def changes(*arrays: NDArray[Any]) -> Ints:
    """Positions at which any of these equally long arrays differs from the row before (0 included)."""
    length = len(arrays[0])
    if length == 0:
        return np.zeros(0, dtype=np.int64)
    differs = np.zeros(length, dtype=np.bool_)
    differs[0] = True
    for array in arrays:
        differs[1:] |= array[1:] != array[:-1]
    return np.flatnonzero(differs)


def _node_order(obs: ObservedColumns) -> Ints:
    """A stable order of the rows by (group, node, incarnation), then as asked."""
    who = obs.identities
    narrow = len(who) > 0 and int(who.max()) < 2**15
    order = np.argsort(who.astype(np.int16) if narrow else who, kind="stable")
    lo, sorted_who = obs.lo[order], who[order]
    if bool(np.any((sorted_who[1:] == sorted_who[:-1]) & (lo[1:] < lo[:-1]))):
        order = np.lexsort((obs.hi, obs.lo, who))
    return order


def _told_at_once(obs: ObservedColumns) -> Bools:
    if bool(obs.atomic.all()):
        return obs.atomic
    sure = obs.atomic.copy()
    order = obs.order
    who, term = obs.identities[order], obs.term[order]
    lo, hi = obs.lo[order], obs.hi[order]
    if len(order) > 2:
        same = (who[1:] == who[:-1]) & (term[1:] == term[:-1]) & (hi[:-1] <= lo[1:])
        middle = np.zeros(len(order), dtype=np.bool_)
        middle[1:-1] = same[:-1] & same[1:]
        sure[order[middle]] = True
    return sure
