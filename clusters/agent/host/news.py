"""News: reports of the agent that answer no request, numbered, bounded, and kept until acknowledged.

Guarantees: numbers have no gaps; dropped news are counted in a later one, with their span. Out of scope: the reader of
the news (``server``).
"""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

NEWS_MAX = 50_000
NEWS_BYTES_MAX = 64 << 20
"""Limits of unacknowledged news; beyond them the oldest are dropped, which is news too (``news-dropped``)."""


class News:
    """The queue of news: numbered from 1, kept until acknowledged, bounded."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._kept: collections.deque[tuple[int, bytes, int, int]] = collections.deque()
        self._bytes = 0
        self._next = 1
        self._dropped = 0
        self._dropped_span = (0, 0)

    def add(self, kind: str, lo: int, hi: int, data: Mapping[str, Any]) -> None:
        """Report something that was true, or happened, at some moment of [lo, hi]."""
        with self._lock:
            if self._dropped and len(self._kept) < NEWS_MAX // 2:
                lost, self._dropped = self._dropped, 0
                self._keep("noise", *self._dropped_span, {"kind": "news-dropped", "value_ns": 0, "count": lost})
            self._keep(kind, lo, hi, data)
        self._wake()

    def _keep(self, kind: str, lo: int, hi: int, data: Mapping[str, Any]) -> None:
        number, self._next = self._next, self._next + 1
        line = json.dumps({"news": number, "kind": kind, "lo": lo, "hi": hi, "data": data}).encode() + b"\n"
        self._kept.append((number, line, lo, hi))
        self._bytes += len(line)
        while self._kept and (len(self._kept) > NEWS_MAX or self._bytes > NEWS_BYTES_MAX):
            _, gone, lo, hi = self._kept.popleft()
            self._bytes -= len(gone)
            before = self._dropped_span if self._dropped else (lo, hi)
            self._dropped_span = (min(before[0], lo), max(before[1], hi))
            self._dropped += 1

    def noise(self, kind: str, lo: int, hi: int, value_ns: int, **more: Any) -> None:
        """Report that something disturbed the host: how long, or how far (ns)."""
        self.add("noise", lo, hi, {"kind": kind, "value_ns": value_ns, **more})

    def acknowledge(self, number: int) -> None:
        """All news up to this number have arrived."""
        with self._lock:
            while self._kept and self._kept[0][0] <= number:
                self._bytes -= len(self._kept.popleft()[1])

    def after(self, number: int, room: int) -> tuple[int, bytes]:
        """News after ``number``, at most about ``room`` bytes: the last one's number, and their lines."""
        with self._lock:
            if not self._kept or self._kept[-1][0] <= number:
                return number, b""
            lines, size = [], 0
            # Numbers are consecutive, so the index of the next one is known.
            for index in range(max(0, number + 1 - self._kept[0][0]), len(self._kept)):
                number, line = self._kept[index][:2]
                lines.append(line)
                size += len(line)
                if size >= room:
                    break
            return number, b"".join(lines)

    @property
    def last(self) -> int:
        """The number of the last news."""
        return self._next - 1
