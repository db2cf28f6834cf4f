"""Rolling hashes of the prefixes (``rolling``) of many entries at once.

Guarantees: what ``rolling.roll`` gives entry after entry. Out of scope: what the hashes are for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dethrone.harness.core.columns import Ints
from dethrone.harness.core.rolling import MASK, MULTIPLIER, PAYLOADS, TERMS

_INVERSE = pow(MULTIPLIER, -1, 2**64)
_mask = np.uint64(MASK)


def rolled(before: int, term: Ints, payload: Ints) -> Ints:
    """The hash of the prefix that ends with each of these consecutive entries; ``before``: of that before the first."""
    size = len(term)
    mixed = (payload.view(np.uint64) ^ (term.view(np.uint64) * np.uint64(TERMS) & _mask)) * np.uint64(PAYLOADS)
    sums = np.cumsum(mixed * _powers(_INVERSE, size), dtype=np.uint64) + np.uint64(before)
    return (sums * _powers(MULTIPLIER, size) & _mask).view(np.int64)


def _powers(base: int, size: int) -> NDArray[np.uint64]:
    """The first ``size`` powers, from the first on."""
    return np.multiply.accumulate(np.full(size, base, dtype=np.uint64))
