"""Ranges of addresses for the network of a run, out of the range that is reserved for benchmarks.

Guarantees: an address is fixed by its node's place; no range that this machine routes already; two runs that look at
the same moment begin at different places. Out of scope: taking a range: the caller that makes a network finds out
whether another one was quicker.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import ClusterError, ConfigError

POOL = ipaddress.IPv4Network("198.18.0.0/15")
_RANGES = tuple(POOL.subnets(new_prefix=24))

FIRST_HOST = 11
"""Address of the first node within its range; what is below belongs to the maker of the network."""

MAX_NODES = 200


class RunRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a run's network. The first address is this machine's: there clients' packets come from."""

    subnet: str

    def _at(self, index: int) -> str:
        return str(ipaddress.IPv4Network(self.subnet)[index])

    @property
    def gateway(self) -> str:
        """This machine's address on it."""
        return self._at(1)

    def address(self, index: int) -> str:
        """The fixed address of the node with this index."""
        return self._at(FIRST_HOST + index)


def check_room(nodes: int) -> None:
    """Raise ConfigError for more nodes than fit into one range."""
    if nodes > MAX_NODES:
        raise ConfigError(f"{nodes} nodes do not fit into one network", next_step=f"ask for at most {MAX_NODES}")


def none_free(*, where: str, see: str) -> ClusterError:
    """The error when every range is taken. ``where``: by what, ``see``: the commands that show it."""
    return ClusterError(
        f"no free range for a network in {POOL}",
        where=where,
        cause="leftovers of many runs, or a VPN that routes the whole range",
        next_step=f"run `dethrone heal`; see {see}",
    )


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
