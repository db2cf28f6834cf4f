"""The rolling hash of a log's prefix, the same on every machine and in every process.

Guarantees: a polynomial modulo 2**64 with an odd multiplier, so that the hashes of many prefixes come of one pass over
arrays; standard library only, Python 3.8. Out of scope: entries that are made to collide.
"""

from __future__ import annotations

import hashlib

MODULUS = 2**64
MULTIPLIER = 0x9E3779B97F4A7C15
TERM_FACTOR = 0xC2B2AE3D27D4EB4F
MIX_FACTOR = 0xFF51AFD7ED558CCD
SHIFTS = (32, 29)


def number(payload: str | int) -> int:
    """A number of 64 bits for the payload of an entry."""
    raw = b"i%d" % payload if isinstance(payload, int) else payload.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def mix(term: int, payload: int) -> int:
    """An entry, its payload as a number, in 64 bits."""
    mixed = (payload + term * TERM_FACTOR) % MODULUS
    mixed ^= mixed >> SHIFTS[0]
    mixed = mixed * MIX_FACTOR % MODULUS
    return mixed ^ (mixed >> SHIFTS[1])


def roll(before: int, term: int, payload: int) -> int:
    """The hash of the prefix that ends with this entry; ``before``: that of the one before it, 0 if empty."""
    return (before * MULTIPLIER + mix(term, payload)) % MODULUS
