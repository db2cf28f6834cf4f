"""Lists that many reads share: what is wrong with the beginnings of one, without looking at each beginning again.

Guarantees: pure; linear in the shared list, however many reads show a beginning of it. Out of scope: lists that are
recorded whole, and what an anomaly is (``log_reads``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from dethrone.harness.core.operations import NEVER
from dethrone.harness.core.shown import Growing, Shown


@dataclass(frozen=True, slots=True)
class Profile:
    """``since[n]``: the place from which on a read may show the first n values, NEVER: none may. ``double``: how many
    values stand before the first one that is there a second time, with it."""

    since: list[int]
    double: int


def shared_lists(shown: Iterable[Sequence[Any]]) -> dict[int, Growing]:
    """The shared lists of these reads, by their identities."""
    return {id(values.known): values.known for values in shown if isinstance(values, Shown)}


def profiles_of(shown: Iterable[Sequence[Any]], places: Mapping[Any, int]) -> dict[int, Profile]:
    """Shared list, by its identity → its profile. ``places``: value → where reads may show it from, if anywhere."""
    return {key: _profile(known, places) for key, known in shared_lists(shown).items()}


def _profile(known: Growing, places: Mapping[Any, int]) -> Profile:
    since, held, double = [-1], set[Any](), NEVER
    for number, value in enumerate(known.values, 1):
        since.append(max(since[-1], places.get(value, NEVER)))
        if value in held and double == NEVER:
            double = number
        held.add(value)
    return Profile(since, double)


def begins(longest: Sequence[Any], shown: Sequence[Any]) -> bool:
    """Whether the longer list begins with the other one."""
    if isinstance(longest, Shown) and isinstance(shown, Shown) and longest.known is shown.known:
        return True
    return list(longest[: len(shown)]) == list(shown)


def first_shown(reads: Iterable[tuple[Sequence[Any], int]]) -> dict[Any, int]:
    """Value → the lowest place of all reads that show it. ``reads``: what each showed, and its place."""
    found: dict[Any, int] = {}
    lowest: dict[int, tuple[Growing, dict[int, int]]] = {}
    for shown, place in reads:
        if isinstance(shown, Shown):
            _, by_size = lowest.setdefault(id(shown.known), (shown.known, {}))
            by_size[shown.size] = min(place, by_size.get(shown.size, place))
        else:
            _lower(found, ((value, place) for value in shown))
    for known, by_size in lowest.values():
        _lower(found, _behind(known, by_size))
    return found


def _behind(known: Growing, by_size: Mapping[int, int]) -> Iterator[tuple[Any, int]]:
    """Each value of a shared list, in its order, with the lowest place of the reads that are long enough to show it."""
    longest = max(by_size)
    places = accumulate((by_size.get(size, NEVER) for size in range(longest, 0, -1)), min)
    return zip(known.values[:longest], reversed(list(places)), strict=True)


def _lower(found: dict[Any, int], more: Iterable[tuple[Any, int]]) -> None:
    for value, place in more:
        if place < found.get(value, NEVER):
            found[value] = place


class Required:
    """Values that must be shown, and whether a read shows them all; of a shared list only its length is looked at."""

    def __init__(self, lists: Iterable[Growing]) -> None:
        self.values: dict[Any, None] = {}
        """In the order in which they came to be required."""
        self._places = {id(known): _places(known) for known in lists}
        self._behind = dict.fromkeys(self._places, 0)
        """Shared list → how long a read of it must be to show them all."""

    def add(self, value: Any) -> None:
        """This value, too."""
        self.values[value] = None
        for key, places in self._places.items():
            self._behind[key] = max(self._behind[key], places.get(value, NEVER))

    def missing(self, shown: Sequence[Any]) -> Any | None:
        """The first that the read does not show; None: it shows all."""
        if isinstance(shown, Shown) and self._behind.get(id(shown.known), NEVER) <= shown.size:
            return None
        held = set(shown)
        return next((value for value in self.values if value not in held), None)


def _places(known: Growing) -> dict[Any, int]:
    """Value → how long a read must be to show it."""
    return {value: place for place, value in reversed(list(enumerate(known.values, 1)))}
