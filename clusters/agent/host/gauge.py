"""How slow the machine is under a dummy load, measured before the first node starts.

Guarantees: a measurement ends soon after its window; quantities that could not be measured are named. Out of scope: the
consequences for a run's limits.
"""

from __future__ import annotations

import collections
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.common import MS, SECOND, now_ns
from dethrone.clusters.agent.host.noise import FSYNC_NS, STALL_NS, TICK_S
from dethrone.clusters.agent.host.probes import echo_payload


class Gauge:
    """Measures wake-ups, syncs and round trips of the machine under a dummy load of computing and small writes.

    It runs before the first node starts and touches nothing of a node. The peer's agent answers the round trips
    (``Probes``).
    """

    WINDOW_MAX_NS = 10 * SECOND
    WRITES_MAX_PER_S = 200
    WRITE_BYTES = 512
    TRIP_PERIOD_S = 0.02
    TRIP_LIMIT_S = 0.5
    STALLS_MAX = 10_000
    WORK_NS, WORK_PERIOD_S = 2 * MS, 0.02
    """A tenth of a processor, like a busy node: on an overloaded machine, threads that ask for more wait longer."""

    def __init__(self, run: str, port: int) -> None:
        self._run, self._port = run, port

    def measure(self, directory: str, peers: Mapping[str, str], window_ns: int, writes_per_s: int) -> dict[str, Any]:
        """Every duration (ns) in a window of this length, and the quantities that could not be measured.

        ``stalls_ns``: (since the window began, length) of the longer wake-ups, syncs, and waits for a processor.
        """
        began = now_ns()
        end = began + min(window_ns, self.WINDOW_MAX_NS)
        found: dict[str, Any] = {"wakeups_ns": [], "syncs_ns": [], "trips_ns": [], "lost": 0, "unreadable": []}
        stalls: collections.deque[tuple[int, int]] = collections.deque(maxlen=self.STALLS_MAX)
        period_s = 1 / max(1, min(writes_per_s, self.WRITES_MAX_PER_S))
        works = (
            ("sync", lambda: self._sync(directory, period_s, end, found, stalls)),
            ("trips", lambda: self._trips(peers, end, found)),
            ("work", lambda: self._work(end, stalls)),
        )

        def guarded(name: str, work: Callable[[], None]) -> None:
            try:
                work()
            except OSError as error:
                found["unreadable"].append(f"{name}: {error.strerror or error}")

        threads = [threading.Thread(target=guarded, args=one, name=one[0], daemon=True) for one in works]
        for thread in threads:
            thread.start()
        self._wake(end, found, stalls)
        for thread in threads:
            thread.join(timeout=self.WINDOW_MAX_NS / SECOND)
            if thread.is_alive():
                found["unreadable"].append(f"{thread.name}: hangs")
        answer = {name: list(value) if isinstance(value, list) else value for name, value in found.items()}
        return {**answer, "stalls_ns": [(max(0, at - began), took) for at, took in stalls.copy()]}

    @staticmethod
    def _wake(end: int, found: dict[str, Any], stalls: collections.deque[tuple[int, int]]) -> None:
        tick_ns = int(TICK_S * SECOND)
        while True:
            before = now_ns()
            if before >= end:
                return
            time.sleep(TICK_S)
            late = max(0, now_ns() - before - tick_ns)
            found["wakeups_ns"].append(late)
            if late > STALL_NS:
                stalls.append((before + tick_ns, late))

    @classmethod
    def _work(cls, end: int, stalls: collections.deque[tuple[int, int]]) -> None:
        while now_ns() < end:
            before, used = now_ns(), time.thread_time_ns()
            while time.thread_time_ns() - used < cls.WORK_NS:
                sum(range(100))
            late = now_ns() - before - cls.WORK_NS
            if late > STALL_NS:
                stalls.append((before, late))
            time.sleep(cls.WORK_PERIOD_S)

    def _sync(
        self,
        directory: str,
        period_s: float,
        end: int,
        found: dict[str, Any],
        stalls: collections.deque[tuple[int, int]],
    ) -> None:
        while not os.path.isdir(directory) and directory not in {"", "/"}:  # noqa: PTH112
            directory = os.path.dirname(directory.rstrip("/"))  # noqa: PTH120 - the node's directory is created later
        fd, path = tempfile.mkstemp(prefix=".dethrone-", dir=directory)
        os.unlink(path)  # noqa: PTH108
        offset = 0
        try:
            while now_ns() < end:
                before = now_ns()
                os.pwrite(fd, b"\0" * self.WRITE_BYTES, offset)
                os.fdatasync(fd)
                took = now_ns() - before
                found["syncs_ns"].append(took)
                if took > FSYNC_NS:
                    stalls.append((before, took))
                offset = (offset + self.WRITE_BYTES) % (1 << 20)
                time.sleep(max(0.001, period_s - took / SECOND))
        finally:
            os.close(fd)

    def _trips(self, peers: Mapping[str, str], end: int, found: dict[str, Any]) -> None:
        addresses = [address for _, address in sorted(peers.items())]
        if not addresses:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(self.TRIP_LIMIT_S)
            number = 0
            while now_ns() < end:
                address = addresses[number % len(addresses)]
                number += 1
                before = now_ns()
                if self._answered(asking, address, number):
                    found["trips_ns"].append(now_ns() - before)
                else:
                    found["lost"] += 1
                time.sleep(self.TRIP_PERIOD_S)

    def _answered(self, asking: socket.socket, address: str, number: int) -> bool:
        """Whether the peer's agent answered this question in time."""
        deadline = time.monotonic() + self.TRIP_LIMIT_S
        try:
            asking.sendto(echo_payload("ask", self._run, number), (address, self._port))
            while time.monotonic() < deadline:
                if asking.recv(2048) == echo_payload("answer", self._run, number):
                    return True
        except OSError:
            return False
        return False
