"""The strategy ``random-twin``: what ``triggered`` draws from the same seed, each trigger replaced by a uniform time.

It is what ``triggered`` is measured against: the same steps, the same faults in the same number, the same holds and
gaps. A fault that waited for an event begins at a time drawn uniformly from the time it would have waited, one that
waited for another fault at a time drawn uniformly from the longest hold of its step; one that an event would have ended
lasts a time drawn so. A selector that speaks of the event becomes the plain one that comes nearest: the node that was
just elected or acknowledged a write is the leader, anybody else is drawn by chance.

Promises: pure; the twin of a schedule without triggers is that schedule. Leaves out drawing the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harness.core.clock import Ns
from harness.core.promise import Promise
from harness.core.protocols import Fault, Strategy
from harness.core.rng import Rng
from harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step, StepBegin
from nemesis import selectors
from nemesis.strategies.triggered import TriggeredStrategy

NAME = "random-twin"
LEADS = frozenset({"elected", "write-acked", "configuration-appended"})
"""Events whose actor is the leader."""


def twin(schedule: Schedule, rng: Rng) -> Schedule:
    """``schedule`` with a uniform time in place of each trigger."""
    steps = tuple(_step(step, rng.stream(f"twin-{number}")) for number, step in enumerate(schedule.steps))
    return msgspec.structs.replace(schedule, steps=steps, strategy=NAME)


def _step(step: Step, rng: Rng) -> Step:
    if not step.triggers and all(isinstance(fault.when, StepBegin) for fault in step.faults):
        return step
    first_ns = rng.stream("step").between(0, step.when.within_ns) if isinstance(step.when, OnEvent) else 0
    event = step.when.event if isinstance(step.when, OnEvent) else ""
    longest_ns = max(fault.hold_ns for fault in step.faults)
    faults = tuple(
        _fault(fault, rng.stream(f"fault-{number}"), first_ns=first_ns, event=event, longest_ns=longest_ns)
        for number, fault in enumerate(step.faults)
    )
    return msgspec.structs.replace(step, faults=faults, when=StepBegin())


def _fault(fault: PlannedFault, rng: Rng, *, first_ns: Ns, event: str, longest_ns: Ns) -> PlannedFault:
    delay_ns = first_ns + fault.delay_ns
    if isinstance(fault.when, OnEvent):
        event = fault.when.event
        delay_ns = first_ns + rng.between(0, fault.when.within_ns)
    elif isinstance(fault.when, AfterFault):
        delay_ns = first_ns + rng.between(0, longest_ns)
    hold_ns = fault.hold_ns
    if fault.until is not None:
        hold_ns = rng.between(0, min(hold_ns, fault.until.within_ns))
    params: Mapping[str, Any] = fault.params
    if "links" in params:
        links = [[_plain(word, event) for word in pair] for pair in params["links"]]
        params = {"shape": "one-link"} if any("random" in pair for pair in links) else {**params, "links": links}
    return msgspec.structs.replace(
        fault,
        victims=_plain(fault.victims, event),
        when=StepBegin(),
        delay_ns=delay_ns,
        hold_ns=hold_ns,
        params=params,
        until=None,
    )


def _plain(words: str, event: str) -> str:
    """The nearest selector that needs no event."""
    selector = selectors.parse(words)
    if selector.kind not in selectors.OF_EVENT:
        return words
    if selector.kind == "actor" and event in LEADS:
        return "leader"
    if selector.kind == "peer" and selector.count > 1:
        return f"random:{selector.count}"
    return "random"


class TwinStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """See ``harness.core.protocols.Strategy``."""

    triggered: TriggeredStrategy = TriggeredStrategy()

    def informed(self, *, observable: frozenset[str], operations: frozenset[str]) -> Strategy:
        """The twin of what ``triggered`` draws for such a system."""
        return TwinStrategy(triggered=self.triggered.informed(observable=observable, operations=operations))

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """The twin of the schedule that ``triggered`` draws from the same seed."""
        drawn = self.triggered.draw(
            rng, faults=faults, nodes=nodes, time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise
        )
        return twin(drawn, rng)


STRATEGY = TwinStrategy()
