"""The rolling hash of a log's prefix: the same number on each host, in each process, and in each version of Python.

Guarantees: a polynomial modulo 2**63 with an odd multiplier, so that the hashes of all prefixes are sums that arrays
can compute at once. Two different logs have the same one by chance only (2**-63 where payloads are digests); it is no
defence against a search for such logs. Pure.
"""

from __future__ import annotations

import hashlib
import re

SIZE = 2**63
"""So that a hash fits into a signed number of 64 bits."""
MASK = SIZE - 1
MULTIPLIER = 0x9E3779B97F4A7C15
TERMS = 0xD6E8FEB86659FD93
PAYLOADS = 0xBF58476D1CE4E5B9

_is_digest = re.compile(r"[0-9a-f]{16}").fullmatch


def number(payload: str | int) -> int:
    """63 bits of an entry's payload hash: a digest of 16 hexadecimal digits as it is, anything else by its digest."""
    if isinstance(payload, int):
        return payload & MASK
    if _is_digest(payload):
        return int(payload, 16) & MASK
    text = payload.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") & MASK


def roll(before: int, term: int, payload: int) -> int:
    """The hash of the prefix that ends with this entry, after that of the prefix before it (0: of nothing)."""
    return (before * MULTIPLIER + (payload ^ (term * TERMS & MASK)) * PAYLOADS) & MASK
