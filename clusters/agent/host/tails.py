"""Files that a node writes: its trace log line by line, fatal texts in its output, its last lines.

Guarantees: only whole lines are reported; a log that grows faster than it is read costs bounded memory, and skipped
parts are news. Out of scope: what the lines mean.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence

from dethrone.clusters.agent.host.common import now_ns
from dethrone.clusters.agent.host.news import News

TRACE_GAP_S = 0.002
"""Shortest time between two reads of a busy trace log; the lines in between are sent together."""
TRACE_LINE_MAX = 1 << 20
TRACE_BATCH = 256 << 10
TAIL_BYTES, TAIL_LINES = 16 << 10, 30
"""Bytes and lines of a process's last output that are reported when it ends unexpectedly."""
FATAL_EVERY_S = 0.25
FATAL_LAG_MAX = 4 << 20
"""If a log grows by more between two looks, only this much is searched; the rest is reported as skipped."""
FATAL_REST_MAX = 64 << 10
FATAL_MAX = 20
"""The most fatal lines that are reported; then the search ends."""
FATAL_LINE_MAX = 1000


class Tails:
    """Follows the trace log in whole lines; an incomplete last line waits for its end. Thread-safe."""

    IN_MODIFY, IN_CREATE, IN_MOVED_TO = 0x2, 0x100, 0x80

    def __init__(self, news: News) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._path: str | None = None
        self._fd = -1
        self._rest = b""
        self._looked_ns = now_ns()
        self._overlong = 0
        self.incarnation: Callable[[], int] = lambda: 0
        self.inotify = -1
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            self.inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add_watch = libc.inotify_add_watch

    def follow(self, path: str | None) -> None:
        """Follow this file from its beginning; it need not exist yet, and its directory is created."""
        with self._lock:
            if path == self._path:
                return
            self._close()
            self._path, self._rest = path, b""
            if path is None:
                return
            directory = os.path.dirname(path) or "."  # noqa: PTH120
            os.makedirs(directory, exist_ok=True)  # noqa: PTH103
            if self.inotify >= 0:
                wanted = self.IN_MODIFY | self.IN_CREATE | self.IN_MOVED_TO
                self._add_watch(self.inotify, directory.encode(), wanted)

    @property
    def active(self) -> bool:
        """Whether there is a file to follow."""
        return self._path is not None

    def pump(self) -> bool:
        """Report the new lines; True if the file had grown."""
        with self._lock:
            return self._path is not None and self._pump(self._path)

    def _pump(self, path: str) -> bool:
        found = False
        for _ in range(64):
            if self._fd < 0:
                try:
                    self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    self._looked_ns = now_ns()
                    return found
                self._rest = b""
            lo = self._looked_ns
            self._looked_ns = now_ns()
            data = os.read(self._fd, TRACE_BATCH)
            if not data:
                if self._replaced(path):
                    self._close()
                    continue
                return found
            found = True
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            if len(self._rest) > TRACE_LINE_MAX:
                self._rest = b""
                self._overlong += 1
                self._news.noise("trace-overlong", lo, now_ns(), 0, count=self._overlong)
            if newline:
                text = whole.decode("utf-8", "surrogateescape")
                self._news.add("trace", lo, now_ns(), {"text": text, "incarnation": self.incarnation()})
        return found

    def _replaced(self, path: str) -> bool:
        try:
            there, ours = os.stat(path), os.fstat(self._fd)  # noqa: PTH116
        except OSError:
            return False
        shrunk = ours.st_size < os.lseek(self._fd, 0, os.SEEK_CUR)
        return shrunk or (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FatalSearch:
    """Searches what a node writes for fatal texts, a bounded amount at a time. Thread-safe."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._logs: dict[str, FatalLog] = {}
        self._texts: list[bytes] = []
        self._hits = 0
        self._started = False
        self.incarnation: Callable[[], int] = lambda: 0

    def follow(self, paths: Sequence[str], texts: Sequence[str]) -> None:
        """Search what is appended to these files, which need not exist yet. Without texts, search nothing."""
        with self._lock:
            self._texts = [text.encode() for text in texts]
            self._logs = {path: self._logs.get(path) or FatalLog(path) for path in paths}
            if self._texts and not self._started:
                self._started = True
                threading.Thread(target=self._watch, name="fatal-lines", daemon=True).start()

    def _watch(self) -> None:
        while self._hits < FATAL_MAX:
            time.sleep(FATAL_EVERY_S)
            self.pump()

    def pump(self) -> None:
        """Search the new parts of the files."""
        with self._lock:
            for log in self._logs.values() if self._texts and self._hits < FATAL_MAX else ():
                with contextlib.suppress(OSError):
                    self._search(log)

    def _search(self, log: FatalLog) -> None:
        lo, whole, skipped = log.news()
        if skipped:
            self._news.noise("log-skipped", lo, now_ns(), 0, bytes=skipped)
        for text in self._texts:
            at = whole.find(text)
            while at >= 0 and self._hits < FATAL_MAX:
                end = whole.find(b"\n", at)
                line = whole[max(whole.rfind(b"\n", 0, at) + 1, at - FATAL_LINE_MAX // 2) : end if end >= 0 else None]
                shown = line[:FATAL_LINE_MAX].decode("utf-8", "replace")
                found = {"pattern": text.decode(), "line": shown, "incarnation": self.incarnation()}
                self._news.add("fatal", lo, now_ns(), found)
                self._hits += 1
                at = whole.find(text, end) if end >= 0 else -1


class FatalLog:
    """A file, and how far it was searched; what stands in it at first is not."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._place = file_size(path)
        self._rest = b""
        self._looked_ns = now_ns()

    def news(self) -> tuple[int, bytes, int]:
        """Since when it was not looked at, its new whole lines, and how many bytes are skipped. Raises OSError."""
        lo, self._looked_ns = self._looked_ns, now_ns()
        size, skipped = file_size(self._path), 0
        if size < self._place:
            self._place, self._rest = 0, b""
        if size == self._place:
            return lo, b"", 0
        if size - self._place > FATAL_LAG_MAX:
            skipped, self._place = size - FATAL_LAG_MAX - self._place, size - FATAL_LAG_MAX
            self._rest = b""
        with open(self._path, "rb") as file:  # noqa: PTH123
            file.seek(self._place)
            data = file.read(size - self._place)
        self._place += len(data)
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > FATAL_REST_MAX:
            whole, rest = whole + newline + rest, b""
        self._rest = rest
        return lo, whole, skipped


def file_size(path: str) -> int:
    """The size of a file; 0 if it does not exist."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def last_lines(path: str, since: int) -> list[str]:
    """The last lines of a file after offset ``since``, bounded."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(since, file_size(path) - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line[:FATAL_LINE_MAX] for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def oom_kills() -> int:
    """How many processes this machine has killed for lack of memory; 0 if that cannot be read."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except (OSError, ValueError, IndexError):
        return 0
