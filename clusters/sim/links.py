"""The event heap of one simulated cluster, and a link: one direction between two of its nodes, as plain data.

Out of scope: what passes a link, and when (``network``, ``delivery``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappush
from itertools import count
from typing import Any, Protocol

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import LinkQuality

Entry = tuple[Ns, int, Callable[..., None], Any, Any]

LAST = 1 << 62
"""The order of what comes after all events of its moment."""


class Timeline:
    """The event heap. ``now`` is the moment of the event under way; entries are (at, order, call, one, two)."""

    __slots__ = ("heap", "now", "order")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.now: Ns = 0
        self.order = count().__next__

    def planned(self) -> int:
        """How many events were planned so far and are no longer ahead."""
        return self.order() - len(self.heap)

    def at(self, when: Ns, call: Callable[..., None], one: Any, two: Any) -> None:
        """Call ``call(one, two)`` at ``when``."""
        heappush(self.heap, (when, self.order(), call, one, two))


class End(Protocol):
    """A node, as the links know it that begin or end there."""

    name: str
    alive: bool
    links: dict[str, Link]

    def arrive(self, link: Link, body: Any) -> None:
        """A message arrived over this link."""

    def leaving(self, link: Link, body: Any) -> None:
        """A message of this node leaves now."""

    def unheard(self, link: Link, body: Any) -> None:
        """A message of this node met a closed link, on a transport without flows."""

    def tell(self) -> None:
        """Hand the trace lines on that the node has written."""


class Link:
    """One direction between two nodes. ``closed``: nothing passes now; ``plain``: a flow, open, without a quality."""

    __slots__ = (
        "arrive",
        "closed",
        "cut",
        "cut_at",
        "dst",
        "free",
        "held",
        "last",
        "name",
        "number",
        "plain",
        "quality",
        "refused",
        "src",
        "to",
        "up",
        "waiting",
    )

    def __init__(self, src: End, dst: End) -> None:
        self.src = src
        self.dst = dst
        self.name = src.name
        self.to = dst.name
        self.arrive = dst.arrive
        self.cut = False
        self.cut_at: Ns = 0
        self.refused = False
        """Whether no new flow can be made."""
        self.up = False
        """Whether there is a flow; a link without flows (request/response) is always up."""
        self.closed = True
        self.plain = False
        self.quality: LinkQuality | None = None
        self.last: Ns = 0
        """When the newest message of the flow arrives: the next one is never sooner."""
        self.free: Ns = 0
        """When a rate has room for the next message."""
        self.held: list[Any] = []
        self.waiting: deque[tuple[Ns, Any]] = deque()
        self.number = 0
        """Counts flows."""
