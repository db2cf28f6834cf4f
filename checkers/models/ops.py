"""Client operations on objects as columns: what the models read and the engines of ``linearizable`` judge.

One row an operation, integers only. Times are *positions*: calls and returns of one history numbered 0, 1, 2 … in the
order in which they happened, a call before a return at the same time (they overlap). Operation x precedes y if and only
if ``ret[x] < call[y]``. Values and keys are codes of a ``Values`` dictionary.

Guarantees: an operation whose outcome is unknown has ``ret`` OPEN, so nothing follows it; equal values have equal codes
(``1`` and ``1.0`` are equal, ``1``, ``true`` and ``"1"`` are not). Out of scope: files, and what the operations mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import IntEnum
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from dethrone.harness.core.errors import HistoryError

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bytes = NDArray[np.int8]
Bools = NDArray[np.bool_]

OPEN = 2**31 - 1
"""The return of an operation that may take effect at any time after its call, or never."""

OK, FAIL, INFO = 0, 1, 2
"""``status``: it happened; it certainly never happens; unknown."""

NOTHING = 0
"""The code of None: an unset register, an empty queue."""

UNTOLD = -1
"""``b`` where an operation did not report an outcome that it could have reported."""

Status = Literal["ok", "fail", "info"]
_STATUS: dict[str, int] = {"ok": OK, "fail": FAIL, "info": INFO}
_PLAIN = {int, str, type(None)}
"""Types whose values are equal in Python only if they are equal here."""


class F(IntEnum):
    """What an operation asks for, and what ``a`` and ``b`` then are."""

    READ = 0
    """a: the value read; of a set: the code of a frozenset of codes"""
    WRITE = 1
    """a: the value written"""
    CAS = 2
    """a: the value expected, b: the new value"""
    ENQUEUE = 3
    """a: the value"""
    DEQUEUE = 4
    """a: the value, NOTHING if the queue was empty"""
    ACQUIRE = 5
    RELEASE = 6
    ADD = 7
    """a: the element; b: 1 if it was new, 0 if it was there, UNTOLD"""
    REMOVE = 8
    """a: the element; b: 1 if it was there, 0 if it was not, UNTOLD"""
    CONTAINS = 9
    """a: the element; b: 1 if it was there, 0 if it was not"""
    TXN = 10
    """a: the code of a tuple of (F.READ | F.WRITE, code of the key, code of the value)"""


NAMES: dict[str, F] = {
    **{f.name.lower(): f for f in F},
    "get": F.READ,
    "put": F.WRITE,
    "lock": F.ACQUIRE,
    "unlock": F.RELEASE,
    "insert": F.ADD,
    "delete": F.REMOVE,
}
"""How operations may be called in histories."""


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as a client saw it. ``call`` and ``ret``: any clock that never runs backwards, in any unit.

    ``value`` is what was asked for (``[a, b]`` of a cas, the micro-operations of a txn), ``output`` what came back.
    ``ret``: None where nothing came back.
    """

    f: str
    process: int | str = 0
    key: Any = None
    value: Any = None
    output: Any = None
    call: int
    ret: int | None = None
    status: Status = "ok"


class Values:
    """Any JSON-like values as small integers, in order of appearance. None is 0."""

    __slots__ = ("_codes", "words")

    def __init__(self) -> None:
        self.words: list[Any] = [None]
        self._codes: dict[Hashable, int] = {None: NOTHING}

    def code(self, value: Any) -> int:
        """The code of a value, a new one if it is new."""
        kind = type(value)
        known = value if kind is int or kind is str else token(value)
        found = self._codes.get(known)
        if found is None:
            found = self._codes[known] = len(self.words)
            self.words.append(value)
        return found

    def coded(self, values: list[Any]) -> Ints:
        """The codes of all these values at once."""
        if set(map(type, values)) <= _PLAIN:
            codes, words = self._codes, self.words
            for value in dict.fromkeys(values):
                if value not in codes:
                    codes[value] = len(words)
                    words.append(value)
            return np.fromiter(map(self._codes.__getitem__, values), dtype=np.int64, count=len(values))
        return np.array([self.code(value) for value in values], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.words)


def token(value: Any) -> Hashable:
    """Something hashable that is equal for equal values, and for no others."""
    if value is None or isinstance(value, str) or type(value) is int:
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        if value != value:  # noqa: PLR0124 - only "not a number" differs from itself
            return ("nan",)
        return int(value) if value.is_integer() else ("float", value)
    if isinstance(value, dict):
        return ("map", frozenset((token(k), token(v)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return ("set", frozenset(token(item) for item in value))
    if isinstance(value, list | tuple):
        return ("list", tuple(token(item) for item in value))
    return ("other", type(value).__name__, repr(value))


class Ops(msgspec.Struct, frozen=True, eq=False):
    """The columns. ``id`` is the operation's number in its source; findings name operations by it."""

    call: Ints
    ret: Ints
    f: Bytes
    key: Codes
    a: Codes
    b: Codes
    status: Bytes
    id: Ints
    values: Values
    keys: Values

    def __len__(self) -> int:
        return len(self.call)

    def take(self, rows: Ints | Bools) -> Ops:
        """Only these rows; positions, codes and ids stay what they are."""
        return Ops(
            self.call[rows],
            self.ret[rows],
            self.f[rows],
            self.key[rows],
            self.a[rows],
            self.b[rows],
            self.status[rows],
            self.id[rows],
            self.values,
            self.keys,
        )


def distinct(codes: NDArray[Any]) -> Ints:
    """Which codes there are, in rising order: codes are small numbers, so nothing need be sorted."""
    return np.flatnonzero(np.bincount(codes))


def positions(call: Ints, ret: Ints, *, open_rows: Bools) -> tuple[Ints, Ints]:
    """Times as positions; ``open_rows`` get OPEN. Ties: calls come before returns, so equal times overlap."""
    count = len(call)
    closed = np.flatnonzero(~open_rows)
    times = np.concatenate([call, ret[closed]])
    order = np.lexsort((np.arange(len(times)) >= count, times))
    rank = np.empty(len(times), dtype=np.int64)
    rank[order] = np.arange(len(times))
    back = np.full(count, OPEN, dtype=np.int64)
    back[closed] = rank[count:]
    return rank[:count], back


def encode(rows: Iterable[Op], *, sets: bool = False) -> Ops:
    """The columns of these operations, in their order; ``sets``: what a read answers is a set, given as a list.

    HistoryError: an operation that makes no sense, by its number.
    """
    rows = rows if isinstance(rows, list) else list(rows)
    words = [row.f for row in rows]
    for word in set(words):
        if word not in NAMES:
            raise HistoryError(
                f"operation {words.index(word)} is of an unknown kind: {word!r}",
                next_step=f"known are {', '.join(sorted(NAMES))}",
            )
    f = np.array(list(map(NAMES.__getitem__, words)), dtype=np.int64)
    status = np.array([_STATUS[row.status] for row in rows], dtype=np.int64)
    unanswered = np.array([row.ret is None for row in rows], dtype=np.bool_)
    call = np.array([row.call for row in rows], dtype=np.int64)
    ret = np.array([row.call if row.ret is None else row.ret for row in rows], dtype=np.int64)
    for at in np.flatnonzero(ret < call).tolist():
        raise HistoryError(f"operation {at} returned ({ret[at]}) before it was called ({call[at]})")
    for at in np.flatnonzero(unanswered & (status == OK)).tolist():
        raise HistoryError(f"operation {at} is ok but has no return")
    values, keys = Values(), Values()
    a, b = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), UNTOLD, dtype=np.int64)
    key = keys.coded([row.key for row in rows])
    for kind in distinct(f).tolist():
        where = np.flatnonzero(f == kind)
        some = [rows[at] for at in where.tolist()]
        a[where], b[where] = _arguments(F(kind), some, where.tolist(), values, keys, sets=sets)
    call, ret = positions(call, ret, open_rows=unanswered | (status == INFO))
    return Ops(
        call,
        ret,
        f.astype(np.int8),
        key.astype(np.int32),
        a.astype(np.int32),
        b.astype(np.int32),
        status.astype(np.int8),
        np.arange(len(rows), dtype=np.int64),
        values,
        keys,
    )


def _arguments(
    f: F, rows: list[Op], numbers: list[int], values: Values, keys: Values, *, sets: bool
) -> tuple[Ints | int, Ints | int]:
    """``a`` and ``b`` of all operations of one kind."""
    if f in (F.ACQUIRE, F.RELEASE):
        return NOTHING, UNTOLD
    if f is F.READ and sets:
        shown = [
            frozenset() if row.status != "ok" else _elements(row.output, values, number)
            for row, number in zip(rows, numbers, strict=True)
        ]
        return values.coded(shown), UNTOLD
    if f in (F.READ, F.DEQUEUE):
        return values.coded([row.output if row.status == "ok" else None for row in rows]), UNTOLD
    if f is F.CAS:
        pairs = [_pair(row.value, number) for row, number in zip(rows, numbers, strict=True)]
        return values.coded([old for old, _ in pairs]), values.coded([new for _, new in pairs])
    if f is F.TXN:
        micro = [_micro(row, values, keys, number) for row, number in zip(rows, numbers, strict=True)]
        return values.coded(micro), UNTOLD
    a = values.coded([row.value for row in rows])
    if f is F.ENQUEUE and NOTHING in a:
        number = numbers[a.tolist().index(NOTHING)]
        raise HistoryError(f"operation {number} enqueues nothing: it could not be distinguished from an empty queue")
    if f in (F.WRITE, F.ENQUEUE):
        return a, UNTOLD
    told = [int(row.output) if row.status == "ok" and isinstance(row.output, bool) else UNTOLD for row in rows]
    if f is F.CONTAINS:
        for row, number, answer in zip(rows, numbers, told, strict=True):
            if answer == UNTOLD and row.status == "ok":
                raise HistoryError(f"operation {number} (contains) says neither true nor false: {row.output!r}")
    return a, np.array(told, dtype=np.int64)


def _elements(output: Any, values: Values, number: int) -> frozenset[int]:
    """What a read of a set showed, as codes."""
    if not isinstance(output, list | tuple | set | frozenset):
        raise HistoryError(f"operation {number} reads a set, but answers {output!r}")
    return frozenset(values.coded(list(output)).tolist())


def _pair(value: Any, number: int) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise HistoryError(f"operation {number} (cas) needs [expected, new], not {value!r}")
    return value[0], value[1]


def _micro(row: Op, values: Values, keys: Values, number: int) -> tuple[tuple[int, int, int], ...]:
    """The micro-operations of a txn, coded."""
    out = []
    value = row.output if row.status == "ok" and row.output is not None else row.value
    if not isinstance(value, list | tuple):
        raise HistoryError(f"operation {number} (txn) needs a list of [f, key, value], not {value!r}")
    for item in value:
        if not isinstance(item, list | tuple) or len(item) != 3 or item[0] not in ("r", "w", "read", "write"):
            raise HistoryError(f"operation {number} (txn) holds {item!r}, which is not [r | w, key, value]")
        f = F.READ if item[0] in ("r", "read") else F.WRITE
        out.append((int(f), keys.code(item[1]), values.code(item[2])))
    return tuple(out)
