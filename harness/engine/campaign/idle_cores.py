"""Whether this machine has room for one more run on real hosts, by how idle its processors are.

Guarantees: nothing is answered before the last run has started, whose start computes more than the rest of it. Where
the kernel does not say how idle it is, there is room. Out of scope: what noise says of runs under way (``admission``).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_S = 1.0
"""How often to ask again."""
SETTLED_S = 9.0
"""How long a run takes to deploy, to measure its machine and to warm up."""
WINDOW_S = 4.0
NEEDED_CORES = 0.4
"""A run of five nodes in Python keeps this much of a core busy; a system in Go or Java takes as much or less."""


class IdleCores:
    """The idle cores of a window. ``idle_s``: since the boot, of all cores together; None: unknown."""

    def __init__(
        self, idle_s: Callable[[], float | None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_s = idle_s or idle_core_seconds
        self._clock = clock
        self._settled: float | None = None
        self._seen: deque[tuple[float, float]] = deque()

    def begun(self) -> None:
        """A run begins now."""
        self._settled = self._clock() + SETTLED_S
        self._seen.clear()

    def enough(self) -> bool:
        """Whether one more run has room. Ask every ``LOOK_EVERY_S``."""
        now, idle = self._clock(), self._idle_s()
        if self._settled is None or idle is None:
            return True
        if now < self._settled:
            return False
        self._seen.append((now, idle))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return now - since >= WINDOW_S and idle - before >= NEEDED_CORES * (now - since)


def idle_core_seconds(stat: Path = Path("/proc/stat")) -> float | None:
    """How long the processors have been idle since the boot, one after another; None: unreadable. Source: proc(5)."""
    try:
        words = stat.read_text(encoding="ascii").split(maxsplit=6)
        return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
