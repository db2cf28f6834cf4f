"""What a model is: a sequential specification as a pure value.

A model turns each operation into an *action* (what happens to the object if the operation takes effect), and says what
an action does to a state. States are hashable and never None. Out of scope: time and concurrency: that is what the
engines of ``linearizable`` are for.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from typing import NamedTuple, Protocol

from dethrone.checkers.models.ops import Codes, F, Ops, Values

State = Hashable


class Action(NamedTuple):
    """What taking effect means. ``known``: the outcome of the operation is known. Equal actions are interchangeable."""

    name: str
    args: tuple[Hashable, ...] = ()


class Trait(IntEnum):
    """What may be said of an action in every state. A model may always understate (PARTIAL is always true)."""

    OBSERVER = 0
    """Where it is accepted, it leaves the state as it is."""
    BLIND = 1
    """Accepted in every state, and the next state does not depend on the state."""
    TOTAL = 2
    """Accepted in every state."""
    PARTIAL = 3
    """None of these."""


class Model(Protocol):
    @property
    def name(self) -> str:
        """What it is called in files, options and reports."""

    @property
    def functions(self) -> frozenset[F]:
        """The operations that it understands."""

    def start(self, values: Values) -> State:
        """The state before the first operation."""

    def groups(self, ops: Ops) -> Codes:
        """One number a row: rows of different numbers are about independent objects, each judged alone."""

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """What this operation does, None if nothing (it failed, or it is an unanswered question)."""

    def trait(self, action: Action) -> Trait:
        """What may be said of it in every state."""

    def step(self, state: State, action: Action) -> State | None:
        """The next state; None: an action with this outcome is not possible in this state."""
