"""The writes that are under way on one node, and the moment at which each is given up.

Guarantees: one timer covers all of them. Out of scope: what becomes of a write (``data``).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import msgspec

from dethrone.harness.core.clock import Ns

TIMER = "publish"


class Asker(NamedTuple):
    """What waits for the end of a write: a client (``request``) or the peer that forwarded it."""

    request: int | None = None
    src: str = ""
    message: int | None = None
    number: int = 0
    hops: int = 0


class Waiting(msgspec.Struct):
    """A write under way: at the leader with its acknowledgements, at a follower with ``acks`` None."""

    asker: Asker
    key: str
    timestamp: int
    acks: set[str] | None
    deadline: Ns


class Writes:
    """All writes under way on one node, by number."""

    def __init__(self) -> None:
        self.waiting: dict[int, Waiting] = {}
        self._deadlines: list[tuple[Ns, int]] = []

    def add(self, number: int, write: Waiting) -> bool:
        """Keep it; whether its deadline is the earliest, which the timer must cover."""
        self.waiting[number] = write
        heapq.heappush(self._deadlines, (write.deadline, number))
        return self._deadlines[0][1] == number

    def expired(self, now: Ns) -> tuple[list[Waiting], Ns | None]:
        """Take out everything that is due; also the earliest deadline of the rest, if any is left."""
        due = []
        while self._deadlines:
            deadline, number = self._deadlines[0]
            if number in self.waiting and deadline > now:
                break
            heapq.heappop(self._deadlines)
            if number in self.waiting:
                due.append(self.waiting.pop(number))
        return due, self._deadlines[0][0] if self._deadlines else None

    def clear(self) -> list[Waiting]:
        """Take out everything."""
        left = list(self.waiting.values())
        self.waiting.clear()
        self._deadlines.clear()
        return left
