"""The triggers of a run in figures: hits, misses, and how long effects took.

Guarantees: pure; a latency is an upper bound (from the earliest moment of the event to the confirmed effect); medians
are of the hits that had an effect. Triggers that were still armed when the run ended count as neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from dethrone.harness.core.clock import US
from dethrone.harness.core.schedule import RealisedSchedule, RealisedTrigger


def trigger_figures(realised: RealisedSchedule) -> dict[str, Any]:
    """``hits``, ``misses``, ``latency_us`` (median, p90, max) and the same per event; empty where there was none."""
    every = [one for fault in realised.faults for one in (fault.trigger, fault.until) if one is not None]
    if not every:
        return {}
    by_event: dict[str, list[RealisedTrigger]] = defaultdict(list)
    for one in every:
        by_event[one.event].append(one)
    return {**_of(every), "events": {event: _of(by_event[event]) for event in sorted(by_event)}}


def _of(triggers: Iterable[RealisedTrigger]) -> dict[str, Any]:
    known = list(triggers)
    hits = sum(one.outcome == "hit" for one in known)
    out: dict[str, Any] = {"hits": hits, "misses": len(known) - hits}
    latencies = sorted(one.latency_ns for one in known if one.latency_ns is not None)
    if latencies:
        places = {"median": len(latencies) // 2, "p90": len(latencies) * 9 // 10, "max": len(latencies) - 1}
        out["latency_us"] = {name: latencies[place] // US for name, place in places.items()}
    return out
