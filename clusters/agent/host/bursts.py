"""Bursts of numbered datagrams that show how a link is: what arrived, how late, how often and in which order.

Guarantees: a datagram counts only if it is of this run and comes from an address of the host that it names; what is
kept is bounded. Out of scope: how links should be (``dethrone.clusters.agent.shaped``).
"""

from __future__ import annotations

import collections
import contextlib
import re
import socket
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.addresses import is_v6
from dethrone.clusters.agent.host.common import SECOND, now_ns

BURST_MAX = 1000
"""The most datagrams of one burst."""
BURST_BYTES_MAX = 1400
BURSTS_KEPT = 16
"""The most bursts whose arrivals are kept."""
PAUSE_EVERY, PAUSE_S = 32, 0.001
"""Datagrams are sent in small groups, which fit into any socket's buffer."""


def burst_head(run: str, nonce: int, sender: str, number: int) -> bytes:
    """The beginning of one datagram of a burst, which carries the time when it was sent, and padding."""
    return f"dethrone-burst {run} {nonce} {sender} {number} {now_ns()} ".encode()


class Bursts:
    """The bursts that arrived at this host, and those that it sends. Thread-safe."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._arrived: collections.OrderedDict[int, dict[str, list[tuple[int, int, int]]]] = collections.OrderedDict()
        """Nonce → sender → (number, sent, arrived), in the order of arrival."""
        self._errors: dict[int, int] = {}

    def begin(self, nonce: int) -> None:
        """Datagrams of this nonce will come."""
        with self._changed:
            self._arrived.setdefault(nonce, {})
            self._errors.setdefault(nonce, checksum_errors())
            while len(self._arrived) > BURSTS_KEPT:
                old, _ = self._arrived.popitem(last=False)
                self._errors.pop(old, None)

    def send(
        self,
        nonce: int,
        sender: str,
        plan: Mapping[str, tuple[str, int, int]],
        sockets: Mapping[int, socket.socket],
        port: int,
    ) -> dict[str, str]:
        """Send ``plan``: peer → its address, how many datagrams, of how many bytes; peer → why that failed."""
        failed: dict[str, str] = {}
        most = max((count for _, count, _ in plan.values()), default=0)
        for number in range(most):
            for peer, (address, count, size) in plan.items():
                if number >= count or peer in failed:
                    continue
                through = sockets.get(socket.AF_INET6 if is_v6(address) else socket.AF_INET)
                try:
                    if through is None:
                        raise OSError(0, "this host has no such socket")
                    through.sendto(burst_head(self._run, nonce, sender, number).ljust(size, b"."), (address, port))
                except OSError as error:
                    failed[peer] = str(error.strerror)
            if number % PAUSE_EVERY == PAUSE_EVERY - 1:
                time.sleep(PAUSE_S)
        return failed

    def take(self, payload: bytes, source: str, ways: Mapping[str, Sequence[str]]) -> bool:
        """Count a datagram; False if it is of no burst."""
        if not payload.startswith(b"dethrone-burst "):
            return False
        arrived = now_ns()
        words = payload.decode("utf-8", "replace").split(" ", 6)
        if len(words) < 6 or words[1] != self._run or source not in ways.get(words[3], ()):
            return True
        if not all(re.fullmatch(r"\d{1,20}", words[place]) for place in (2, 4, 5)):
            return True
        with self._changed:
            found = self._arrived.get(int(words[2]), {}).setdefault(words[3], [])
            if len(found) < 2 * BURST_MAX:
                found.append((int(words[4]), int(words[5]), arrived))
            self._changed.notify_all()
        return True

    def wait(self, nonce: int, expect: Mapping[str, int], timeout_ns: int) -> dict[str, Any]:
        """Wait until all of these datagrams arrived, or time is up; returns what arrived, per sender (``summary``).

        ``checksum_errors``: the datagrams that the kernel dropped since the burst began because they were corrupted.
        """
        with self._changed:
            arrived = self._arrived.get(nonce, {})

            def complete() -> bool:
                return all(
                    len({number for number, *_ in arrived.get(src, ())}) >= count for src, count in expect.items()
                )

            self._changed.wait_for(complete, timeout=timeout_ns / SECOND)
            found = {src: summary(seen) for src, seen in arrived.items()}
            return {"bursts": found, "checksum_errors": checksum_errors() - self._errors.get(nonce, 0)}


def summary(arrived: Sequence[tuple[int, int, int]]) -> dict[str, int]:
    """What (number, sent, arrived) show, ns.

    ``arrived``: how many, ``twice``: how many of them more than once, ``overtaken``: how many arrived after a later
    one. ``late_…``: the time that they took, by the clocks of both ends. ``took``: between the first and the last.
    """
    firsts: dict[int, int] = {}
    overtaken, highest = 0, -1
    for number, sent, at in arrived:
        if number in firsts:
            continue
        firsts[number] = at - sent
        overtaken += number < highest
        highest = max(highest, number)
    late = sorted(firsts.values())
    times = [at for *_, at in arrived]
    return {
        "arrived": len(firsts),
        "twice": sum(count > 1 for count in collections.Counter(number for number, *_ in arrived).values()),
        "overtaken": overtaken,
        "late_min": late[0],
        "late_median": int(statistics.median(late)),
        "late_max": late[-1],
        "took": max(times) - min(times),
    }


def checksum_errors() -> int:
    """The datagrams of UDP that this network namespace has dropped because their checksum was wrong."""
    total = 0
    with contextlib.suppress(OSError, ValueError), open("/proc/net/snmp", encoding="ascii") as file:  # noqa: PTH123
        heads = [line.split() for line in file if line.startswith("Udp:")]
        total += int(heads[1][heads[0].index("InCsumErrors")])
    with contextlib.suppress(OSError, ValueError), open("/proc/net/snmp6", encoding="ascii") as file:  # noqa: PTH123
        total += sum(int(line.split()[1]) for line in file if line.startswith("Udp6InCsumErrors"))
    return total
