"""How long it took after the heal of a cut until the network worked again, and then until the protocol did. Figures.

Network time is from the order to heal until probes passed over every link that was cut (the hosts' own evidence).
Protocol time begins there: until a node that was asked later says that it leads, and until the next write is
acknowledged. Guarantees: pure; what did not come before the next fault, or the end, is censored there. ``led``: whether
a leader was there until the heal, so that the protocol had nothing to recover. Out of scope: any bound.
"""

from __future__ import annotations

import bisect
from typing import Any

from dethrone.checkers.cut_effects import LAST, write_times
from dethrone.checkers.facts import leading
from dethrone.checkers.graph import end_of_run
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import declared


def recoveries(history: History) -> list[dict[str, Any]]:
    """A row for each fault that cut links and was healed, in order; JSON values. Times are (ns, censored)."""
    events = list(history.of(FaultEvent))
    began = {event.fault: event.span.hi for event in events if event.phase == "begin" and event.outcome == "installed"}
    begins = sorted(event.span.lo for event in events if event.phase == "begin" and event.outcome != "skipped")
    last = end_of_run(history)
    out = []
    for event in events:
        if event.phase != "end" or event.outcome != "healed" or event.fault not in began:
            continue
        if not declared(event.kind).cuts:
            continue
        since = event.span.hi
        later = bisect.bisect_left(begins, since)
        until = begins[later] if later < len(begins) else last
        out.append(
            {
                "fault": event.fault,
                "network_ns": event.span.hi - event.span.lo,
                "leader_ns": _censored(_leads(history, since, until), since, until),
                "write_ns": _censored(_writes(history, since, until), since, until),
                "led": _led(history, began[event.fault], event.span.lo),
            }
        )
    return out


def _leads(history: History, since: Ns, until: Ns) -> Ns | None:
    """When a node first said that it leads, of those that were asked after ``since``."""
    return next((poll.span.hi for poll in leading(history).within(since, until) if poll.span.lo >= since), None)


def _writes(history: History, since: Ns, until: Ns) -> Ns | None:
    """When the first write after ``since`` was acknowledged."""
    writes = write_times(history)
    place = bisect.bisect_left(writes, since)
    return writes[place] if place < len(writes) and writes[place] <= until else None


def _led(history: History, since: Ns, until: Ns) -> bool:
    """Whether writes were acknowledged in the last third of the cut, so that a leader served until its heal."""
    return _writes(history, until - (until - since) // LAST, until) is not None


def _censored(at: Ns | None, since: Ns, until: Ns) -> list[Any]:
    return [max(0, until - since), True] if at is None else [at - since, False]
