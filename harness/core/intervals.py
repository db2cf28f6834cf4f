"""Intervals of time: what of several of them is one.

Guarantees: pure; intervals are closed, (lo, hi) in ns. Out of scope: what an interval stands for.
"""

from __future__ import annotations

from collections.abc import Iterable

from dethrone.harness.core.clock import Ns

Interval = tuple[Ns, Ns]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points as intervals that do not touch, in order."""
    out: list[Interval] = []
    for lo, hi in sorted(intervals):
        if out and lo <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], hi))
        else:
            out.append((lo, hi))
    return out
