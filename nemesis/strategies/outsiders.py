"""Faults of nodes that do not vote, but may be needed: a coordination service, an observer, a name server.

Most selectors speak of voters, so that such a node would hardly ever be hit. Guarantees: where every node votes nothing
is drawn; what is drawn is added to the faults of a step and changes none of them. Out of scope: cutting them off,
which partitions of all shapes do anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Step

OUTSIDER = "outsider"

KINDS: Mapping[str, int] = {"restart": 3, "kill": 2, "powerloss": 2, "disk": 3, "pause": 1}
"""Kinds, and how often each is drawn."""

SHARE = (1, 3)
"""Of the steps."""


def beside(rng: Rng, step: Step, *, kinds: Mapping[str, Fault], nodes: int) -> Step:
    """The step, with one fault of an outsider in some, or two, one after the other: what the first one left is seen."""
    able = [kind for kind in KINDS if kind in kinds for _ in range(KINDS[kind])]
    span_ns = max((fault.hold_ns for fault in step.faults), default=0)
    if not able or not span_ns or not rng.chance(*SHARE):
        return step
    more = [_one(rng.stream("first"), able, span_ns, 0, kinds=kinds, nodes=nodes)]
    if rng.chance(1, 2):
        more.append(_one(rng.stream("second"), able, span_ns, more[0].delay_ns, kinds=kinds, nodes=nodes))
    return msgspec.structs.replace(step, faults=(*step.faults, *more))


def _one(
    rng: Rng, able: list[str], span_ns: Ns, after_ns: Ns, *, kinds: Mapping[str, Fault], nodes: int
) -> PlannedFault:
    """A fault that begins after ``after_ns`` of the step and ends within ``span_ns``."""
    kind = rng.choice(able)
    delay_ns = rng.between(after_ns, max(after_ns, span_ns * 3 // 4))
    hold_ns = max(1, rng.between(0, span_ns - delay_ns))
    drawn = kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs={"victims": OUTSIDER})
    return msgspec.structs.replace(drawn, victims=OUTSIDER, delay_ns=delay_ns)
