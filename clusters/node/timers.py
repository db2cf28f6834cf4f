"""Named timers on two clocks: a lazy heap each.

Guarantees: a timer is due only when its own clock shows its moment or later, in the order in which they became due; a
replaced or cancelled timer never fires. A stepped wall clock takes effect at the next look. Out of scope: sleeping.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Literal

from dethrone.harness.core.clock import MS, Clocks, Ns

WALL_LOOK_NS = 25 * MS
"""A sleep must not be longer than this while a wall timer is armed: no event wakes us when that clock is stepped."""

_Entry = tuple[Ns, int, str]


class Timers:
    """The timers of one node."""

    __slots__ = ("_armed", "_mono", "_order", "_wall")

    def __init__(self) -> None:
        self._armed: dict[str, int] = {}
        self._mono: list[_Entry] = []
        self._wall: list[_Entry] = []
        self._order = 0

    def __len__(self) -> int:
        """How many timers are armed."""
        return len(self._armed)

    def set(self, name: str, at: Ns | None, clock: Literal["mono", "wall"] = "mono") -> None:
        """(Re)arm ``name`` for ``at`` ns of that clock; None cancels it."""
        if at is None:
            self._armed.pop(name, None)
            return
        self._order += 1
        self._armed[name] = self._order
        heap = self._mono if clock == "mono" else self._wall
        heappush(heap, (at, self._order, name))
        if len(heap) > 64 + 8 * len(self._armed):  # resets leave dead entries behind; keep the heap bounded
            heap[:] = [entry for entry in heap if self._armed.get(entry[2]) == entry[1]]
            heapify(heap)

    def pop_due(self, now: Clocks) -> str | None:
        """Disarm and return the timer that has been due longest, or None."""
        mono, wall = self._head(self._mono), self._head(self._wall)
        late_mono = now.mono - mono if mono is not None else -1
        late_wall = now.wall - wall if wall is not None else -1
        if late_mono < 0 and late_wall < 0:
            return None
        _, _, name = heappop(self._mono if late_mono >= late_wall else self._wall)
        del self._armed[name]
        return name

    def sleep_ns(self, now: Clocks) -> Ns | None:
        """How long the loop may sleep before it must look again; None: no timer is armed."""
        mono, wall = self._head(self._mono), self._head(self._wall)
        sleep = None if mono is None else max(0, mono - now.mono)
        if wall is not None:
            look = min(WALL_LOOK_NS, max(0, wall - now.wall))
            sleep = look if sleep is None else min(sleep, look)
        return sleep

    def _head(self, heap: list[_Entry]) -> Ns | None:
        while heap:
            at, order, name = heap[0]
            if self._armed.get(name) == order:
                return at
            heappop(heap)
        return None
