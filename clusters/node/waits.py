"""How long the calling thread waited for a processor, and what the machine withheld: what explains a stall.

Guarantees: the kernel's own figures, since the last ``mark``, of the thread that made the object; an unreadable figure
is omitted, so its absence never reads as zero. Out of scope: any threshold, and what a figure excuses.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dethrone.harness.core.clock import MS, SECOND, Ns

SLOW_NS: Ns = 100 * MS
"""Reading the figures of the whole machine takes long, so their mark is up to this old, and they may cover so much
more than what they are of."""

CPU_STATS = ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat")
"""Where a container sees its own control group, version 2 and 1."""


def run_delay(schedstat: bytes) -> Ns | None:
    """How long a thread has waited for a processor so far; None if the kernel does not count it."""
    fields = schedstat.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields) or not int(fields[0]):
        return None
    return int(fields[1])


def stolen(stat: str, *, ticks_per_s: int, processors: int) -> Ns | None:
    """How long a processor was withheld from this machine so far, on average over all, from ``/proc/stat``."""
    fields = stat.split("\n", 1)[0].split()
    if len(fields) < 9 or fields[0] != "cpu" or not fields[8].isdigit():
        return None
    return int(fields[8]) * SECOND // ticks_per_s // processors


def throttled(cpu_stat: str) -> Ns | None:
    """How long a control group was throttled so far, from its ``cpu.stat``."""
    for line in cpu_stat.splitlines():
        name, _, value = line.partition(" ")
        if name in {"throttled_usec", "throttled_time"} and value.isdigit():
            return int(value) * (1000 if name == "throttled_usec" else 1)
    return None


class Waits:
    """The figures of one thread; only that thread may use it.

    ``look`` is called before a clock is read, ``mark`` after it: what was waited between the two is in both spans, so a
    wait that lengthens a span is never missing from its figures.
    """

    def __init__(self) -> None:
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._processors = os.cpu_count() or 1
        self._cpu_stat = next((path for path in CPU_STATS if os.access(path, os.R_OK)), None)
        self._seen = self._marked = b""
        self._slow: dict[str, Ns] = {}
        self._slow_at: Ns = 0

    def look(self) -> None:
        """Read the thread's figure: the next ``mark`` is of this moment."""
        if self._fd >= 0:
            self._seen = os.pread(self._fd, 96, 0)

    def mark(self, now: Ns) -> None:
        """What is counted begins at the last ``look``; ``now``: of the monotonic clock."""
        self._marked = self._seen
        if now - self._slow_at > SLOW_NS:
            self._slow_at, self._slow = now, self._read_slow()

    def since_mark(self) -> dict[str, Ns]:
        """``run_delay_ns``, and ``steal_ns`` and ``throttled_ns`` where they are known and not 0."""
        found: dict[str, Ns] = {}
        if self._fd >= 0:
            before, now = run_delay(self._marked), run_delay(os.pread(self._fd, 96, 0))
            if before is not None and now is not None:
                found["run_delay_ns"] = now - before
        for name, value in self._read_slow().items():
            if value > self._slow.get(name, value):
                found[name] = value - self._slow[name]
        return found

    def _read_slow(self) -> dict[str, Ns]:
        found: dict[str, Ns | None] = {}
        with contextlib.suppress(OSError):
            stat = _head("/proc/stat")
            found["steal_ns"] = stolen(stat, ticks_per_s=self._ticks, processors=self._processors)
        with contextlib.suppress(OSError):
            if self._cpu_stat is not None:
                found["throttled_ns"] = throttled(_head(self._cpu_stat))
        return {name: value for name, value in found.items() if value is not None}


def _head(path: str) -> str:
    with Path(path).open("rb", buffering=0) as file:
        return file.read(1024).decode("ascii", "replace")
