"""The Kolmogorov–Smirnov test against a uniform distribution, as claims about random times need it."""

from __future__ import annotations

import math
from collections.abc import Sequence

CRITICAL = 1.628
"""sqrt(n) times the largest distance, at a level of one in a hundred; seeds are fixed, so a verdict is, too."""


def distance(drawn: Sequence[float], lo: float, hi: float) -> float:
    """The largest distance between the drawn distribution and the uniform one on [lo, hi)."""
    row = sorted(drawn)
    n = len(row)
    ranks = [(value - lo) / (hi - lo) for value in row]
    return max(max((k + 1) / n - rank, rank - k / n) for k, rank in enumerate(ranks))


def uniform(drawn: Sequence[float], lo: float, hi: float) -> bool:
    """Whether this may well have been drawn uniformly from [lo, hi): all inside, and not too far from it."""
    return all(lo <= value < hi for value in drawn) and math.sqrt(len(drawn)) * distance(drawn, lo, hi) < CRITICAL
