"""What faults asked of the system itself, as its operators do: when, and of which node.

A leader that was asked to hand over may lose its term to the node that it asks, at once or, where its message is held
up, later: that is no election against a working leader. Guarantees: a request that was refused is none. Out of scope:
excuses: no request takes anything out of a promise of safety.
"""

from __future__ import annotations

from dethrone.checkers.excuses import in_force
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared


@per_history
def asked(history: History) -> list[FaultEvent]:
    """The begins of these faults; span: sent … its effect, or the answer where no effect was seen."""
    return [event for event in history.of(FaultEvent) if in_force(event) and declared(event.kind).asks]


def under_way(history: History) -> list[tuple[Ns, Ns]]:
    """When such a request was under way: then the system changes by itself."""
    return [(event.span.lo, event.span.hi) for event in asked(history)]


def asked_of(history: History, node: str, lo: Ns, hi: Ns) -> FaultEvent | None:
    """A request to this node within [lo, hi]."""
    return next(
        (one for one in asked(history) if node in one.victims and one.span.lo <= hi and lo <= one.span.hi), None
    )
