"""Lists of a run in which nothing unusual happened: what two checkers ask of them is shown on columns, for all at once.

``log`` and ``acknowledged-survives`` judge lists operation by operation. In most lists they find nothing: all reads
show beginnings of one list, of values that were appended once each; no read lacks what was certain when it was asked;
values stand in the order of real time, by place and by index. Guarantees: a list that has an anomaly of either checker,
or whose operations are not all understood, is not calm; of a calm list both would count what ``CalmList`` says. Out of
scope: the other lists, which the checkers look at themselves.

Such lists are most of the operations of a long run, and no object is made of one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dethrone.harness.core.client_ops import NONE, Ops, client_ops
from dethrone.harness.core.columns import Bools, Ints, ints
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.operations import NEVER, final_began
from dethrone.harness.core.shown import Reader, Shown

APPEND, READ, OTHER = 0, 1, 2
_INT_MAX = 2**63 - 2
_NO_INDEX = -(2**63)


@dataclass(frozen=True, slots=True)
class CalmList:
    """What both checkers count of one list. ``tested``: acknowledged appends that were over before the last read was
    asked."""

    appends: int
    acknowledged: int
    unknown: int
    reads: int
    final_reads: int
    tested: int


@dataclass(frozen=True, slots=True)
class CalmLists:
    """``others``: which operations are about other objects; None: all are."""

    lists: Sequence[CalmList]
    others: Bools | None


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class _List:
    """One list while its operations are read: appends and reads in the order in which they were asked, answered."""

    appends: array[int] = field(default_factory=_numbers)
    values: array[int] = field(default_factory=_numbers)
    reads: array[int] = field(default_factory=_numbers)
    sizes: array[int] = field(default_factory=_numbers)
    longest: Shown | None = None
    odd: bool = False
    """Whether something about it is not understood here."""


@per_history
def calm_lists(history: History) -> CalmLists:
    """The calm lists of a run."""
    ops = client_ops(history)
    grouped = bool((ops.group != ops.words.code("")).any())
    if grouped or not ops.are({"append"}).any() or ops.are({"poll", "seek"}).any():
        return CalmLists((), None)
    found = _Found(ops)
    try:
        found.read()
    except HistoryError:
        return CalmLists((), None)
    final = final_began(history)
    calm = {
        number: one
        for number, each in enumerate(found.lists)
        if (one := _calm(ops, each, found.index, final)) is not None
    }
    if not calm:
        return CalmLists((), None)
    return CalmLists(list(calm.values()), ~np.isin(found.of, list(calm)))


class _Found:
    """The lists of a run. Of each operation ``of`` is the number of its list, or NONE, and ``index`` what its append
    returned."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self.lists: list[_List] = []
        self._numbers: dict[str, int] = {}
        """Name of a list → its number."""
        self.of = np.full(len(ops), NONE, dtype=np.int32)
        self.index = np.full(len(ops), _NO_INDEX, dtype=np.int64)

    def read(self) -> None:
        """Read all operations. HistoryError: a row is none."""
        ops, reader = self._ops, Reader()
        kind = np.full(len(ops), OTHER, dtype=np.int8)
        kind[ops.are({"append"})], kind[ops.are({"read"})] = APPEND, READ
        ok = ops.ok
        order = np.argsort(ops.back, kind="stable")
        backs = ops.back[order]
        for part in ops.parts:
            here = slice(part.first, part.first + part.size)
            self.of[here] = self._asked(part.first, kind[here].tolist(), part.asked(None))
            at = np.minimum(np.searchsorted(backs, part.seq), max(len(backs) - 1, 0))
            places = np.where(backs[at] == part.seq, order[at], NONE) if len(backs) else np.full(len(part.seq), NONE)
            wanted = np.flatnonzero((places != NONE) & (kind[places] != OTHER) & (self.of[places] != NONE))
            places = places[wanted]
            rows = zip(
                places.tolist(),
                self.of[places].tolist(),
                kind[places].tolist(),
                ok[places].tolist(),
                part.returned(wanted) if len(wanted) else (),
                strict=True,
            )
            for place, number, what, good, value in rows:
                one = self.lists[number]
                if not good:
                    one.odd = one.odd or (what == READ and value is not None)
                elif what == APPEND:
                    told: Any = value.get("index") if type(value) is dict else value
                    if _short(told):
                        self.index[place] = told
                    elif type(told) is int:
                        one.odd = True
                elif not one.odd:
                    _show(one, reader, place, number, value)

    def _asked(self, first: int, kinds: Sequence[int], values: Sequence[Any]) -> list[int]:
        """Of each operation the number of its list, or NONE."""
        found = []
        for place, (kind, value) in enumerate(zip(kinds, values, strict=True), first):
            name = value if kind == READ else _key(value) if kind == APPEND else None
            if type(name) is not str:
                if kind != OTHER:
                    raise HistoryError("an operation names its list in another way")
                found.append(NONE)
                continue
            number = self._numbers.setdefault(name, len(self.lists))
            if number == len(self.lists):
                self.lists.append(_List())
            found.append(number)
            if kind == APPEND:
                one, appended = self.lists[number], value[1]
                if _short(appended):
                    one.appends.append(place)
                    one.values.append(appended)
                else:
                    one.odd = True
        return found


def _short(value: Any) -> bool:
    """Whether this is a whole number that fits into a column."""
    return type(value) is int and -_INT_MAX < value < _INT_MAX


def _key(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) and len(value) == 2 else None


def _show(one: _List, reader: Reader, place: int, number: int, record: Any) -> None:
    """A read was answered."""
    try:
        shown = reader.read(number, record)
    except HistoryError:
        shown = None
    if type(shown) is not Shown or (one.longest is not None and shown.known is not one.longest.known):
        one.odd = True
        return
    if one.longest is None or shown.size > one.longest.size:
        one.longest = shown
    one.reads.append(place)
    one.sizes.append(shown.size)


def _calm(ops: Ops, one: _List, indices: Ints, final: int) -> CalmList | None:
    """What is counted of a list; None: it is not calm."""
    if one.odd:
        return None
    appends, values, reads, sizes = (
        np.frombuffer(numbers, dtype=np.int64) if numbers else ints([])
        for numbers in (one.appends, one.values, one.reads, one.sizes)
    )
    longest = [] if one.longest is None else one.longest.known.values[: one.longest.size]
    if not all(map(_short, longest)):
        return None
    shown = ints(longest)
    status = ops.status[appends]
    ok, fail, info = (status == ops.words.code(word) for word in ("ok", "fail", "info"))
    lo = ops.seq[appends].astype(np.int64)
    hi = np.where(ok | fail, ops.back[appends].astype(np.int64), NEVER)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    if bool((ranked[1:] == ranked[:-1]).any()) or not _all_among(shown, ranked):
        return None
    by_place = order[np.searchsorted(ranked, shown)]
    """Place in the list → its append."""
    if bool(fail[by_place].any()) or len(np.unique(by_place)) < len(by_place):
        return None
    asked, answered = ops.seq[reads], ops.back[reads]
    since = np.concatenate([[NONE], np.maximum.accumulate(lo[by_place])])
    if bool((since[sizes] > answered).any()):
        return None  # a value is read before it was appended
    place = np.full(len(appends), len(shown), dtype=np.int64)
    place[by_place] = np.arange(len(shown))
    last = int(asked.max(initial=NONE))
    certain = np.concatenate([hi[ok], answered])
    length = np.concatenate([place[ok] + 1, sizes])
    if not _shown_in_time(certain, length, asked, sizes):
        return None
    hidden = ok & (place == len(shown))
    in_list = np.concatenate([by_place, np.flatnonzero(hidden)])
    if not _in_real_time(lo[in_list], hi[in_list], len(shown)):
        return None
    if not _indices_rise(indices[appends], ~fail, ok, lo, hi):
        return None
    return CalmList(
        appends=len(appends),
        acknowledged=int(ok.sum()),
        unknown=int((info | (status == NONE)).sum()),
        reads=len(reads),
        final_reads=int((asked > final).sum()),
        tested=int((ok & (hi < last)).sum()),
    )


def _all_among(some: Ints, ranked: Ints) -> bool:
    at = np.searchsorted(ranked, some)
    return not len(some) or (int(at.max()) < len(ranked) and bool((ranked[at] == some).all()))


def _shown_in_time(certain: Ints, length: Ints, asked: Ints, sizes: Ints) -> bool:
    """Whether each read is as long as was certain when it was asked. ``certain``: from when on that ``length`` is."""
    order = np.argsort(certain, kind="stable")
    needed = np.concatenate([[0], np.maximum.accumulate(length[order])])
    return not bool((needed[np.searchsorted(certain[order], asked, side="left")] > sizes).any())


def _in_real_time(lo: Ints, hi: Ints, phases: int) -> bool:
    """Whether no append was over before one was asked that stands before it.

    All behind the first ``phases`` stand at one place.
    """
    latest = np.concatenate([[NONE], np.maximum.accumulate(lo)])[: len(lo)]
    latest[phases:] = int(lo[:phases].max(initial=NONE))
    return not bool(((hi < latest) & (hi < NEVER)).any())


def _indices_rise(index: Ints, may_be: Bools, ok: Bools, lo: Ints, hi: Ints) -> bool:
    """Whether the indices that appends returned are different, and rise in real time."""
    known = np.flatnonzero(ok & (index != _NO_INDEX))
    if len(np.unique(index[known])) < len(known):
        return False
    known = known[np.argsort(index[known])]
    known = known[may_be[known]]
    return _in_real_time(lo[known], hi[known], len(known))


def others(history: History, functions: frozenset[str]) -> Iterator[Bools | None]:
    """Batches (``Ops.batches``) of the operations that do one of these and are not about a calm list."""
    return client_ops(history).batches(functions, calm_lists(history).others)
