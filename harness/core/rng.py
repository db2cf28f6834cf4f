"""The only source of chance: a small integer generator (SplitMix64) with named sub-streams.

Guarantees: the same seed gives the same draws on any machine, Python and hash seed; adding draws to one stream does not
move another. Out of scope: floating point and cryptographic strength.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Rng:
    """A stream of draws. ``stream(name)`` gives an independent stream that depends on the seed and the name only."""

    __slots__ = ("_state", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed & _MASK
        self._state = self.seed

    def stream(self, name: str) -> Rng:
        """An independent generator named ``name``; it does not advance this one."""
        digest = hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest()
        return Rng(int.from_bytes(digest, "big"))

    def next64(self) -> int:
        """A uniform integer in [0, 2**64)."""
        self._state = (self._state + _GAMMA) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """A uniform integer in [0, n); ``n`` must be positive and below 2**64. Unbiased by rejection."""
        if n <= 0:
            raise ValueError(f"below({n}): the bound must be positive")
        while True:
            draw = self.next64()
            # The last, incomplete run of n is refused. It is shorter than n, so the exact bound is rarely worked out.
            if draw <= _MASK - n or draw < (1 << 64) - ((1 << 64) % n):
                return draw % n

    def between(self, lo: int, hi: int) -> int:
        """A uniform integer in [lo, hi], both ends included."""
        return lo + self.below(hi - lo + 1)

    def chance(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        return self.below(denominator) < numerator

    def choice(self, items: Sequence[T]) -> T:
        """One of ``items``, uniformly."""
        return items[self.below(len(items))]

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """A new list with ``items`` in a uniformly drawn order."""
        out = list(items)
        for i in range(len(out) - 1, 0, -1):
            j = self.below(i + 1)
            out[i], out[j] = out[j], out[i]
        return out

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """``k`` different items, in drawn order."""
        return self.shuffle(items)[:k]
