"""Drawn schedules for systems in which no node leads: what was to hit a leader or followers hits any node.

Guarantees: pure; kinds, times and numbers of victims stay as they were drawn, and no obligation speaks of a leader.
Out of scope: triggers: they wait for elections, which never come.
"""

from __future__ import annotations

import msgspec

from dethrone.harness.core.quorum import minority
from dethrone.harness.core.schedule import PlannedFault, Schedule
from dethrone.nemesis.selectors import parse

ROLES = ("leader", "follower", "minority-with-leader", "minority")
"""Selectors that need to know who leads. ``cut-off`` speaks of links, and is drawn only together with a partition."""

INSTEAD = {"leader-cut-off": "minority-cut", "leader-in-majority": "minority-cut"}
"""What a partition shows where no node leads."""

_OF_NOBODY = ("leader-", "follower-")


def hitting_anybody(schedule: Schedule, *, nodes: int) -> Schedule:
    """The same schedule for ``nodes`` of which none leads."""
    steps = [
        msgspec.structs.replace(step, faults=tuple(_on_anybody(fault, nodes) for fault in step.faults))
        for step in schedule.steps
    ]
    owed = {INSTEAD.get(name, name) for name in schedule.obligations}
    kept = sorted(name for name in owed if not name.startswith(_OF_NOBODY))
    return msgspec.structs.replace(schedule, steps=tuple(steps), obligations=tuple(kept))


def _on_anybody(fault: PlannedFault, nodes: int) -> PlannedFault:
    selector = parse(fault.victims)
    if selector.kind not in ROLES:
        return fault
    count = max(1, minority(nodes)) if selector.kind.startswith("minority") else selector.count
    return msgspec.structs.replace(fault, victims="random" if count == 1 else f"random:{count}")
