"""Noise of the host: missed wake-ups, jumps of the wall clock, slow syncs, and totals of waiting.

Guarantees: noise that lasts longer than the limit is news, already while a sync hangs; an unreadable source is declared
as such; the agent's own work does not count as noise. Out of scope: the node's threads (``threads``), and what noise
excuses.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import MS, SECOND, STARVED_NS, now_ns
from dethrone.clusters.agent.host.news import News

TICK_S = 0.005
STALL_NS = 20 * MS
FSYNC_NS = 20 * MS
WALL_JUMP_NS = 5 * MS
SYNC_GAP_S = 0.02
"""The pause between the canary's syncs: one is always in flight, or about to be."""
SYNC_BYTES = 512
SYNC_FILE_BYTES = 64 << 10
"""The canary's file grows by ``SYNC_BYTES`` per sync, so that a sync waits for the journal as a node's does; it is
truncated at this size."""
SYNC_ERROR_PAUSE_S = 1.0
LOAD_S = 10.0
"""Window of the host-wide totals."""


def percentile(histogram: Sequence[int], share: float) -> int:
    """Upper bound (ns) of the power-of-two bucket that this percentile lies in; 0 without values."""
    total, seen = sum(histogram), 0
    for power, count in enumerate(histogram):
        seen += count
        if total and seen >= share * total:
            return int(2**power)
    return 0


class Hanging:
    """When to report something in flight since ``began``: after ``limit_ns``, then each time its length doubled."""

    def __init__(self, began: int, limit_ns: int) -> None:
        self._began = began
        self._due = began + limit_ns

    def due(self, now: int) -> bool:
        """Whether to report it now; True at most once per doubling."""
        if now <= self._due:
            return False
        self._due = now + (now - self._began)
        return True


class Gap:
    """Whether a watching thread was itself delayed between two looks: the time that it missed is noise, too.

    A thread that worked for at least half of the time was not delayed.
    """

    def __init__(self) -> None:
        self._due = (0, 0)

    def begin(self, due: int, busy: int) -> None:
        """A look ended, and the next one is ``due``; 0: there is none. ``busy``: the thread's own processor time."""
        self._due = (due, busy)

    def end(self, now: int, busy: int, limit_ns: int) -> tuple[int, int] | None:
        """The next look begins: returns the span of its delay, if longer than ``limit_ns``."""
        due, worked = self._due
        late = now - due
        if not due or late <= limit_ns or 2 * (busy - worked) > late:
            return None
        return due, now


def parse_pressure(text: str) -> int | None:
    """From a file in ``/proc/pressure``: how long some task has waited, in total (ns)."""
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return None if found is None else int(found.group(1)) * 1000


def parse_steal(text: str, ticks_per_s: int) -> int | None:
    """From ``/proc/stat``: the stolen time of all processors together (ns)."""
    fields = text.split("\n", 1)[0].split()
    if len(fields) < 9 or fields[0] != "cpu" or not fields[8].isdigit():
        return None
    return int(fields[8]) * SECOND // ticks_per_s


def parse_throttled(text: str) -> int | None:
    """From a control group's ``cpu.stat``, of either version: how long it was throttled (ns)."""
    for name, unit in (("throttled_usec", 1000), ("throttled_time", 1)):
        found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
        if found is not None:
            return int(found.group(1)) * unit
    return None


def cpu_stat_places(text: str) -> list[str]:
    """Where a process's ``cpu.stat`` may be, the likeliest first; ``text`` is its ``/proc/PID/cgroup``.

    Version 1 and the hybrid have a hierarchy for the controller; a container sees its own group as the root.
    """
    places = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        path = "" if path in {"", "/"} else path
        if number == "0" and not names:
            roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        elif "cpu" in names.split(","):
            roots = [f"/sys/fs/cgroup/{names}", "/sys/fs/cgroup/cpu"]
        else:
            continue
        places += [f"{root}{below}/cpu.stat" for below in dict.fromkeys((path, "")) for root in roots]
    return list(dict.fromkeys(places))


class Canary:
    """Watches the host's noise: missed wake-ups, jumps of the wall clock, slow small syncs near the node's data.

    One sync is always in flight, and one that hangs is reported while it hangs.
    """

    def __init__(self, news: News, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._news = news
        self._sync_file = sync
        self._data_dir: str | None = None
        self.shifted: Callable[[], int] = lambda: 0
        """How far the agent itself has moved the wall clock, which is no noise."""
        self.changed: Callable[[], None] = lambda: None
        """Called when ``sources`` has changed."""
        self.limit_ns = STARVED_NS
        """Longer noise is news; so is each new maximum above ``STALL_NS`` or ``FSYNC_NS``."""
        self._lock = threading.Lock()
        self._ticks = [0] * 48
        self._fsyncs = [0] * 48
        self._figures = {"stalls": 0, "own_stalls": 0, "stall_max_ns": 0, "wall_jumps": 0, "wall_drift_ns": 0}
        self._figures.update({"fsync_slow": 0, "fsync_max_ns": 0, "fsync_errors": 0})
        self._disk = "unreadable: the node's data directory is not known yet"
        self._flight: tuple[int, int, Hanging] | None = None
        """The sync under way: its number, when it began, when to report it."""
        self._poke = threading.Event()
        self.disk_known = threading.Event()
        """Set once it is known whether the disk can be probed."""
        threading.Thread(target=self._watch, name="canary", daemon=True).start()
        threading.Thread(target=self._sync, name="fsync-probe", daemon=True).start()

    def watch_disk(self, data_dir: str) -> None:
        """Probe the disk of this directory from now on."""
        self._data_dir = data_dir
        self._poke.set()

    def sources(self) -> dict[str, str]:
        """``wakeup`` and ``sync``."""
        return {"wakeup": "read", "sync": self._disk}

    def summary(self) -> dict[str, Any]:
        """Figures since the agent started; times in ns, percentiles are upper bounds of power-of-two buckets."""
        with self._lock:
            figures: dict[str, Any] = dict(self._figures)
            figures["ticks"], figures["fsyncs"] = sum(self._ticks), sum(self._fsyncs)
            for name, histogram in (("stall", self._ticks), ("fsync", self._fsyncs)):
                for share in (50, 99):
                    figures[f"{name}_p{share}_ns"] = percentile(histogram, share / 100)
        return figures

    def _watch(self) -> None:
        tick_ns = int(TICK_S * SECOND)
        gap = time.time_ns() - now_ns() - self.shifted()
        first = gap
        while True:
            busy, before = time.process_time_ns(), now_ns()
            time.sleep(TICK_S)
            after = now_ns()
            late = after - before - tick_ns
            moved = time.time_ns() - now_ns() - self.shifted() - gap
            gap += moved
            with self._lock:
                self._ticks[max(0, late).bit_length()] += 1
                self._figures["wall_drift_ns"] = gap - first
                self._look_at_the_sync()
            stall_ns = min(STALL_NS, self.limit_ns)
            if abs(moved) > WALL_JUMP_NS and late < stall_ns:
                self._figures["wall_jumps"] += 1
                self._news.noise("wall", before, now_ns(), moved)
            if late < stall_ns:
                continue
            # The agent's own threads sometimes hold the interpreter for a while: that is no noise of the host.
            if time.process_time_ns() - busy > late // 2:
                self._figures["own_stalls"] += 1
                continue
            self._figures["stalls"] += 1
            longest = self._figures["stall_max_ns"]
            self._figures["stall_max_ns"] = max(longest, late)
            if late > min(self.limit_ns, longest):
                self._news.noise("stall", before + tick_ns, after, late)

    def _look_at_the_sync(self) -> None:
        """Report a sync that hangs. Called under the lock, so that no report follows the sync's end."""
        if self._flight is None:
            return
        number, began, hanging = self._flight
        now = now_ns()
        if hanging.due(now):
            self._news.noise("fsync", began, now, now - began, id=number, hanging=True)

    def _sync(self) -> None:
        fd, of, at, number = -1, None, 0, 0
        gap = Gap()
        while True:
            time.sleep(SYNC_GAP_S)
            late = gap.end(now_ns(), time.thread_time_ns(), self.limit_ns)
            if late is not None:
                self._news.noise("stall", *late, late[1] - late[0], thread="fsync-probe")
            gap.begin(0, 0)
            directory = self._data_dir
            try:
                if directory != of and fd >= 0:
                    os.close(fd)
                    fd = -1
                if directory is None:
                    self._poke.wait()
                    continue
                if fd < 0:
                    fd, of, at = self._unnamed(directory), directory, 0
                    self._disk_is("read")  # also while the first one hangs
                if at >= SYNC_FILE_BYTES:
                    os.ftruncate(fd, 0)
                    at = 0
                number += 1
                before = now_ns()
                self._flight = (number, before, Hanging(before, self.limit_ns))
                try:
                    os.pwrite(fd, b"\0" * SYNC_BYTES, at)
                    self._sync_file(fd)
                finally:
                    with self._lock:
                        took, self._flight = now_ns() - before, None
                    gap.begin(before + took + int(SYNC_GAP_S * SECOND), time.thread_time_ns())
                at += SYNC_BYTES
            except OSError as error:
                self._figures["fsync_errors"] += 1
                self._disk_is(f"unreadable: {error.strerror or error}")
                time.sleep(SYNC_ERROR_PAUSE_S)
                continue
            self._disk_is("read")
            with self._lock:
                self._fsyncs[took.bit_length()] += 1
                longest = self._figures["fsync_max_ns"]
                self._figures["fsync_max_ns"] = max(longest, took)
            if took <= min(FSYNC_NS, self.limit_ns):
                continue
            self._figures["fsync_slow"] += 1
            if took > min(self.limit_ns, longest):
                self._news.noise("fsync", before, before + took, took, id=number)

    def _disk_is(self, found: str) -> None:
        changed, self._disk = found != self._disk, found
        self.disk_known.set()
        if changed:
            self.changed()

    @staticmethod
    def _unnamed(directory: str) -> int:
        """A file on the data's disk that the node never sees: without a name, or else next to its directory."""
        try:
            return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
                raise
        fd, path = tempfile.mkstemp(prefix=".dethrone-", dir=os.path.dirname(directory.rstrip("/")) or "/")  # noqa: PTH120
        os.unlink(path)  # noqa: PTH108
        return fd


class Totals:
    """Host-wide totals per window: waiting of tasks (pressure), stolen and throttled time. They excuse nothing."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._cpu_stat = self._place()
        self._lock = threading.Lock()
        self._at, self._last = now_ns(), self._read()
        threading.Thread(target=self._watch, name="totals", daemon=True).start()

    def sources(self) -> dict[str, str]:
        """``pressure``, ``steal`` and ``throttled``."""
        found = self._read()
        pressure = found["cpu_pressure_ns"]
        return {
            "pressure": pressure if isinstance(pressure, str) else "read",
            "steal": found["steal_ns"] if isinstance(found["steal_ns"], str) else "read",
            "throttled": found["throttled_ns"] if isinstance(found["throttled_ns"], str) else "read",
        }

    def report(self) -> None:
        """Report the window that ends now."""
        with self._lock:
            before, since = self._last, self._at
            self._last, self._at = self._read(), now_ns()
            grown = {
                name: value - old
                for name, value in self._last.items()
                if isinstance(value, int) and isinstance(old := before[name], int)
            }
            self._news.noise("load", since, self._at, 0, **grown)

    def _watch(self) -> None:
        while True:
            time.sleep(LOAD_S)
            self.report()

    @staticmethod
    def _place() -> str:
        try:
            with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                places = cpu_stat_places(file.read())
        except OSError:
            return ""
        return next((place for place in places if os.access(place, os.R_OK)), "")

    def _read(self) -> dict[str, Any]:
        """Each total in ns, or why it cannot be read."""
        found: dict[str, Any] = {}
        for name in ("cpu", "io", "memory"):
            found[f"{name}_pressure_ns"] = read_number(f"/proc/pressure/{name}", parse_pressure)
        found["steal_ns"] = read_number("/proc/stat", lambda text: parse_steal(text, self._ticks))
        throttled: Any = "unreadable: no control group of ours with a cpu.stat"
        if self._cpu_stat:
            throttled = read_number(self._cpu_stat, parse_throttled)
        found["throttled_ns"] = throttled
        return found


def read_number(path: str, parse: Callable[[str], int | None]) -> int | str:
    """The number that ``parse`` finds in a file, or why there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            found = parse(file.read(65536))
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return "unreadable: it lacks the number" if found is None else found
