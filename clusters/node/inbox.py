"""What becomes of messages that arrive over links of bad quality, where the node itself sees to it. Pure.

TCP hides from programs that packets are doubled or overtake each other, and a packet that is held back holds up all
that follow it. So a node of ours does this to its messages: as its agent asks, it handles some twice, some later than
others, and keeps some back. Guarantees: as in simulation (``clusters.sim.network``); what was kept back is handled, in
its order, when the fault ends; what waits is bounded (``WAITING_MAX``: beyond, messages pass), and counted. Out of
scope: loss and delay, which packets can suffer, and requests with an answer of their own, which are never doubled.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from dethrone.clusters.node.transport import FAR
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

WAITING_MAX = 1 << 14


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to become of the messages of one peer; see ``LinkQuality``."""

    duplicate_percent: int = 0
    reorder_percent: int = 0
    reorder_ns: Ns = 0
    hold: int = 0


class Arrival(NamedTuple):
    """A message of a peer; ``request``: its id if it expects an answer."""

    src: str
    body: Any
    request: int | None


class Inbox:
    """The messages of one node. ``counts``: peer → what happened to how many; of this process."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._wishes: dict[str, Wish] = {}
        self._held: dict[str, list[Arrival]] = {}
        self._later: list[tuple[Ns, int, Arrival]] = []
        self._order = 0
        self.counts: dict[str, Counter[str]] = {}

    @property
    def next_at(self) -> Ns:
        """When the next one that waits is to be handled; ``FAR``: none waits."""
        return self._later[0][0] if self._later else FAR

    def wish(self, wishes: Mapping[str, Wish]) -> list[Arrival]:
        """From now on, for these peers and no others. What is handled at once: what is not to be kept back any more."""
        self._wishes = {src: wish for src, wish in wishes.items() if wish != Wish()}
        out = []
        for src in [src for src in self._held if not self._wishes.get(src, Wish()).hold]:
            held = self._held.pop(src)
            self._count(src, "released", len(held))
            out += held
        return out

    def arrive(self, now: Ns, one: Arrival) -> list[Arrival]:
        """What is to be handled now that this message is here."""
        wish, rng = self._wishes.get(one.src), self._rng
        if wish is None:
            return [one]
        self._count(one.src, "seen")
        if len(self._later) + sum(map(len, self._held.values())) >= WAITING_MAX:
            self._count(one.src, "overflow")
            return [one]
        if one.request is None and rng.chance(wish.duplicate_percent, 100):
            self._count(one.src, "duplicated")
            self._wait(now + rng.below(max(1, wish.reorder_ns)), one)
        if rng.chance(wish.reorder_percent, 100):
            self._count(one.src, "reordered")
            self._wait(now + rng.below(wish.reorder_ns + 1), one)
            return []
        held = self._held.setdefault(one.src, []) if wish.hold else []
        if len(held) < wish.hold:
            self._count(one.src, "held")
            held.append(one)
            return []
        return [one]

    def due(self, now: Ns) -> list[Arrival]:
        """What waited, and is to be handled now."""
        out = []
        while self._later and self._later[0][0] <= now:
            out.append(heapq.heappop(self._later)[2])
        return out

    def _wait(self, at: Ns, one: Arrival) -> None:
        self._order += 1
        heapq.heappush(self._later, (at, self._order, one))

    def _count(self, src: str, what: str, number: int = 1) -> None:
        self.counts.setdefault(src, Counter())[what] += number
