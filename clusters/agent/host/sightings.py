"""What a run looks for in its node's log and metrics and on the wire, by a process: the agent itself matches nothing.

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

from dethrone.clusters.agent.host.asked import spawn_on_wire
from dethrone.clusters.agent.host.common import SECOND, Refused, now_ns
from dethrone.clusters.agent.host.frames import SoughtFrame, SoughtFrames
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.pages import search_pages
from dethrone.clusters.agent.host.patterns import MATCH_LIMIT_S, TooSlow, _too_slow
from dethrone.clusters.agent.host.processes import Child, Processes

LOOK_EVERY_MS = 5
"""How often a log is looked at while nothing reports that it grew: the time of a sighting is known to this accuracy."""
LAG_MAX = 4 << 20
"""If a log grows by more between two looks, only this much of its end is searched."""
SEARCHED_MAX = 4096
"""How many bytes of a line are matched, from its beginning."""
SHOWN_MAX = 300
UNSEARCHED = "unsearched"
"""The kind of news that something was, or is from now on, not looked for."""
READY_LIMIT_S = 5.0
"""How long ``begin`` waits for the process, so that what the node writes first is seen, too."""
SIGHTINGS_MAX = 100
"""The most sightings of one thing that are reported in a second."""


class Rate:
    """How often one thing is sighted. ``left_out``: sightings that were not reported, since the last that was."""

    def __init__(self) -> None:
        self.left_out = 0
        self._began_ns = 0
        self._count = 0

    def too_many(self, moment: int) -> bool:
        """Count one sighting at this moment: whether it exceeds what is reported."""
        if moment - self._began_ns >= SECOND:
            self._began_ns, self._count = moment, 0
        self._count += 1
        self.left_out += self._count > SIGHTINGS_MAX
        return self._count > SIGHTINGS_MAX

    def silent(self) -> dict[str, int]:
        """How many were not reported since the last that was, for the next report."""
        left_out, self.left_out = self.left_out, 0
        return {"left_out": left_out} if left_out else {}


class Sought:
    """One pattern."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = re.compile(pattern.encode())
        self.ended = False
        self.rate = Rate()

    def found_in(self, line: bytes) -> re.Match[bytes] | None:
        """Where the pattern is in this line. Raises TooSlow."""
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_LIMIT_S)
            return self.pattern.search(line)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class SearchedLog:
    """A log that is searched from the end that it has now, line by line. ``report``: takes each finding."""

    def __init__(self, path: str, sought: Sequence[Sought], report: Callable[[Mapping[str, Any]], None]) -> None:
        self._path = path
        self._sought = sought
        self._report = report
        self._place, self._file = _identity(path)
        self._rest = b""
        self._looked_ns = now_ns()

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
            if found is None or sought.rate.too_many(now_ns()):
                continue
            groups = {
                key: value[:SHOWN_MAX].decode("utf-8", "replace") for key, value in found.groupdict().items() if value
            }
            self._report(
                {
                    "what": "log",
                    "lo": lo,
                    "hi": now_ns(),
                    "name": sought.name,
                    "line": line[:SHOWN_MAX].decode("utf-8", "replace"),
                    **({"groups": groups} if groups else {}),
                    **sought.rate.silent(),
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


class SearchedWire:
    """The frames that this host sends. ``report``: takes each finding."""

    def __init__(
        self, sought: Sequence[Mapping[str, Any]], probe_port: int, report: Callable[[Mapping[str, Any]], None]
    ) -> None:
        conditions = [
            SoughtFrame(one["name"], one["addresses"], one["port"], one["bytes_min"], bytes.fromhex(one["contains"]))
            for one in sought
        ]
        self.frames = SoughtFrames(conditions, probe_port)
        self._rates = {one.name: Rate() for one in conditions}
        self._report = report
        self._muted_ns = 0

    def look(self, lo: int) -> None:
        """Look at the packets that came since ``lo``."""
        if self.frames.muted and now_ns() - self._muted_ns > SECOND // SIGHTINGS_MAX:
            self.frames.mute(muted=False)
        for one, frame in self.frames.found():
            moment = now_ns()
            rate = self._rates[one.name]
            if rate.too_many(moment):
                self._muted_ns = moment
                self.frames.mute(muted=True)
                continue
            receiver = one.addresses[frame.receiver]
            found = {"what": "wire", "lo": lo, "hi": moment, "name": one.name}
            self._report({**found, "to": receiver, "port": frame.port, "bytes": frame.length, **rate.silent()})


def look_out() -> int:
    """The process: read what to look for, and report it until the input ends. Runs in the main thread (SIGVTALRM)."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    asked = json.loads(sys.stdin.buffer.readline())
    number, lock = 0, threading.Lock()

    def report(finding: Mapping[str, Any]) -> None:
        nonlocal number
        with lock:
            number += 1
            sys.stdout.write(json.dumps({**finding, "n": number}) + "\n")
            sys.stdout.flush()

    path = str(asked["path"])
    sought = [Sought(one["name"], one["pattern"]) for one in asked["sought"]]
    log = SearchedLog(path, sought, report) if sought else None
    try:
        wire = SearchedWire(asked["frames"], asked["probe_port"], report) if asked["frames"] else None
    except Refused as refused:
        report({"what": "refused", "why": str(refused)})
        return 3
    grown = watch_growth([os.path.dirname(path) or "."]) if sought else -1  # noqa: PTH120
    waiting = select.poll()
    for one in (0, grown, -1 if wire is None else wire.frames.fileno()):
        if one >= 0:
            waiting.register(one, select.POLLIN)
    search_pages(asked["own"], asked["figures"], report)
    report({"what": "ready"})
    lo = now_ns()
    while True:
        ready = dict(waiting.poll(LOOK_EVERY_MS))
        if 0 in ready and not os.read(0, 1 << 16):
            return 0
        if grown in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(grown, 1 << 16)
        if wire is not None:
            lo, before = now_ns(), lo
            wire.look(before)
        if log is not None:
            log.look()


class Lookout:
    """The process, as the agent sees it: what it reports becomes news."""

    def __init__(self, processes: Processes, news: News) -> None:
        self._processes = processes
        self._news = news
        self._child: Child | None = None
        self._ready = threading.Event()
        self._refused = ""
        self.incarnation: Callable[[], int] = lambda: 0

    def begin(self, spec: Mapping[str, Any], name: str, peers: Mapping[str, Sequence[str]], probe_port: int) -> None:
        """Look for the ``watches`` of this node, called ``name``, from now on; once. Without any: no process.

        Its log need not exist yet. Raises Refused if something cannot be seen here.
        """
        watches = spec["watches"]
        if not watches or self._child is not None:
            return
        others = {peer: addresses for peer, addresses in peers.items() if peer != name}
        asked = {
            "path": spec["fatal_path"] or spec["log_path"],
            "own": next(iter(peers.get(name, ())), "127.0.0.1"),
            "probe_port": probe_port,
            "sought": [watch for watch in watches if watch["of"] == "log"],
            "figures": [watch for watch in watches if watch["of"] == "metric"],
            "frames": [
                {**watch, "addresses": _receivers(watch["to"], others)} for watch in watches if watch["of"] == "wire"
            ],
        }
        self._child, ours = spawn_on_wire(self._processes, "lookout")
        ours.sendall(json.dumps(asked).encode() + b"\n")
        threading.Thread(target=self._listen, args=(ours,), name="lookout", daemon=True).start()
        self._ready.wait(READY_LIMIT_S)
        if self._refused:
            raise Refused(self._refused)

    def _listen(self, wire: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), wire, wire.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        moment = now_ns()
        if not self._refused:
            self._news.add(UNSEARCHED, moment, moment, {"why": "the process that looks for it ended"})
        self._ready.set()

    def _take(self, said: dict[str, Any]) -> None:
        what = said.pop("what")
        if what == "ready":
            self._ready.set()
            return
        if what == "refused":
            self._refused = str(said["why"])
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


def _receivers(to: str, peers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The addresses of this peer, or of all but the harness; none of them, where it is the host itself."""
    names = [name for name in peers if name != "client"] if not to else [to] if to in peers else []
    return {address: name for name in names for address in peers[name]}
