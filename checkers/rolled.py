"""Rolling hashes of prefixes (``rolling``) of many entries at once.

Guarantees: what ``rolling.roll`` gives entry by entry, as 64 bits with a sign. Out of scope: what the hashes are for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dethrone.harness.core.columns import Ints
from dethrone.harness.core.rolling import MIX_FACTOR, MODULUS, MULTIPLIER, SHIFTS, TERM_FACTOR

_INVERSE = pow(MULTIPLIER, -1, MODULUS)
_first, _second = map(np.uint64, SHIFTS)


def mixed(term: Ints, payload: Ints) -> NDArray[np.uint64]:
    """``rolling.mix`` of each."""
    found = payload.view(np.uint64) + term.view(np.uint64) * np.uint64(TERM_FACTOR)
    found ^= found >> _first
    found *= np.uint64(MIX_FACTOR)
    found ^= found >> _second
    return found


def rolled(before: int, term: Ints, payload: Ints) -> Ints:
    """The hash of the prefix that ends with each of these consecutive entries; ``before``: of that before the first."""
    size = len(term)
    powers, inverses = _powers(MULTIPLIER, size), _powers(_INVERSE, size)
    sums = np.cumsum(mixed(term, payload) * inverses, dtype=np.uint64) + np.uint64(before % MODULUS)
    return (sums * powers).view(np.int64)


def _powers(base: int, size: int) -> NDArray[np.uint64]:
    """The first ``size`` powers, from the first on."""
    found = np.full(size, np.uint64(base), dtype=np.uint64)
    return np.multiply.accumulate(found)
