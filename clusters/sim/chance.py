"""Chance in bulk: endless uniform integers of one range, drawn a block at a time.

Guarantees: a stream depends on its seed, name and range only, the same on any machine and Python; integers only.
Uniform up to one part in 2**32. Out of scope: single decisions: those are drawn from ``dethrone.harness.core.rng.Rng``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from struct import unpack

import numpy as np

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

_BLOCK = 512
_FIRST = 32
"""How many of the first block are drawn alone: a run needs no more of most streams."""
_SPAN_MAX = 1 << 32


def uniform(rng: Rng, name: str, lo: Ns, hi: Ns) -> Callable[[], Ns]:
    """A function whose calls give integers from [lo, hi], both ends included. ``hi - lo`` is below 2**32."""
    span = hi - lo + 1
    if not 0 < span <= _SPAN_MAX:
        raise ValueError(f"no range to draw from: [{lo}, {hi}]")
    if span == 1:
        return repeat(lo).__next__
    # The chain steps through a block without entering Python: a draw a message is made here.
    return chain.from_iterable(_blocks(rng.stream(name).seed, lo, span)).__next__


def _blocks(seed: int, lo: Ns, span: int) -> Iterator[list[Ns]]:
    key = seed.to_bytes(8, "big")
    first = hashlib.shake_128(key + bytes(8)).digest(4 * _FIRST)
    yield [lo + (draw * span >> 32) for draw in unpack(f"<{_FIRST}I", first)]
    number = 0
    while True:
        digest = hashlib.shake_128(key + number.to_bytes(8, "big")).digest(4 * _BLOCK)
        draws = np.frombuffer(digest, dtype="<u4")[0 if number else _FIRST :]
        # Below 2**64, for both factors are at most 2**32 and the draw is less.
        yield (lo + (draws.astype(np.uint64) * np.uint64(span) >> np.uint64(32)).astype(np.int64)).tolist()
        number += 1
