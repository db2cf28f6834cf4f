"""Chance in bulk: endless uniform integers of one range, drawn a block at a time.

Promises: a stream depends on its seed, name and range only, the same on any machine and Python; integers only. Uniform
up to one part in 2**32. Leaves out single decisions: those are drawn from ``harness.core.rng.Rng``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator

from harness.core.clock import Ns
from harness.core.rng import Rng

_BLOCK = 512
_UNPACK = struct.Struct(f"<{_BLOCK}I").unpack
_SPAN_MAX = 1 << 32


def uniform(rng: Rng, name: str, lo: Ns, hi: Ns) -> Callable[[], Ns]:
    """A function whose calls give integers from [lo, hi], both ends included. ``hi - lo`` is below 2**32."""
    span = hi - lo + 1
    if not 0 < span <= _SPAN_MAX:
        raise ValueError(f"no range to draw from: [{lo}, {hi}]")
    if span == 1:
        return lambda: lo
    return _draws(rng.stream(name).seed, lo, span).__next__


def _draws(seed: int, lo: Ns, span: int) -> Iterator[Ns]:
    key = seed.to_bytes(8, "big")
    number = 0
    while True:
        block = hashlib.shake_128(key + number.to_bytes(8, "big")).digest(4 * _BLOCK)
        yield from [lo + (draw * span >> 32) for draw in _UNPACK(block)]
        number += 1
