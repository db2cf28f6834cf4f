"""The events to come of one simulated cluster, and a link: one direction between two of its nodes, as plain data.

Out of scope: what passes a link, and when (``network``, ``delivery``).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import LinkQuality

Entry = tuple[Ns, int, Callable[..., None], Any, Any]

LAST = 1 << 62
"""The order of what comes after all events of its moment."""


class Timeline:
    """``agenda``: the events to come, sorted, as (at, order, call, one, two). ``now``: the moment of the one under way.

    A dozen events are to come at any time: of so few a sorted list is faster than a heap, which compares more.
    """

    __slots__ = ("agenda", "now", "order")

    def __init__(self) -> None:
        self.agenda: list[Entry] = []
        self.now: Ns = 0
        self.order = count().__next__

    def planned(self) -> int:
        """How many events were planned so far and are no longer ahead."""
        return self.order() - len(self.agenda)

    def at(self, when: Ns, call: Callable[..., None], one: Any, two: Any) -> None:
        """Call ``call(one, two)`` at ``when``."""
        insort(self.agenda, (when, self.order(), call, one, two))


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
