"""The writes that are under way on one node, and the moment at which each is given up.

Guarantees: one timer covers all of them. Out of scope: what becomes of a write (``data``).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dethrone.harness.core.clock import Ns

if TYPE_CHECKING:
    from dethrone.clusters.targets.nacos.state import NodeState

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
    """All writes under way on one node, by number, with one timer for the earliest deadline."""

    def __init__(self) -> None:
        self.waiting: dict[int, Waiting] = {}
        self._deadlines: list[tuple[Ns, int]] = []

    def add(self, node: NodeState, write: Waiting) -> int:
        """Keep it and have the timer cover it; its number."""
        node.next_number += 1
        number = node.next_number
        self.waiting[number] = write
        heapq.heappush(self._deadlines, (write.deadline, number))
        if self._deadlines[0][1] == number:
            node.set_timer(TIMER, write.deadline)
        return number

    def expired(self, node: NodeState) -> list[tuple[int, Waiting]]:
        """Take out everything that is due, and set the timer for the rest."""
        due = []
        while self._deadlines:
            deadline, number = self._deadlines[0]
            if number in self.waiting and deadline > node.time:
                break
            heapq.heappop(self._deadlines)
            if number in self.waiting:
                due.append((number, self.waiting.pop(number)))
        node.set_timer(TIMER, self._deadlines[0][0] if self._deadlines else None)
        return due

    def clear(self) -> list[Waiting]:
        """Take out everything."""
        left = list(self.waiting.values())
        self.waiting.clear()
        self._deadlines.clear()
        return left
