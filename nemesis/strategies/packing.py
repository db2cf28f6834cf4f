"""Packing demands into few steps: a small backtracking search, as a pure function.

Guarantees: every group satisfies ``fits``; the result is a function of the arguments; bounded. Out of scope: what
demands are, and what follows if they do not fit (``dethrone.harness.engine.run.schedule_draw``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

TRIES_MAX = 20_000
"""Placements that are tried before a packing counts as impossible."""


def pack(items: Sequence[T], groups_max: int, fits: Callable[[Sequence[T]], bool]) -> list[list[T]] | None:
    """All ``items`` in at most ``groups_max`` groups, each alone as long as there is room; None: not found."""
    groups: list[list[T]] = []
    tries = 0

    def place(index: int) -> bool:
        nonlocal tries
        if index == len(items):
            return True
        tries += 1
        if tries > TRIES_MAX:
            return False
        item = items[index]
        if len(groups) < groups_max:
            groups.append([item])
            if place(index + 1):
                return True
            groups.pop()
        for group in groups:
            if fits([*group, item]):
                group.append(item)
                if place(index + 1):
                    return True
                group.pop()
        return False

    return groups if place(0) else None


def pack_most(
    items: Sequence[T], groups_max: int, fits: Callable[[Sequence[T]], bool]
) -> tuple[list[list[T]], list[T]]:
    """A packing of ``items``, of which one that does not fit with those before it is dropped; and what was kept."""
    whole = pack(items, groups_max, fits)
    if whole is not None:
        return whole, list(items)
    groups: list[list[T]] = []
    kept: list[T] = []
    for item in items:
        more = pack([*kept, item], groups_max, fits)
        if more is not None:
            groups, kept = more, [*kept, item]
    return groups, kept
