"""How sure it is that a coin shows heads more, or less, than half the time, whenever one stops to look.

``evidence(k, n)`` is the likelihood of k heads in n throws under a chance drawn evenly from above 1/2, over that of a
fair coin. If heads come at most half the time, it ever reaches 1/a with a chance of at most a (Ville's inequality), so
throws may be repeated until it is sure: no number of throws has to be fixed before. A p-value does not bear that.

Source: J. Ville, "Étude critique de la notion de collectif", 1939; H. Robbins, "Statistical methods related to the law
of the iterated logarithm", Annals of Mathematical Statistics 41, 1970 (mixtures). Guarantees: pure; exact fractions.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction


@functools.lru_cache(maxsize=4096)
def evidence(heads: int, throws: int) -> Fraction:
    """Against "heads come at most half the time"; at least 0, and 1 before the first throw."""
    at_most = sum(math.comb(throws + 1, j) for j in range(heads + 1))
    drawn = Fraction(math.factorial(heads) * math.factorial(throws - heads), math.factorial(throws + 1))
    return 2 * Fraction(2) ** throws * drawn * Fraction(at_most, 2 ** (throws + 1))


def more_than_half(heads: int, throws: int, *, error: float) -> bool:
    """Whether heads certainly come more than half the time; wrong with a chance of at most ``error``."""
    return float(evidence(heads, throws)) >= 1 / error


def throws_needed(heads: int, tails: int, *, error: float, most: int) -> int:
    """The fewest further throws after which either side may be certain, if all of them agree; at most ``most``."""
    for more in range(1, most + 1):
        if more_than_half(heads + more, heads + tails + more, error=error) or more_than_half(
            tails + more, heads + tails + more, error=error
        ):
            return more
    return most
