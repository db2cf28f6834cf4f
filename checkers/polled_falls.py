"""Numbers that a process must never take back, by polls of which one was certainly answered before the other was asked.

Guarantees: one rule for runs that are watched and for whole histories; of a history only those processes are gone
through whose number fell between two polls. Out of scope: what the number is, and what a fall means.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import Ints, ObservedColumns

Poll = TypeVar("Poll")


class Highest(Generic[Poll]):
    """One process: the highest value that was certainly reported before a moment."""

    __slots__ = ("_ends", "_steps")

    def __init__(self) -> None:
        self._ends: list[Ns] = []
        self._steps: list[tuple[int, Poll]] = []
        """(value, the first poll that reported so much by then), a higher value with each end."""

    def take(self, lo: Ns, hi: Ns, value: int, poll: Poll) -> Poll | None:
        """Take a poll of this span; if it shows a fall, the one with the highest value that certainly came before."""
        ends, steps = self._ends, self._steps
        at = bisect_left(ends, lo)
        fell = steps[at - 1][1] if at and steps[at - 1][0] > value else None
        at = bisect_right(ends, hi, lo=at)
        if not at or steps[at - 1][0] < value:
            until = at
            while until < len(steps) and steps[until][0] <= value:
                until += 1
            ends[at:until] = [hi]
            steps[at:until] = [(value, poll)]
        return fell


def polled_falls(obs: ObservedColumns, values: Ints, *, least: int) -> Iterator[tuple[int, int]]:
    """The first fall of each process, as rows (before, after); values below ``least`` say nothing.

    Vectorised up to the suspects.
    """
    order = obs.order
    said = values[order] >= least
    if not said.all():
        order = order[said]
    who, value = obs.identities[order], values[order]
    # As asked, what never falls from one poll to the next never falls.
    suspects = np.unique(who[1:][(who[1:] == who[:-1]) & (value[1:] < value[:-1])])
    for identity in suspects.tolist():
        rows = order[who == identity]
        highest: Highest[int] = Highest()
        for lo, hi, told, row in zip(
            obs.lo[rows].tolist(), obs.hi[rows].tolist(), values[rows].tolist(), rows.tolist(), strict=True
        ):
            before = highest.take(lo, hi, told, row)
            if before is not None:
                yield before, row
                break
