"""All operations of a run's clients: when, by whom, at which node and with which outcome, as columns; and their values,
one operation after another.

Guarantees: in the order of their invocations; an operation has its first return, if that stands behind it; what reads
showed is put together from its records (``shown``), in the order of the returns. Out of scope: what operations mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dethrone.harness.core.chunks import Chunk
from dethrone.harness.core.columns import Bools, Codes, Dictionary, Ints
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.growing import Growing
from dethrone.harness.core.history import View
from dethrone.harness.core.op_columns import Values
from dethrone.harness.core.shown import Reader, is_record

BATCH_OPS = 65_536
"""Operations with their values that are in memory at once, where a checker judges object by object."""
READING = frozenset({"read", "poll"})
"""Operations whose value is the object that they are about; that of any other is a pair of it and the rest."""
NONE = -1
"""Of a number that is not there: the operation did not return."""


class Op(NamedTuple):
    """One operation. ``back``: the ``seq`` of its return, NONE without one, and ``status`` "" then; ``node``: which
    answered; ``shown``: what it returned, or the HistoryError of a record that does not fit."""

    seq: int
    t: int
    group: str
    process: int
    f: str
    target: str
    value: Any
    back: int
    back_t: int
    status: str
    node: str | None
    shown: Any


class Part(NamedTuple):
    """The values of operations that were asked next to each other, and those of the returns that came in between.

    ``first``, ``size``: which operations; ``seq``: of which returns.
    """

    first: int
    size: int
    asked: Values
    seq: Ints
    returned: Values


@dataclass(frozen=True, eq=False)
class Ops:
    """One number a field and operation; ``f``, ``group``, ``target``, ``status``, ``node`` are codes of ``words``."""

    words: Dictionary
    seq: Ints
    t: Ints
    group: Codes
    process: Ints
    f: Codes
    target: Codes
    back: Ints
    back_t: Ints
    status: Codes
    node: Codes
    parts: Sequence[Part]

    def __len__(self) -> int:
        return len(self.seq)

    def are(self, functions: Collection[str]) -> Bools:
        """Which of them do one of these."""
        return self.words.among(self.f, functions)

    @property
    def ok(self) -> Bools:
        """Which of them were answered ``ok``."""
        found: Bools = self.status == self.words.code("ok")
        return found

    def batches(self, functions: Collection[str], among: Bools | None = None) -> Iterator[Bools | None]:
        """Of the operations that do one of these all that are about some objects, for ``rows``; in the order in which
        the objects appear. No batch has more than BATCH_OPS of them, unless one object has. None: all at once.

        ``among``: of these operations only; none of them, no batch.
        """
        wanted = self.are(functions) if among is None else self.are(functions) & among
        if int(wanted.sum()) <= BATCH_OPS:
            if among is None or wanted.any():
                yield among
            return
        objects = self._objects
        ends = np.cumsum(np.bincount(objects[wanted]))
        first = done = 0
        while first < len(ends):
            end = max(first + 1, int(np.searchsorted(ends, done + BATCH_OPS, side="right")))
            mine = (objects >= first) & (objects < end)
            yield mine if among is None else mine & among
            first, done = end, int(ends[end - 1])

    @cached_property
    def _objects(self) -> Codes:
        """Of each operation the object that it is about, by its name alone."""
        names, words = Dictionary(), self.words.words
        parts = []
        for part in self.parts:
            functions = (words[code] for code in self.f[part.first : part.first + part.size].tolist())
            parts.append(names.coded(list(map(_name, functions, part.asked(None)))))
        return np.concatenate(parts)

    def rows(self, functions: Collection[str], among: Bools | None = None) -> Iterator[Op]:
        """Those that do one of these, with their values; ``among``: a batch of theirs."""
        wanted = self.are(functions) if among is None else self.are(functions) & among
        if not wanted.any():
            return
        reader = Reader()
        about: dict[int, tuple[tuple[str, Any], bool]] = {}
        """``seq`` of a return → what it is about, and whether it is wanted."""
        shown: dict[int, Any] = {}
        waiting: deque[tuple[int, Any]] = deque()
        for part in self.parts:
            here = np.arange(part.first, part.first + part.size)
            places = here if among is None else here[among[here]]
            groups = self.words.spelled(self.group[places])
            values = part.asked(None if among is None else places - part.first) if len(places) else ()
            rows = zip(
                places.tolist(), values, self.back[places].tolist(), groups, wanted[places].tolist(), strict=True
            )
            for place, value, back, group, mine in rows:
                if back != NONE:
                    about[back] = (group or "", value), mine
                if mine:
                    waiting.append((place, value))
            backs = (
                None if among is None else np.flatnonzero(np.isin(part.seq, np.fromiter(about, np.int64, len(about))))
            )
            seqs = part.seq if backs is None else part.seq[backs]
            for seq, value in zip(seqs.tolist(), part.returned(backs) if len(seqs) else (), strict=True):
                key, mine = about.pop(seq, (None, False))
                read = _read(reader, (key[0], repr(key[1])), value) if key is not None and is_record(value) else value
                if mine:
                    shown[seq] = read
            last = int(part.seq[-1]) if len(part.seq) else NONE
            ready = []
            while waiting and self.back[waiting[0][0]] <= last:
                ready.append(waiting.popleft())
            yield from self._made(ready, shown)
        yield from self._made(waiting, shown)

    def _made(self, waiting: Iterable[tuple[int, Any]], shown: dict[int, Any]) -> Iterator[Op]:
        values = list(waiting)
        places = np.array([place for place, _ in values], dtype=np.int64)
        numbers = [column[places].tolist() for column in (self.seq, self.t, self.process, self.back, self.back_t)]
        coded = (self.group, self.f, self.target, self.status, self.node)
        words = [self.words.spelled(column[places]) for column in coded]
        for (_, value), (seq, t, process, back, back_t), (group, f, target, status, node) in zip(
            values, zip(*numbers, strict=True), zip(*words, strict=True), strict=True
        ):
            yield Op(
                seq,
                t,
                group or "",
                process,
                f or "",
                target or "",
                value,
                back,
                back_t,
                status or "",
                node,
                shown.pop(back, None),
            )


def _read(reader: Reader, key: tuple[str, str], record: Any) -> Any:
    try:
        return reader.read(key, record)
    except HistoryError as error:
        return error


def object_of(f: str, value: Any) -> tuple[Any, Any] | None:
    """The object that an operation of a run of ours is about, and what is left of its value; None: it names none."""
    if f in READING:
        return value, None
    return tuple(value) if isinstance(value, list | tuple) and len(value) == 2 else None


def _name(f: str, value: Any) -> str:
    about = object_of(f, value)
    return str(None if about is None else list(about[0]) if isinstance(about[0], tuple) else about[0])


class _Ops:
    def __init__(self) -> None:
        self._words = Dictionary()
        names = ("seq", "t", "group", "op", "process", "f", "target")
        self._asked = {name: Growing(counts=name != "t") for name in names}
        self._returned = {name: Growing(counts=name != "t") for name in ("seq", "t", "op", "status", "node")}
        self._values: list[tuple[int, Values, int, Values]] = []
        """Of each part how many were asked, what, how many returned, and what."""

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        asked, returned = chunk.asked(self._words), chunk.returned(self._words)
        for table, part in ((self._asked, asked), (self._returned, returned)):
            for name, column in table.items():
                column.extend(getattr(part, name))
        self._values.append((len(asked.seq), asked.values, len(returned.seq), returned.values))

    def done(self) -> Ops:
        """All parts, each operation with its return."""
        asked = {name: column.column() for name, column in self._asked.items()}
        returned = {name: column.column() for name, column in self._returned.items()}
        op, seq = asked.pop("op"), asked["seq"]
        ops, firsts = np.unique(returned.pop("op"), return_index=True)
        at = np.searchsorted(ops, op)
        found = at < len(ops)
        found[found] = ops[at[found]] == op[found]
        place = np.full(len(op), NONE, dtype=np.int64)
        place[found] = firsts[at[found]]
        found[found] = returned["seq"][place[found]] > seq[found]
        place[~found] = NONE

        def of(name: str) -> Any:
            column = returned[name]
            return np.append(column, column.dtype.type(NONE))[place]

        parts = []
        first = back = 0
        for size, values, backs, shown in self._values:
            parts.append(Part(first, size, values, returned["seq"][back : back + backs], shown))
            first, back = first + size, back + backs
        return Ops(
            words=self._words,
            back=of("seq"),
            back_t=of("t"),
            status=of("status"),
            node=of("node"),
            parts=parts,
            **asked,
        )


client_ops: View[Ops] = View(_Ops)
"""All operations."""


def misfit(op: Op) -> str:
    """Why this operation, whose record does not fit, cannot be judged."""
    return f"event {op.back}: {op.shown.what}"
