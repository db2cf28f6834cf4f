"""Drawn schedules for nodes in zones: some of what was to hit the leader or followers hits a whole zone.

The loss, the cut and the slowness of a zone are what happens most often: racks lose power, switches fail, a data centre
is far away. Guarantees: pure, and a function of the seed; kinds, times and triggers stay as they were drawn; no step
takes more than a minority of the nodes out of action that did not before; what shows an obligation still shows it.
Out of scope: schedules that a user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.core.zones import LEADERS, OTHER, members
from dethrone.nemesis.selectors import parse

SHARE = (2, 3)
"""How many of the faults that can hit a zone do."""

INSTEAD = {"leader": LEADERS, "minority-with-leader": LEADERS, "follower": OTHER, "minority": OTHER}
"""Selector → the zone that has what it selects, and in which the same obligations are shown."""

LOSS = ("kill", "stop", "restart", "pause", "powerloss")
SLOW = ("link",)
COMPLETE = ("isolate", "halves")
"""Shapes of partitions that cut off all their victims: of a zone, this is a cut between it and the rest."""


def in_zones(schedule: Schedule, rng: Rng, *, faults: Mapping[str, Fault], zones: Mapping[str, str]) -> Schedule:
    """The same schedule for nodes in these zones; unchanged where there are none, or only one.

    Where a zone has more than a minority of the nodes, the first fault of a kind against the leader, and the first one
    against others, stay as they are: what they must show, such a zone may not.
    """
    by_zone = members(zones)
    if len(by_zone) < 2:
        return schedule
    drawer = _Drawer(faults, large=max(map(len, by_zone.values())) > minority(len(zones)))
    steps = [drawer.step(step, rng.stream(f"zones-{number}")) for number, step in enumerate(schedule.steps)]
    return msgspec.structs.replace(schedule, steps=tuple(steps))


class _Drawer:
    """``large``: a zone has more than a minority of the nodes."""

    def __init__(self, faults: Mapping[str, Fault], *, large: bool) -> None:
        self._faults = faults
        self._large = large
        self._shown: set[tuple[str, str]] = set()

    def step(self, step: Step, rng: Rng) -> Step:
        """A fault that others share the step with keeps its victims: a zone and more are more than can be spared."""
        out = [fault for fault in step.faults if traits_of(self._faults[fault.kind]).takes_out]
        free = [fault for fault in step.faults if not any(_together(fault, other) for other in out)]
        return msgspec.structs.replace(
            step, faults=tuple(self._fault(fault, rng) if fault in free else fault for fault in step.faults)
        )

    def _fault(self, fault: PlannedFault, rng: Rng) -> PlannedFault:
        zone = INSTEAD.get(parse(fault.victims).kind)
        if zone is None or not rng.chance(*SHARE):
            return fault
        if self._large and (fault.kind, zone) not in self._shown:
            self._shown.add((fault.kind, zone))
            return fault
        params = fault.params
        if traits_of(self._faults[fault.kind]).cuts and params.get("shape") in COMPLETE:
            params = {**params, "shape": "halves"}
        elif fault.kind in SLOW:
            params = {**params, "of": "outside"}
        elif fault.kind in LOSS:
            zone = OTHER if self._large else zone
        else:
            return fault
        return msgspec.structs.replace(fault, victims=f"zone:{zone}", params=params)


def _together(fault: PlannedFault, other: PlannedFault) -> bool:
    """Whether both may be in force at a time. One that ends on the event that the other waits for is over by then."""
    if other is fault or not other.hold_ns:
        return False
    first, later = (fault, other) if fault.until is not None else (other, fault)
    awaited = later.when.event if isinstance(later.when, OnEvent) else ""
    return first.until is None or first.until.event != awaited
