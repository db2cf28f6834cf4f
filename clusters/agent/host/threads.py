"""The threads of the node: stretches in which one of them waited for a processor, or was blocked.

Guarantees: a stretch longer than the limit is reported once per source, a long one in pieces; unreadable threads are
declared as such. Out of scope: what a thread does, and why it waited.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dethrone.clusters.agent.host.common import SECOND, STARVED_NS, complain, now_ns
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.noise import Gap

SAMPLE_NS_MIN, SAMPLE_NS_MAX = SECOND // 40, SECOND // 10
"""How often the threads of the node process are read while it runs, see ``sample_ns``."""
PIECE_NS_MIN, PIECE_LIMITS = SECOND, 2
"""A long stretch is reported in pieces of at least ``PIECE_NS_MIN``, and of at least as many limits."""
THREADS_S = 0.1
"""How often to look for new threads of the node."""
MEMBERS_S = 1.0
"""How often to look for new processes of the node."""
LOOK_NS_MIN = SECOND // 20
"""How long the state of a thread that sleeps is believed without another look: this, or half of the limit if that is
longer, so that no sleep that the kernel counts as a wait exceeds the limit of a system with long timers."""
IDLE_SAMPLES, IDLE_EVERY = 16, 2
"""A thread that has not run for ``IDLE_SAMPLES`` samples is read only every ``IDLE_EVERY`` samples."""
THREADS_MAX = 256
"""The most threads of the node that are read; more are ignored."""
ASLEEP = frozenset("STtI")
"""States that a thread leaves only by running."""


def sample_ns(limit_ns: int) -> int:
    """The pause between two samples: a wait beyond the limit fills half of what lies between two, even of an idle
    thread and even if the second one is late by the limit. More samples of hundreds of threads cost the node itself."""
    return min(max(limit_ns // IDLE_EVERY, SAMPLE_NS_MIN), SAMPLE_NS_MAX)


def piece_ns(limit_ns: int) -> int:
    """The length at which a stretch is cut: a piece below the limit would never be reported."""
    return max(PIECE_NS_MIN, PIECE_LIMITS * limit_ns)


class Stretch(NamedTuple):
    """A thread waited for ``waited`` ns of [lo, hi]."""

    lo: int
    hi: int
    waited: int


class Starved:
    """Folds samples of a thread's waiting time into stretches in which it waited at least half the time.

    The kernel adds a wait when it ends, so a sample may show a wait that began several samples ago. A stretch of
    ``limit_ns`` or less is ignored; a long one is cut (``piece_ns``), so that it is known before it ends.
    """

    def __init__(self, at: int, limit_ns: int) -> None:
        self._at = at
        self._limit_ns = limit_ns
        self._piece_ns = piece_ns(limit_ns)
        self._open: Stretch | None = None

    def step(self, at: int, waited: int) -> Stretch | None:
        """The thread waited ``waited`` ns more than at the last sample; returns a stretch that ended, if any."""
        lo, self._at = min(self._at, at - waited), at
        over, self._open = self._open, None
        if waited > 0 and 2 * waited >= at - lo:
            if over is not None:
                lo, waited = min(lo, over.lo), waited + over.waited
            over = Stretch(lo, at, min(waited, at - lo))
            if at - lo < self._piece_ns:
                self._open = over
                return None
        elif waited > 0:  # it may have begun here: the kernel adds a wait when it ends
            self._open = Stretch(at - waited, at, waited)
        return over if over is not None and over.hi - over.lo > self._limit_ns else None


class Blocked:
    """Folds samples of a thread's state into stretches in the D state, with the limit and cuts of ``Starved``.

    The state is assumed to change halfway between two samples that differ.
    """

    def __init__(self, at: int, limit_ns: int, *, blocked: bool) -> None:
        self._at = at
        self._limit_ns = limit_ns
        self._piece_ns = piece_ns(limit_ns)
        self._since = at if blocked else None

    def step(self, at: int, *, blocked: bool) -> Stretch | None:
        """Add the thread's current state; returns a stretch that ended, if any."""
        between, self._at = (self._at + at) // 2, at
        since, hi = self._since, at if blocked else between
        if since is None:
            self._since = between if blocked else None
            return None
        if blocked and at - since < self._piece_ns:
            return None
        self._since = at if blocked else None
        return Stretch(since, hi, hi - since) if hi - since > self._limit_ns else None


def parse_schedstat(raw: bytes) -> tuple[int, int] | None:
    """From a thread's ``schedstat``: how long it has waited for a processor (ns), and how often it got one.

    None for any other text, or if the kernel does not count: then it shows zeros for a thread that has run.
    """
    fields = raw.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields) or not int(fields[0]):
        return None
    return int(fields[1]), int(fields[2])


def parse_state(raw: bytes) -> str:
    """The state letter in a thread's ``stat``; "" for any other text."""
    place = raw.rfind(b")")
    return chr(raw[place + 2]) if 0 <= place < len(raw) - 2 else ""


class Watched:
    """One thread of the node: how long it has waited, and in which state it was last seen."""

    def __init__(self, pid: int, thread: int, limit_ns: int) -> None:
        self.pid = pid
        self._look_ns = max(LOOK_NS_MIN, limit_ns // 2)
        self._fds: list[int] = []
        try:
            for name in ("schedstat", "stat"):
                self._fds.append(os.open(f"/proc/{pid}/task/{thread}/{name}", os.O_RDONLY | os.O_CLOEXEC))
            self._waited, self._runs = self._schedstat()
            self._state = self._look()
        except OSError:
            self.close()
            raise
        at = now_ns()
        self._looked = at
        """When its state was last read."""
        self._idle = 0
        self._starved = Starved(at, limit_ns)
        self._blocked = Blocked(at, limit_ns, blocked=self._state == "D")

    def sample(self) -> list[tuple[str, Stretch]]:
        """Read the thread; returns stretches that ended, by source. Raises OSError if it is gone or unreadable.

        A thread that has been idle for long is read less often. The kernel reports its waits afterwards, so only the
        first moments of a D state may be missed. A thread that was seen asleep did not wait at that moment: kernels
        that leave a sleeping thread in the queue for a while have been seen to count forty seconds of sleep as a wait.
        """
        self._idle += 1
        if self._idle > IDLE_SAMPLES and self._idle % IDLE_EVERY:
            return []
        began = now_ns()
        waited, runs = self._schedstat()
        asleep_at = self._looked if self._state in ASLEEP else None
        ran = runs != self._runs or self._state not in ASLEEP
        # A thread that slept and has not run since sleeps still, or waits: its state need not be read each time.
        if ran or began - self._looked >= self._look_ns:
            self._state, self._looked = self._look(), began
        if ran:
            self._idle = 0
        now = now_ns()
        grown = waited - self._waited
        starved = self._starved.step(now, grown if asleep_at is None else min(grown, now - asleep_at))
        blocked = self._blocked.step(now, blocked=self._state == "D")
        self._waited, self._runs = waited, runs
        return [
            (source, stretch)
            for source, stretch in (("schedstat", starved), ("dstate", blocked))
            if stretch is not None
        ]

    def close(self) -> None:
        """Close its files."""
        while self._fds:
            os.close(self._fds.pop())

    def _schedstat(self) -> tuple[int, int]:
        found = parse_schedstat(os.pread(self._fds[0], 128, 0))
        return (0, 0) if found is None else found

    def _look(self) -> str:
        return parse_state(os.pread(self._fds[1], 512, 0))


class NodeWatch:
    """Watches the node for stretches in which one of its threads made no progress although it was ready to.

    Every thread of every process of the node counts: from outside, their roles are invisible. A stretch within one that
    was already reported is not reported again.
    """

    def __init__(self, news: News, members: Callable[[], Sequence[int]]) -> None:
        self._news = news
        self._members = members
        self.changed: Callable[[], None] = lambda: None
        self.limit_ns = STARVED_NS
        self._threads: dict[tuple[int, int], Watched] = {}
        self._pids: list[int] = []
        self._due = {"members": 0.0, "threads": 0.0}
        self._reported: dict[str, Stretch] = {}
        self._ours = self._read_ours()
        self._found = self._ours
        threading.Thread(target=self._watch, name="node-watch", daemon=True).start()

    def sources(self) -> dict[str, str]:
        """``schedstat`` and ``dstate`` of the node process; before it runs, of our own process."""
        return dict(self._found)

    def look_now(self) -> None:
        """The node was just started: look for its new processes at once."""
        self._due = dict.fromkeys(self._due, 0.0)

    @staticmethod
    def _read_ours() -> dict[str, str]:
        found = {}
        parse: Callable[[bytes], object]
        for source, name, parse, missing in (
            ("schedstat", "schedstat", parse_schedstat, "this kernel does not count how long threads wait"),
            ("dstate", "stat", parse_state, "/proc/PID/stat has no state"),
        ):
            try:
                with open(f"/proc/self/{name}", "rb") as file:  # noqa: PTH123
                    found[source] = "read" if parse(file.read()) else f"unreadable: {missing}"
            except OSError as error:
                found[source] = f"unreadable: {error.strerror}"
        return found

    def _watch(self) -> None:
        gap, pause_ns = Gap(), sample_ns(self.limit_ns)
        while True:
            time.sleep(pause_ns / SECOND)
            now, busy = now_ns(), time.thread_time_ns()
            late = gap.end(now, busy, self.limit_ns) if self._threads else None
            if late is not None:
                self._news.noise("stall", *late, late[1] - late[0], thread="node-watch")
            pause_ns = sample_ns(self.limit_ns)
            gap.begin(now + pause_ns, busy)
            try:
                self._sample(time.monotonic())
            except Exception as error:  # noqa: BLE001 - a watch that ends silently would look like a quiet node
                complain("node watch", error)
                time.sleep(1.0)

    def _sample(self, now: float) -> None:
        if now >= self._due["members"]:
            self._due["members"] = now + MEMBERS_S
            self._pids = list(self._members())
        if now >= self._due["threads"]:
            self._due["threads"] = now + THREADS_S
            self._look_for_threads()
        for key, watched in list(self._threads.items()):
            try:
                for source, stretch in watched.sample():
                    self._report(watched.pid, source, stretch)
            except OSError:
                watched.close()
                del self._threads[key]

    def _look_for_threads(self) -> None:
        refused = ""
        for pid in self._pids:
            try:
                threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
            except FileNotFoundError:
                continue
            except OSError as error:
                refused = f"unreadable: {error.strerror}"
                continue
            for thread in map(int, threads):
                if (pid, thread) in self._threads or len(self._threads) >= THREADS_MAX:
                    continue
                try:
                    self._threads[pid, thread] = Watched(pid, thread, self.limit_ns)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except OSError as error:
                    refused = f"unreadable: {error.strerror}"
        found = dict.fromkeys(self._ours, refused) if refused and not self._threads else self._ours
        if found != self._found:
            self._found = found
            self.changed()

    def _report(self, pid: int, source: str, stretch: Stretch) -> None:
        last = self._reported.get(source)
        if last is not None and last.lo <= stretch.lo and stretch.hi <= last.hi:
            return
        self._reported[source] = stretch
        lo, hi, waited = stretch
        self._news.noise("process", lo, hi, hi - lo, source=source, delay_ns=waited, pid=pid)
