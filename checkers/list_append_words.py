"""A cycle of transactions in words and as a drawing: a sentence an edge, and places for a small picture.

Guarantees: pure data, no markup: ``drawing`` holds integers and words only. Out of scope: rendering.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dethrone.checkers.list_append_graph import Cycle, Link
from dethrone.checkers.list_append_observed import Txn
from dethrone.checkers.seen import place, told

WIDTH, HEIGHT, RADIUS = 760, 340, 120
"""Of a drawing, in its own units."""

_MEANING = {
    "G0": "writes of several transactions are mixed",
    "G1c": "information flows in a circle",
    "G-single": "one of them read a state that was already over",
    "G2": "each read what another one had not written yet",
}
LINKS_MAX = 12
"""Edges that a sentence lists one by one."""


def names(cycle: Cycle) -> dict[int, str]:
    """Number of a transaction → T1, T2 … in the order of the cycle."""
    return {link.before.number: f"T{at}" for at, link in enumerate(cycle.links, start=1)}


def sentence(cycle: Cycle) -> str:
    """The whole cycle in one paragraph."""
    called = names(cycle)
    base = cycle.name.split("-process")[0].split("-realtime")[0]
    steps = [edge(link, called) for link in cycle.links[:LINKS_MAX]]
    more = len(cycle.links) - len(steps)
    if more:
        steps.append(f"and so on over {more} more")
    who = ", ".join(
        f"{called[link.before.number]} is process {link.before.op.process}{place(link.before.op)}"
        for link in cycle.links[:LINKS_MAX]
    )
    return f"{cycle.name}: {_MEANING[base]}. {'; '.join(steps)}; so each would come before itself. ({who}.)"


def edge(link: Link, called: Mapping[int, str]) -> str:
    """Why one comes before the other."""
    a, b = called[link.before.number], called[link.after.number]
    why = link.why
    if why is None:
        if link.kind == "process":
            return f"{a} is before {b}, as process {link.before.op.process} did {a} first"
        return f"{a} is before {b}, as {a} had returned before {b} was asked"
    name = told(why.name)
    if link.kind == "ww":
        if why.seen:
            return f"{a} is before {b}, as {b} appended {told(why.value)} to {name} after {a}'s {told(why.before)}"
        return (
            f"{a} is before {b}, as {b} appended {told(why.value)} to {name}, which no read shows, so it came after"
            f" {a}'s {told(why.before)}"
        )
    if link.kind == "wr":
        return f"{a} is before {b}, as {b} read {name} as {told(why.before)} with {a}'s {told(why.value)}"
    return f"{a} is before {b}, as {a} read {name} as {told(why.before)} without {b}'s {told(why.value)}"


def transaction(txn: Txn) -> str:
    """A transaction in one line, as its client saw it."""
    steps = []
    for micro in txn.micros:
        if micro.append:
            steps.append(f"append {told(micro.key)} {told(micro.value)}")
        else:
            steps.append(f"r {told(micro.key)} {'?' if micro.seen is None else told(micro.seen)}")
    return ", ".join(steps)


def data(cycle: Cycle) -> dict[str, Any]:
    """Transactions, edges with their sentences, and where a drawing puts them."""
    called = names(cycle)
    return {
        "transactions": [
            {
                "name": called[link.before.number],
                "process": link.before.op.process,
                "line": link.before.op.line,
                "invoked": link.before.op.invoked,
                "returned": link.before.op.returned if link.before.known else None,
                "text": transaction(link.before),
            }
            for link in cycle.links
        ],
        "edges": [
            {
                "from": called[link.before.number],
                "to": called[link.after.number],
                "kind": link.kind,
                "why": edge(link, called),
            }
            for link in cycle.links
        ],
        "drawing": drawing(cycle),
    }


def drawing(cycle: Cycle) -> dict[str, Any]:
    """The transactions round a circle, clockwise from the top."""
    called = names(cycle)
    nodes = []
    for at, link in enumerate(cycle.links):
        angle = 2 * math.pi * at / len(cycle.links) - math.pi / 2
        nodes.append(
            {
                "id": called[link.before.number],
                "x": round(WIDTH / 2 + 1.5 * RADIUS * math.cos(angle)),
                "y": round(HEIGHT / 2 + RADIUS * math.sin(angle)),
                "text": transaction(link.before),
            }
        )
    edges = [
        {"from": called[link.before.number], "to": called[link.after.number], "text": link.kind} for link in cycle.links
    ]
    return {"kind": "cycle", "width": WIDTH, "height": HEIGHT, "nodes": nodes, "edges": edges}
