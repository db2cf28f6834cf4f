"""What each cut of links did: to the leader, to terms, to writes. Figures of runs that play a list of cuts.

Guarantees: pure; a row for each planned cut that was due, one that did not happen included. "Leader" is who said to
lead, in the highest term, by the polls of the last part of the cut. ``majority``: all the time as many healthy voters
as elect could certainly talk to each other; ``silent_ns``: the longest time without an acknowledged write;
``exposed_ns``: how long two nodes certainly claimed to lead different terms. Out of scope: whether any of it was right.
"""

from __future__ import annotations

import bisect
from itertools import pairwise
from typing import Any

import numpy as np

from dethrone.checkers.base import WRITES, votes_needed
from dethrone.checkers.exposure import exposed_within
from dethrone.checkers.facts import answers, leading
from dethrone.checkers.graph import cliques, end_of_run, timeline
from dethrone.harness.core.client_ops import client_ops
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan

LISTED = ("orbits", "orbits-one-way", "shapes")
"""Strategies whose runs have such a table."""

LAST = 3
"""Who leads is read from the last third of a cut."""


def cut_effects(history: History, plan: Plan) -> list[dict[str, Any]]:
    """A row a cut, in order; JSON values. Empty where the run plays no list."""
    if plan.schedule.strategy.partition(",")[0] not in LISTED:
        return []
    ends = {event.fault: event.span.lo for event in history.of(FaultEvent) if event.phase == "end"}
    out = []
    for event in history.of(FaultEvent):
        if event.phase == "begin" and declared(event.kind).cuts:
            row = {"cut": cut_name(event), "step": event.step, "outcome": event.outcome, "why": event.why}
            if event.outcome != "skipped":
                row |= _effects(history, plan, event, ends.get(event.fault, end_of_run(history)))
            out.append(row)
    return out


def cut_name(event: FaultEvent) -> str:
    """The graph's name, or the shape with who is in it: ``5:17``, ``isolate``."""
    return str(event.params.get("graph") or event.params.get("shape") or "links")


def _effects(history: History, plan: Plan, event: FaultEvent, until: Ns) -> dict[str, Any]:
    """From the cut in force to the begin of its heal."""
    since = event.span.hi
    polls, everybody, writes = leading(history), answers(history), write_times(history)
    before = next((node for node, role in event.roles.items() if role.lower() == "leader"), "")
    if not before and (known := polls.until(since)):
        before = next(polls.between(known - 1, known)).node
    late = list(polls.within(until - (until - since) // LAST, until))
    top = max((row.term for row in late), default=0)
    led = {(row.term, row.node) for row in polls.within(since, until)} - _led_by(history, since)
    first, last = bisect.bisect_left(writes, since), bisect.bisect_right(writes, until)
    return {
        "links": links(event),
        "majority": _majority(history, plan, since, until),
        "held_ns": max(0, until - since),
        "leader": before,
        "leader_after": next((row.node for row in late if row.term == top), ""),
        "leaders_at_once": len({row.node for row in late}),
        "elections": len(led),
        "terms": _highest(everybody, until) - _highest(everybody, since),
        "writes": last - first,
        "silent_ns": max(b - a for a, b in pairwise([since, *writes[first:last], max(since, until)])),
        "exposed_ns": exposed_within(history, since, until),
    }


def _majority(history: History, plan: Plan, since: Ns, until: Ns) -> bool:
    quorum = votes_needed(plan.promise, len(plan.voters))
    meanwhile = [one for one in timeline(history, plan.promise, plan).intervals if one.lo < until and one.hi > since]
    graphs = {one.adjacency for one in meanwhile if one.settled}
    return bool(graphs) and all(cliques(graph.two_way(), graph.healthy, quorum) for graph in graphs)


def links(event: FaultEvent) -> str:
    """The cut links, the two-way ones first: ``n1–n2 n3→n1``."""
    cuts = {(str(src), str(dst)) for src, dst in event.params.get("cuts", ())}
    both = [f"{a}–{b}" for a, b in sorted(cuts) if a < b and (b, a) in cuts]
    return " ".join([*both, *(f"{a}→{b}" for a, b in sorted(cuts) if (b, a) not in cuts)])


def _led_by(history: History, at: Ns) -> set[tuple[int, str]]:
    polls = leading(history)
    return {(row.term, row.node) for row in polls.between(0, polls.until(at))}


def _highest(polls: Any, at: Ns) -> int:
    until = polls.until(at)
    return int(polls.highest_term[until - 1]) if until else 0


@per_history
def write_times(history: History) -> list[Ns]:
    """When writes were acknowledged, in order."""
    ops = client_ops(history)
    times: list[Ns] = np.sort(ops.back_t[ops.are(WRITES) & ops.ok]).tolist()
    return times
