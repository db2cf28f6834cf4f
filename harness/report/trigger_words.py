"""Triggers in readable words: what a fault waits for, and what happened.

Guarantees: pure; never raises on evidence of another version. ``words`` describes everything else about faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.schedule import ANYBODY, AfterFault, OnEvent, PlannedFault


def trigger_line(evidence: Mapping[str, Any]) -> str:
    """What became of a fault's trigger: ``on elected of n2 in term 3, after 4.1 ms``; nothing where there was none."""
    trigger = evidence.get("trigger")
    if not isinstance(trigger, Mapping):
        return ""
    if trigger.get("outcome") == "miss":
        return f"{trigger.get('event')} was missed"
    who = f" of {trigger['actor']}" if trigger.get("actor") else ""
    term = f" in term {trigger['term']}" if trigger.get("term") else ""
    latency = trigger.get("latency_ns")
    after = f", after {show_duration(latency)}" if isinstance(latency, int) else ""
    return f"on {trigger.get('event')}{who}{term}{after}"


def when_words(fault: PlannedFault) -> str:
    """When a planned fault begins: ``1 s``, ``after base``, ``on elected after base + 20 ms``."""
    delay = f" + {show_duration(fault.delay_ns)}" if fault.delay_ns else ""
    if isinstance(fault.when, AfterFault):
        return f"after {fault.when.fault}{delay}"
    if isinstance(fault.when, OnEvent):
        return f"on {event_words(fault.when)}{delay}"
    return show_duration(fault.delay_ns)


def hold_words(fault: PlannedFault) -> str:
    """How long a planned fault is held: ``2 s``, ``2 s, or until elected``."""
    held = show_duration(fault.hold_ns)
    return held if fault.until is None else f"{held}, or until {event_words(fault.until)}"


def event_words(trigger: OnEvent) -> str:
    """What a trigger waits for: ``elected (no. 2) by follower after base``."""
    count = f" (no. {trigger.count})" if trigger.count > 1 else ""
    by = f" by {trigger.by}" if trigger.by != ANYBODY else ""
    where = "".join(f" {key}={value}" for key, value in sorted(trigger.where.items()))
    after = f" after {trigger.after}" if trigger.after else ""
    return f"{trigger.event}{count}{where}{by}{after}"
