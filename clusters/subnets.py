"""Free ranges of addresses for the network of a run, out of the range that is reserved for benchmarks.

Guarantees: no range that this machine routes already; two runs that look at the same moment begin at different places.
Out of scope: taking a range: the caller that makes a network finds out whether another one was quicker.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from pathlib import Path

POOL = ipaddress.IPv4Network("198.18.0.0/15")
_RANGES = tuple(POOL.subnets(new_prefix=24))

FIRST_HOST = 11
"""Address of the first node within its range; what is below belongs to the maker of the network."""

MAX_NODES = 200


def candidates(run_id: str, taken: Iterable[str]) -> list[str]:
    """Free ranges in the order to try them: it differs by run, so that two of one moment rarely meet."""
    used = [ipaddress.IPv4Network(subnet) for subnet in taken]
    begin = int.from_bytes(hashlib.blake2b(run_id.encode(), digest_size=4).digest(), "big") % len(_RANGES)
    ordered = [*_RANGES[begin:], *_RANGES[:begin]]
    return [str(subnet) for subnet in ordered if not any(subnet.overlaps(other) for other in used)]


def routes(path: Path = Path("/proc/net/route")) -> list[str]:
    """Ranges that this machine routes somewhere already, less the default route and its halves."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        address = ipaddress.IPv4Address(bytes.fromhex(destination)[::-1])
        prefix = int(mask, 16).bit_count()
        if prefix > 8:
            found.append(str(ipaddress.IPv4Network((address, prefix), strict=False)))
    return found
