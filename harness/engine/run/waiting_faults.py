"""Planned faults of the step under way that have not begun: when each is due. Pure.

Out of scope: what they wait for (``armed_triggers``), and beginning them (``nemesis_driver``).
"""

from __future__ import annotations

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.schedule import PlannedFault
from dethrone.harness.engine.run.armed_triggers import Hit


class Waiting:
    """One of them. ``hit``: what triggered it."""

    __slots__ = ("due", "hit", "planned")

    def __init__(self, planned: PlannedFault, due: Ns, hit: Hit | None) -> None:
        self.planned = planned
        self.due = due
        self.hit = hit


def due(hit: Hit, delay_ns: Ns, now: Ns) -> Ns:
    """A fault without a delay is due at once; a delay counts from the event, not from when it was seen."""
    return max(now, hit.occurrence.span.lo + delay_ns) if delay_ns else now


def begin_due(waiting: Waiting) -> Ns:
    """When it is due, as a key to sort by."""
    return waiting.due
