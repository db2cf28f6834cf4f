"""The addresses of this host and of its peers, as the kernel lists them.

Guarantees: every address of both families that others may send to is found; a peer is known only by addresses that no
other host has. Out of scope: names, and whether anything answers there.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence

RTM_NEWADDR, RTM_GETADDR, NLM_F_REQUEST_DUMP, NLMSG_ERROR, NLMSG_DONE = 20, 22, 0x301, 2, 3
IFA_ADDRESS, IFA_LOCAL, SCOPE_HOST, DAD_FAILED = 1, 2, 254, 0x08


def is_v6(address: str) -> bool:
    """Whether this is an IPv6 address."""
    return ":" in address


def whole(address: str) -> str:
    """The address as a rule spells it."""
    return f"{address}/{128 if is_v6(address) else 32}"


def ways(peers: Mapping[str, Sequence[str]], own: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The addresses that identify each peer: not ours, and of no second peer."""
    taken = collections.Counter(address for addresses in peers.values() for address in set(addresses))
    strange = {*own, *(address for address, count in taken.items() if count > 1)}
    return {name: tuple(one for one in addresses if one not in strange) for name, addresses in peers.items()}


def own_addresses() -> list[str]:
    """Every address of this host, of both families, that others may send to, as the kernel lists them (rtnetlink)."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asking:
        asking.settimeout(1)
        asking.send(struct.pack("=LHHLLBxxxL", 24, RTM_GETADDR, NLM_F_REQUEST_DUMP, 1, 0, socket.AF_UNSPEC, 0))
        more = True
        while more:
            data = asking.recv(1 << 17)
            while len(data) >= 16:
                size, kind = struct.unpack_from("=LH", data)
                if kind in {NLMSG_ERROR, NLMSG_DONE} or size < 16:
                    more = False
                    break
                if kind == RTM_NEWADDR:
                    found += _address_of(data[16:size])
                data = data[size + 3 & ~3 :]
    return sorted(set(found))


def _address_of(message: bytes) -> list[str]:
    """The address in an RTM_NEWADDR message, unless only this host can reach it."""
    family, _, flags, scope, _ = struct.unpack_from("=BBBBL", message)
    if scope == SCOPE_HOST or flags & DAD_FAILED or family not in {socket.AF_INET, socket.AF_INET6}:
        return []
    parts, rest = {}, message[8:]
    while len(rest) >= 4:
        size, kind = struct.unpack_from("=HH", rest)
        if size < 4:
            break
        parts[kind] = rest[4:size]
        rest = rest[size + 3 & ~3 :]
    raw = parts.get(IFA_LOCAL, parts.get(IFA_ADDRESS, b""))
    if len(raw) != (4 if family == socket.AF_INET else 16) or (raw[0] == 127 and family == socket.AF_INET):
        return []
    return [socket.inet_ntop(family, raw)]


def default_gateway() -> str | None:
    """The IPv4 default gateway of this host: the source address of the harness, as a container sees it."""
    try:
        with open("/proc/net/route", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                fields = line.split()
                if len(fields) > 3 and fields[1] == "00000000" and int(fields[3], 16) & 2:
                    return socket.inet_ntoa(struct.pack("<L", int(fields[2], 16)))
    except (OSError, ValueError):
        pass
    return None
