"""What ``triggered`` is measured against: the faults that it draws from the same seed, at uniform times.

``random-twin``: the same faults in the same number and for the same time, each at a time drawn uniformly from the whole
run, independent of all other events. ``step-twin``: the same steps, too, with the same gaps, so that what was drawn
to go together still does, and only the moment is left to chance: a fault that waited for an event begins at a time
drawn uniformly from the time it would have waited, one that waited for another fault at a time drawn uniformly from the
longest hold of its step.

In both, a fault that an event would have ended lasts a time drawn uniformly from its hold. A selector that speaks of
the event becomes the plain one that comes nearest: the node that was just elected or acknowledged a write is the
leader, any other node is drawn by chance, as many as were meant.

Guarantees: pure; the step twin of a schedule without triggers is that schedule; what does not heal comes last in both.
Out of scope: drawing the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault, Strategy
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import quorum
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step, StepBegin
from dethrone.nemesis import selectors
from dethrone.nemesis.strategies.lasting import lasting
from dethrone.nemesis.strategies.pacing import pace_of
from dethrone.nemesis.strategies.triggered import TriggeredStrategy

NAME = "step-twin"
SCATTERED = "random-twin"
LEADS = frozenset({"elected", "write-acked", "configuration-appended"})
"""Events whose actor is the leader."""


def twin(schedule: Schedule, rng: Rng, *, nodes: int) -> Schedule:
    """``schedule`` with a uniform time in place of each trigger."""
    steps = tuple(_step(step, rng.stream(f"twin-{number}"), nodes) for number, step in enumerate(schedule.steps))
    return msgspec.structs.replace(schedule, steps=steps, strategy=NAME)


def scattered(schedule: Schedule, rng: Rng, *, nodes: int, span_ns: Ns, final: bool) -> Schedule:
    """All faults of ``schedule`` at uniform times of ``span_ns``, so that each ends within it; as a single step.

    ``final``: but for the last step, which comes after them. What the schedule must show is left to chance, too.
    """
    drawn = schedule.steps[:-1] if final else schedule.steps
    if not drawn:
        return msgspec.structs.replace(schedule, strategy=SCATTERED)
    faults = []
    for number, step in enumerate(drawn):
        known = {fault.name: fault.victims for fault in step.faults}
        for place, fault in enumerate(_step(step, rng.stream(f"twin-{number}"), nodes).faults):
            delay_ns = rng.stream(f"scattered-{number}-{place}").between(0, max(0, span_ns - fault.hold_ns))
            victims = _plain(_of_whom(fault.victims, known, nodes), "", nodes)
            faults.append(msgspec.structs.replace(fault, name="", victims=victims, when=StepBegin(), delay_ns=delay_ns))
    faults.sort(key=lambda fault: fault.delay_ns)
    steps = (Step(faults=tuple(faults), gap_ns=drawn[-1].gap_ns), *schedule.steps[len(drawn) :])
    return msgspec.structs.replace(schedule, steps=steps, strategy=SCATTERED, obligations=())


def _of_whom(words: str, known: Mapping[str, str], nodes: int) -> str:
    """The nearest selector that speaks of no other fault: the nodes that it is to hit, or as many as it spares."""
    selector = selectors.parse(words)
    if selector.kind not in {"hit-by", "spared-by"} or selector.names[0] not in known:
        return words
    victims = _of_whom(known[selector.names[0]], known, nodes)
    if selector.kind == "hit-by":
        return victims
    return f"random:{max(1, nodes - selectors.size(selectors.parse(victims), nodes))}"


def _step(step: Step, rng: Rng, nodes: int) -> Step:
    if not step.triggers and all(isinstance(fault.when, StepBegin) for fault in step.faults):
        return step
    first_ns = rng.stream("step").between(0, step.when.within_ns) if isinstance(step.when, OnEvent) else 0
    event = step.when.event if isinstance(step.when, OnEvent) else ""
    longest_ns = max(fault.hold_ns for fault in step.faults)
    faults = tuple(
        _fault(fault, rng.stream(f"fault-{number}"), first_ns=first_ns, event=event, longest_ns=longest_ns, nodes=nodes)
        for number, fault in enumerate(step.faults)
    )
    return msgspec.structs.replace(step, faults=faults, when=StepBegin())


def _fault(fault: PlannedFault, rng: Rng, *, first_ns: Ns, event: str, longest_ns: Ns, nodes: int) -> PlannedFault:
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
        links = [[_plain(word, event, nodes) for word in pair] for pair in params["links"]]
        params = {"shape": "one-link"} if any("random" in pair for pair in links) else {**params, "links": links}
    return msgspec.structs.replace(
        fault,
        victims=_plain(fault.victims, event, nodes),
        when=StepBegin(),
        delay_ns=delay_ns,
        hold_ns=hold_ns,
        params=params,
        until=None,
    )


def _plain(words: str, event: str, nodes: int) -> str:
    """The nearest selector that needs no event."""
    selector = selectors.parse(words)
    if selector.kind not in selectors.OF_EVENT:
        return words
    if selector.kind == "actor" and event in LEADS:
        return "leader"
    many = {"peer": selector.count, "peers": nodes - 1, "voters": quorum(nodes) - 1}.get(selector.kind, 1)
    return f"random:{many}" if many > 1 else "random"


class TwinStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``. ``steps``: they are kept."""

    steps: bool = False
    triggered: TriggeredStrategy = TriggeredStrategy()

    def informed(self, *, observable: frozenset[str], operations: frozenset[str], outsiders: int = 0) -> Strategy:
        """The twin of what ``triggered`` draws for such a system."""
        known = self.triggered.informed(observable=observable, operations=operations, outsiders=outsiders)
        return TwinStrategy(steps=self.steps, triggered=known)

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """The twin of the schedule that ``triggered`` draws from the same seed."""
        drawn = self.triggered.draw(
            rng, faults=faults, nodes=nodes, time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise
        )
        if self.steps or not drawn.steps:
            named = twin(drawn, rng, nodes=nodes)
            return named if self.steps else msgspec.structs.replace(named, strategy=SCATTERED)
        pace = pace_of(time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise)
        final = len(drawn.steps) > 1 and any(fault.kind in lasting(faults, promise) for fault in drawn.steps[-1].faults)
        span_ns = pace.budget_ns - (pace.least_ns if final else 0)
        return scattered(drawn, rng, nodes=nodes, span_ns=span_ns, final=final)


STRATEGY = TwinStrategy()
KEEPS_STEPS = TwinStrategy(steps=True)
