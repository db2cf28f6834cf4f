"""Keys of objects that grow: a few are in use at a time, and each retires after a bounded number of operations.

So what is known of one object stays small, however long the run: reads, searches for an order, and what a checker must
remember. Guarantees: pure; a retired key is replaced by a new one and never asked for again by the main phase. Out of
scope: what operations mean.

Source: the rotation of keys in Jepsen's independent generators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dethrone.harness.core.rng import Rng

KEY_OPS_MAX = 1000
"""Operations of one list, set or register. More than a default run does."""


class Keys:
    """The keys in use, ``names`` at first, which are a stem and the numbers from 0."""

    def __init__(self, names: Sequence[str], *, most: int = KEY_OPS_MAX) -> None:
        self._names = list(names)
        self._most = most
        self._taken = [0] * len(names)
        self._made = len(names)

    def choose(self, rng: Rng) -> str:
        """A key for the next operation, drawn uniformly."""
        at = rng.below(len(self._names))
        name = self._names[at]
        self._taken[at] += 1
        if self._taken[at] == self._most:
            self._names[at] = _named(name, self._made)
            self._made += 1
            self._taken[at] = 0
        return name


def known(first: Sequence[str], used: Iterable[str]) -> list[str]:
    """Of what was ``used``, the keys that the ``first`` ones began, and these, in the order in which they were made."""
    stem = _stem(first[0])
    return sorted({*first, *(name for name in used if _stem(name) == stem)}, key=_number)


def _stem(name: str) -> str:
    return name.rstrip("0123456789")


def _number(name: str) -> int:
    return int(name.removeprefix(_stem(name)) or 0)


def _named(name: str, number: int) -> str:
    return f"{_stem(name)}{number}"
