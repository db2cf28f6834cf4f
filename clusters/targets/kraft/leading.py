"""What a node holds only while it leads, or only after it resigned: plain records without behaviour.

Guarantees: a leadership's state ends with it; nothing is stored. Out of scope: what changes it (`leader`, `fetching`).

Source: Apache Kafka 3.3.1, LeaderState and ResignedState.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dethrone.clusters.targets.kraft.messages import UNKNOWN_OFFSET, FetchRequest
from dethrone.harness.core.clock import Ns

FAR: Ns = 1 << 62
NEVER: Ns = -(1 << 62)


class Replica:
    """What a leader knows of one replica. ``end``: its log end, -1 unknown."""

    def __init__(self, end: int = UNKNOWN_OFFSET, *, acknowledged: bool = False) -> None:
        self.end = end
        self.last_fetch: Ns = NEVER
        self.acknowledged = acknowledged


class Parked:
    """An empty fetch that waits for new records, at most until ``due`` (monotonic)."""

    def __init__(self, src: str, request: FetchRequest, due: Ns) -> None:
        self.src = src
        self.request = request
        self.due = due


class Leading:
    """What exists only while leading; gone with it."""

    def __init__(self, epoch_start: int) -> None:
        self.epoch_start = epoch_start
        """The log end at the election."""
        self.hw = UNKNOWN_OFFSET
        """This leadership's high watermark; -1: not known yet."""
        self.voters: dict[int, Replica] = {}
        self.observers: dict[int, Replica] = {}
        self.parked: dict[int, Parked] = {}
        self.fetched: set[int] = set()
        """The other voters that fetched since the check-quorum timer was last restarted."""
        self.quorum_at: Ns = FAR
        self.announced = False
        """A record of the own epoch is committed: everything before it is applied, reads may be served."""
        self.unappended: list[tuple[int, Any]] = []
        """(request, command) of writes that linger for their batch."""
        self.waiting: dict[int, int] = {}
        """Offset → the client's request that waits until the high watermark passes it."""
        self.reads: deque[tuple[int, str]] = deque()
        """(request, key) of reads that wait for the announcement."""


class Resigning:
    """What exists only while resigned."""

    def __init__(self, successors: tuple[int, ...]) -> None:
        self.successors = successors
        self.acknowledged: set[int] = set()
