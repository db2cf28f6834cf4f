"""fifo-queue: values come out in the order in which they went in; an empty queue answers nothing.

A dequeue of unknown outcome takes the front element, or nothing. A failed operation did not happen. Out of scope:
queues that may deliver twice or out of order: those are no FIFO queues.
"""

from __future__ import annotations

from typing import cast

import msgspec

from dethrone.checkers.models.base import Action, State, Trait
from dethrone.checkers.models.ops import FAIL, NOTHING, OK, Codes, F, Ops, Values


class FifoQueue(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. A state is the tuple of what is in it, front first."""

    name: str = "fifo-queue"
    functions: frozenset[F] = frozenset({F.ENQUEUE, F.DEQUEUE})

    def start(self, values: Values) -> State:
        """Empty."""
        del values
        return ()

    def groups(self, ops: Ops) -> Codes:
        """The queues."""
        return ops.key

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """``enqueue`` v, ``dequeue`` v, ``empty``, or ``drop``: a dequeue that did not report what it took."""
        del values, b
        if status == FAIL:
            return None
        if f == F.ENQUEUE:
            return Action("enqueue", (a,))
        if status != OK:
            return Action("drop")
        return Action("empty") if a == NOTHING else Action("dequeue", (a,))

    def trait(self, action: Action) -> Trait:
        """Anything can be enqueued at any time; an empty answer leaves the queue as it is."""
        if action.name == "enqueue":
            return Trait.TOTAL
        return Trait.OBSERVER if action.name == "empty" else Trait.PARTIAL

    def step(self, state: State, action: Action) -> State | None:
        """The queue after it."""
        held = cast("tuple[int, ...]", state)
        if action.name == "enqueue":
            return (*held, *action.args)
        if action.name == "empty":
            return None if held else held
        if not held or (action.name == "dequeue" and held[0] != action.args[0]):
            return None
        return held[1:]
