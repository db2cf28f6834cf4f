"""What reads of growing lists and sets showed, in the history as the difference from what was known before.

A log that is read as a whole grows with the run, and so would each record of a read. So the recorder keeps the longest
list of each key, and writes of a read how many first values are that list's, and then the others; of a set, what it has
more and less than the largest one known. Both carry a hash of all that was shown:

    {"shows": "list", "first": 2000, "then": [2001], "hash": "…"}        2001 values, 2000 of them as known
    {"shows": "set", "more": [7], "less": [], "count": 40, "hash": "…"}   40 elements, 7 is new

Guarantees: pure; reading back in the order of the history gives what was shown, value by value; a record that does not
fit what was known, or its own hash, is an error and never a guess; other values are recorded as they are. Lists that
share their beginning share its memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, overload

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import Invoke

Shape = Literal["list", "set"]
"""What the reads of a workload show."""

_KEY = "shows"
_MASK = 2**64 - 1
_ENCODER = msgspec.json.Encoder()


class Growing:
    """The values of a list that only grows. ``chain[n]``: the hash of its first n."""

    __slots__ = ("chain", "simple", "values")

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values: list[Any] = []
        self.chain = array("Q", [0])
        self.simple = True
        """Whether all values are whole numbers or words, which are equal exactly if they are the same value."""
        self.extend(values, _links(0, values))

    def extend(self, values: Sequence[Any], links: Sequence[int]) -> None:
        """More of them, and the hashes that follow."""
        self.values += values
        self.chain.extend(links)
        self.simple = self.simple and all(type(value) in (int, str) for value in values)


class Shown(Sequence[Any]):
    """A list that a read showed: the first ``size`` values of ``known``, and no others."""

    __slots__ = ("known", "size")

    def __init__(self, known: Growing, size: int) -> None:
        self.known = known
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> Any: ...

    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self.known.values[place] for place in range(*at.indices(self.size))]
        if not -self.size <= at < self.size:
            raise IndexError(at)
        return self.known.values[at % self.size]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.known.values[: self.size])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shown):
            return self.size == other.size and (self.known is other.known or list(self) == list(other))
        return isinstance(other, list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of lists

    def __repr__(self) -> str:
        return repr(list(self))


class Recorder:
    """Turns what reads show into records. ``shape``: of the workload's reads; None: every value stays as it is."""

    def __init__(self, shape: Shape | None) -> None:
        self._shape = shape
        self._lists: dict[Hashable, Growing] = {}
        self._sets: dict[Hashable, tuple[frozenset[Any], int]] = {}
        """Key → the largest set, and its hash."""

    def record(self, key: Hashable, value: Any) -> Any:
        """The record of a read of this key."""
        if isinstance(value, Mapping) and _KEY in value:
            return {_KEY: "value", "value": value}
        if not isinstance(value, list | tuple):
            return value
        if self._shape == "list":
            return self._list(key, list(value))
        if self._shape == "set" and all(type(one) in (int, str) for one in value) and len(set(value)) == len(value):
            return self._set(key, frozenset(value))
        return value

    def _list(self, key: Hashable, shown: list[Any]) -> dict[str, Any]:
        known = self._lists.setdefault(key, Growing())
        first = _common(known.values, shown)
        rest = shown[first:]
        record: dict[str, Any] = {_KEY: "list", "first": first}
        links = _links(known.chain[first], rest)
        last = links[-1] if rest else known.chain[first]
        _, grown = _follow(known, first, rest, links)
        if grown is not None:
            self._lists[key] = grown
        if rest:
            record["then"] = rest
        record["hash"] = _word(last)
        return record

    def _set(self, key: Hashable, shown: frozenset[Any]) -> dict[str, Any]:
        known, total = self._sets.get(key, (frozenset(), 0))
        more, less = (sorted(some, key=_sortable) for some in (shown - known, known - shown))
        total = (total + _sum(more) - _sum(less)) & _MASK
        if len(shown) >= len(known):
            self._sets[key] = shown, total
        return {_KEY: "set", "more": more, "less": less, "count": len(shown), "hash": _word(total)}


class Reader:
    """Turns records back into what was shown; fed in the order of the history."""

    def __init__(self) -> None:
        self._lists: dict[Hashable, Growing] = {}
        self._sets: dict[Hashable, tuple[frozenset[Any], int]] = {}

    def read(self, key: Hashable, record: Any) -> Any:
        """What a read of this key showed. HistoryError: the record does not fit what was known."""
        if not is_record(record):
            return record
        try:
            match record:
                case {"shows": "value", "value": value}:
                    return value
                case {"shows": "list", "first": int(first), "hash": str(word)}:
                    return self._list(key, first, list(record.get("then", ())), word)
                case {"shows": "set", "more": more, "less": less, "count": int(count), "hash": str(word)}:
                    return self._set(key, frozenset(more), frozenset(less), count, word)
        except TypeError as error:
            raise HistoryError(f"the record of a read is malformed: {error}") from error
        raise HistoryError("the record of a read is malformed")

    def _list(self, key: Hashable, first: int, rest: list[Any], word: str) -> Shown:
        known = self._lists.setdefault(key, Growing())
        if not 0 <= first <= len(known.values):
            raise HistoryError(f"the record of a read begins with {first} values where {len(known.values)} are known")
        links = _links(known.chain[first], rest)
        if _word(links[-1] if rest else known.chain[first]) != word:
            raise HistoryError("the record of a read does not fit its hash")
        shown, grown = _follow(known, first, rest, links)
        if grown is not None:
            self._lists[key] = grown
        return shown

    def _set(self, key: Hashable, more: frozenset[Any], less: frozenset[Any], count: int, word: str) -> tuple[Any, ...]:
        known, total = self._sets.get(key, (frozenset(), 0))
        shown = (known - less) | more
        total = (total + _sum(more) - _sum(less)) & _MASK
        if len(shown) != count or _word(total) != word:
            raise HistoryError("the record of a read does not fit its hash")
        if len(shown) >= len(known):
            self._sets[key] = shown, total
        return tuple(sorted(shown, key=_sortable))


def is_record(value: Any) -> bool:
    """Whether this is how a read was recorded, and not what it returned."""
    return (type(value) is dict or isinstance(value, Mapping)) and _KEY in value


def key_of(invoke: Invoke) -> Hashable:
    """What a read is about."""
    return invoke.group, repr(invoke.value)


def in_words(value: Any) -> Any:
    """A record for people; any other value as it is."""
    match value:
        case {"shows": "value", "value": inner}:
            return inner
        case {"shows": "list", "first": int(first)}:
            rest = list(value.get("then", ()))
            return f"{first} known values{f', then {rest}' if rest else ''}" if first else rest
        case {"shows": "set", "count": count, "more": more}:
            return f"{count} elements{f', new: {list(more)}' if more else ''}"
    return value


def _follow(known: Growing, first: int, rest: Sequence[Any], links: Sequence[int]) -> tuple[Shown, Growing | None]:
    """The list that begins as ``known`` and continues so; and what is the longest now, if that is another list.

    ``known`` itself grows where the list continues behind its end.
    """
    if not rest:
        return Shown(known, first), None
    if first == len(known.values):
        known.extend(rest, links)
        return Shown(known, len(known.values)), None
    other = Growing([*known.values[:first], *rest])
    longer = len(other.values) > len(known.values)
    return Shown(other, len(other.values)), other if longer else None


def _common(known: list[Any], shown: list[Any]) -> int:
    """How many first values two lists have in common, types included."""
    low, high = 0, min(len(known), len(shown))
    if _same(known[:high], shown[:high]):
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if _same(known[low:middle], shown[low:middle]):
            low = middle
        else:
            high = middle
    return low


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether lists are equal as JSON: 1, 1.0 and true are not."""
    return (
        one == other
        and list(map(type, one)) == list(map(type, other))
        and (all(type(value) in (int, str) for value in one) or _ENCODER.encode(one) == _ENCODER.encode(other))
    )


def _link(before: int, value: Any) -> int:
    data = before.to_bytes(8, "big") + _ENCODER.encode(value)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _links(before: int, values: Iterable[Any]) -> list[int]:
    """The hash behind each of these values, which follow what has the hash ``before``."""
    return list(accumulate(values, _link, initial=before))[1:]


def _sum(values: Iterable[Any]) -> int:
    """An order-free hash."""
    return sum(_link(0, value) for value in values) & _MASK


def _word(number: int) -> str:
    return f"{number:016x}"


def _sortable(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value
