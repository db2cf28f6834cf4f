"""Whether this machine has room for one more run on real hosts, by how idle its processors are.

Guarantees: one more has room if more is idle than a run under way takes; nothing is answered before the last one has
started, whose start computes more than the rest of it. Where the kernel does not say how idle it is, there is room. Out
of scope: what noise says of runs under way (``admission``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LOOK_EVERY_S = 1.0
"""How often to ask again."""
SETTLED_S = 6.0
"""How long a run takes to deploy, to measure its machine and to start its nodes."""
WINDOW_S = 3.0
SPARE = 1.5
"""How many times what a run takes must be idle: on processors without any rest nodes wait for longer than 50 ms."""


class Ticks(NamedTuple):
    """Of all processors since the boot, in ticks of the kernel."""

    idle: int
    busy: int


class IdleCores:
    """The idle processors of a window. ``ticks``: until now; None: unknown."""

    def __init__(
        self, ticks: Callable[[], Ticks | None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ticks = ticks or processor_ticks
        self._clock = clock
        self._settled: float | None = None
        self._seen: deque[tuple[float, Ticks]] = deque()

    def begun(self) -> None:
        """A run begins now."""
        self._settled = self._clock() + SETTLED_S
        self._seen.clear()

    def enough(self, running: int) -> bool:
        """Whether one more has room next to this number under way, which are alike. Ask every ``LOOK_EVERY_S``."""
        now, ticks = self._clock(), self._ticks()
        if self._settled is None or ticks is None:
            return True
        if now < self._settled:
            return False
        self._seen.append((now, ticks))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return now - since >= WINDOW_S and running * (ticks.idle - before.idle) >= SPARE * (ticks.busy - before.busy)


def processor_ticks(stat: Path = Path("/proc/stat")) -> Ticks | None:
    """Those of this machine until now; None: unreadable. Source: proc(5), the first line of ``/proc/stat``."""
    try:
        user, nice, system, idle, waiting, *more = map(
            int, stat.read_text(encoding="ascii").split("\n")[0].split()[1:9]
        )
    except (OSError, ValueError):
        return None
    return Ticks(idle + waiting, user + nice + system + sum(more))
