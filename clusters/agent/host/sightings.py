"""What a run looks for in the log of its node, in a process of its own: the agent itself never matches a pattern.

The process gets one JSON line, what to look for, and prints one for each sighting; it ends with its input, which is the
agent's. Guarantees: a pattern that needs longer than a bounded time for a line is no longer looked for, and that is
reported; a log that grows faster than it is read is skipped, and that is reported; of each thing at most
``SIGHTINGS_MAX`` sightings are reported in a second, and the rest counted; of a line only its beginning is matched. Out
of scope: which fault follows.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.asked import HERE
from dethrone.clusters.agent.host.common import SECOND, now_ns
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.patterns import MATCH_LIMIT_S, TooSlow, _too_slow
from dethrone.clusters.agent.host.processes import Child, Processes

LOOK_EVERY_MS = 5
"""How often a log is looked at while nothing reports that it grew: the time of a sighting is known to this accuracy."""
LAG_MAX = 4 << 20
"""If a log grows by more between two looks, only this much of its end is searched."""
SEARCHED_MAX = 4096
"""How many bytes of a line are matched, from its beginning."""
SHOWN_MAX = 300
UNSEARCHED = "log-unsearched"
"""The kind of news that something was, or is from now on, not looked for."""
READY_LIMIT_S = 5.0
"""How long ``begin`` waits for the process, so that what the node writes first is seen, too."""
SIGHTINGS_MAX = 100
"""The most sightings of one thing that are reported in a second."""


class Sought:
    """One pattern. ``too_many``: whether a sighting now exceeds what is reported; it is counted then."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = re.compile(pattern.encode())
        self.ended = False
        self.left_out = 0
        self._began_ns = 0
        self._count = 0

    def found_in(self, line: bytes) -> re.Match[bytes] | None:
        """Where the pattern is in this line. Raises TooSlow."""
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_LIMIT_S)
            return self.pattern.search(line)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def too_many(self, moment: int) -> bool:
        """Count one sighting at this moment."""
        if moment - self._began_ns >= SECOND:
            self._began_ns, self._count = moment, 0
        self._count += 1
        self.left_out += self._count > SIGHTINGS_MAX
        return self._count > SIGHTINGS_MAX


class SearchedLog:
    """A log that is searched from the end that it has now, line by line. ``report``: takes each finding."""

    def __init__(self, path: str, sought: Sequence[Sought], report: Callable[[Mapping[str, Any]], None]) -> None:
        self._path = path
        self._sought = sought
        self._report = report
        self._place, self._file = _identity(path)
        self._rest = b""
        self._looked_ns = now_ns()
        self._number = 0

    def look(self) -> None:
        """Search what was appended since the last time."""
        lo, self._looked_ns = self._looked_ns, now_ns()
        size, file = _identity(self._path)
        if file != self._file or size < self._place:
            self._file, self._place, self._rest = file, 0, b""
        if size == self._place:
            return
        if size - self._place > LAG_MAX:
            skipped = size - LAG_MAX - self._place
            self._place, self._rest = size - LAG_MAX, b""
            self._report({"what": "skipped", "lo": lo, "hi": now_ns(), "bytes": skipped})
        try:
            with open(self._path, "rb") as log:  # noqa: PTH123
                log.seek(self._place)
                data = log.read(size - self._place)
        except OSError:
            return
        self._place += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:SEARCHED_MAX]
        for line in lines:
            self._read(line[:SEARCHED_MAX], lo)

    def _read(self, line: bytes, lo: int) -> None:
        for sought in self._sought:
            if sought.ended:
                continue
            try:
                found = sought.found_in(line)
            except TooSlow:
                sought.ended = True
                shown = line[:SHOWN_MAX].decode("utf-8", "replace")
                self._report({"what": "slow", "lo": lo, "hi": now_ns(), "name": sought.name, "line": shown})
                continue
            if found is None or sought.too_many(now_ns()):
                continue
            self._number += 1
            groups = {key: value.decode("utf-8", "replace") for key, value in found.groupdict().items() if value}
            left_out, sought.left_out = sought.left_out, 0
            self._report(
                {
                    "what": "log",
                    "lo": lo,
                    "hi": now_ns(),
                    "n": self._number,
                    "name": sought.name,
                    "line": line[:SHOWN_MAX].decode("utf-8", "replace"),
                    **({"groups": groups} if groups else {}),
                    **({"left_out": left_out} if left_out else {}),
                }
            )


def _identity(path: str) -> tuple[int, tuple[int, int]]:
    """The size of a file, and which file it is; zeros if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, (0, 0)
    return found.st_size, (found.st_ino, found.st_dev)


def watch_growth(directories: Sequence[str]) -> int:
    """A descriptor that is readable once a file in one of these directories grows or is made; −1: there is none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        inotify = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        for directory in directories if inotify >= 0 else ():
            libc.inotify_add_watch(inotify, directory.encode(), 0x2 | 0x100 | 0x80)  # modify, create, moved to
    except (OSError, AttributeError):
        return -1
    return inotify


def look_out() -> int:
    """The process: read what to look for, and report it until the input ends. Runs in the main thread (SIGVTALRM)."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    asked = json.loads(sys.stdin.buffer.readline())
    path = str(asked["path"])

    def report(finding: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(finding) + "\n")
        sys.stdout.flush()

    log = SearchedLog(path, [Sought(one["name"], one["pattern"]) for one in asked["sought"]], report)
    report({"what": "ready"})
    grown = watch_growth([os.path.dirname(path) or "."])  # noqa: PTH120
    waiting = select.poll()
    waiting.register(0, select.POLLIN | select.POLLHUP)
    if grown >= 0:
        waiting.register(grown, select.POLLIN)
    while True:
        ready = dict(waiting.poll(LOOK_EVERY_MS))
        if 0 in ready and not os.read(0, 1 << 16):
            return 0
        if grown in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(grown, 1 << 16)
        log.look()


class Lookout:
    """The process, as the agent sees it: what it reports becomes news."""

    def __init__(self, processes: Processes, news: News) -> None:
        self._processes = processes
        self._news = news
        self._child: Child | None = None
        self._ready = threading.Event()
        self.incarnation: Callable[[], int] = lambda: 0

    def begin(self, path: str, sought: Sequence[Mapping[str, str]]) -> None:
        """Look for these patterns in this file, which need not exist yet; once. Nothing to look for: no process."""
        if not sought or self._child is not None:
            return
        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            argv = [sys.executable, "-S", HERE, "lookout", "--socket", "-"]
            self._child = self._processes.spawn(argv, files=(theirs.fileno(), theirs.fileno(), null))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(null)
        ours.sendall(json.dumps({"path": path, "sought": list(sought)}).encode() + b"\n")
        threading.Thread(target=self._listen, args=(ours,), name="lookout", daemon=True).start()
        self._ready.wait(READY_LIMIT_S)

    def _listen(self, wire: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), wire, wire.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        moment = now_ns()
        self._news.add(UNSEARCHED, moment, moment, {"why": "the process that searches the log ended"})
        self._ready.set()

    def _take(self, said: dict[str, Any]) -> None:
        what = said.pop("what")
        if what == "ready":
            self._ready.set()
            return
        lo, hi = said.pop("lo"), said.pop("hi")
        if what == "skipped":
            why = f"{said['bytes']} bytes of the log were not searched: it grew too fast"
            self._news.add(UNSEARCHED, lo, hi, {"why": why})
        elif what == "slow":
            why = f"this pattern needed longer than {MATCH_LIMIT_S * 1000:.0f} ms for a line, and is given up"
            self._news.add(UNSEARCHED, lo, hi, {"why": why, **said})
        else:
            self._news.add("sighted", lo, hi, {"by": what, "incarnation": self.incarnation(), **said})
