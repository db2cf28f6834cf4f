"""Any model: all configurations an object can be in, carried from return to return.

A configuration is a state and which of the open operations have been used. Operations are put in order as late as
possible (just before a return that needs it: G. Lowe, "Testing for linearizability", 2017), so between two returns
there is nothing but the frontier: memory is the frontier, never the path. What keeps the frontier small:

* an operation that cannot change the state is taken as soon as it is possible, in all configurations;
* an operation that is always possible can be *hidden* just before a blind one (a write is overwritten at once). After a
  blind operation each open total one is "settled, but may still be used": both choices in one configuration;
* of operations that do the same, the one that returns first is tried; those of unknown outcome are never owed;
* a blind operation, or one of unknown outcome, is used only if something else needs the state that it leads to;
* of two configurations in one state, one that owes less and may use more makes the other superfluous.

First with a narrow frontier (a witness is soon found if there is one), and *greedily* where outcomes are unknown: of
configurations that differ only in which of those were used, the one that used fewest is kept. If that gets stuck after
something was dropped, then *generously*: operations of unknown outcome may take effect any number of times, so which
of them were used need not be distinguished; if even that is stuck, there is no order. Then wider and wider.

Guarantees: ``Stuck`` only if there is no order, ``Fits`` only if there is one. Bounded in time and in memory; then
``GaveUp`` says how far it came. Out of scope: which order it is.
"""

from __future__ import annotations

import msgspec

from dethrone.checkers.linearizability.course import Table, course_of
from dethrone.checkers.linearizability.frontier import Bounds, Fits, Found, GaveUp, Mode, Pass, Since, Stuck
from dethrone.checkers.linearizability.passes import by_passes
from dethrone.checkers.models.base import Model, Trait
from dethrone.checkers.models.ops import OPEN, Ops

ALL = 1 << 40
PASSES: tuple[tuple[Mode, tuple[int, ...], int], ...] = (
    ("exact", (32, 128), 60),
    ("exact", (ALL,), 500),
    ("exact", (128, 1024, 8192), 2_000),
    ("exact", (ALL,), ALL),
)
"""(mode, widths, steps a return), pass by pass."""
PASSES_UNKNOWN: tuple[tuple[Mode, tuple[int, ...], int], ...] = (
    ("greedy", (16, 64), 60),
    ("generous", (ALL,), 200),
    ("greedy", (64, 256, 1024), 500),
    ("generous", (ALL,), 5_000),
    ("greedy", (512, 4096, 32768), 5_000),
    ("exact", (ALL,), ALL),
)
"""The same where there are operations of unknown outcome."""
STEPS_LEAST = 20_000
"""Steps of a pass over a few returns."""
ROWS_MANY, STEPS_TRIED = 20_000, 30_000
"""Operations with which the kernel is used at once, and steps tried in plain Python before it is loaded otherwise."""

__all__ = ["Bounds", "Fits", "Found", "GaveUp", "Since", "Stuck", "by_frontiers", "search"]


def search(ops: Ops, model: Model, bounds: Bounds, *, since: Since | None = None) -> Found:
    """Whether the operations of one object fit an order that the model accepts; ``since``: from a later moment on.

    By the compiled kernel where there is one and it is worth its loading: it has been loaded, there is much to go over,
    or a first try takes too long.
    """
    from dethrone.checkers.linearizability import fast

    tried = 0
    if len(ops) < ROWS_MANY and not fast.loaded():
        few = min(STEPS_TRIED, bounds.steps)
        found = by_frontiers(ops, model, msgspec.structs.replace(bounds, steps=few), since=since)
        out = isinstance(found, GaveUp) and found.reason == "out of steps"
        if not out or few == bounds.steps:
            return found
        tried = found.steps
    bounds = msgspec.structs.replace(bounds, steps=bounds.steps - tried)
    if not fast.there():
        return by_frontiers(ops, model, bounds, since=since)
    found_fast = fast.search(ops, model, bounds, since=since)
    return found_fast or by_frontiers(ops, model, bounds, since=since)


def by_frontiers(ops: Ops, model: Model, bounds: Bounds, *, since: Since | None = None) -> Found:
    """The same in plain Python."""
    table = Table(model)
    course = course_of(ops, model, table)
    states = (model.start(ops.values),) if since is None else since.states
    spanning = 0
    if since is not None:
        for call, back, slot in zip(ops.call.tolist(), course.ret, course.slot, strict=True):
            if slot >= 0 and call < since.position and back != OPEN:
                spanning |= 1 << slot
    frontier = [(table.state(state), spanning, 0) for state in states]
    unknown = {table.traits[course.action[row]] for row in course.rows if course.ret[row] == OPEN}
    passes = PASSES_UNKNOWN if unknown else PASSES
    if Trait.TOTAL in unknown:  # generous ones would be without bound: an enqueue again and again
        passes = tuple(one for one in passes if one[0] != "generous")

    def run(mode: Mode, widths: tuple[int, ...], steps_max: int) -> tuple[Found, bool]:
        return Pass(table, course, mode, widths=widths, steps_max=steps_max, bounds=bounds).run(frontier)

    return by_passes(passes, run, returns=course.returns, bounds=bounds, steps_least=STEPS_LEAST, unbounded=(ALL,))
