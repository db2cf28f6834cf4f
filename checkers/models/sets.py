"""set: elements are added, removed, asked for one by one, or read all at once.

Where no operation reads all elements, each element is an object of its own. ``add`` and ``remove`` may report whether
they changed anything. A failed operation did not happen. Out of scope: bags: an element is there or not.
"""

from __future__ import annotations

from typing import cast

import msgspec
import numpy as np

from dethrone.checkers.models.base import Action, State, Trait
from dethrone.checkers.models.ops import FAIL, OK, UNTOLD, Codes, F, Ops, Values


class SetModel(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. A state is the frozenset of codes of what is in it."""

    name: str = "set"
    functions: frozenset[F] = frozenset({F.ADD, F.REMOVE, F.CONTAINS, F.READ})

    def start(self, values: Values) -> State:
        """Empty."""
        del values
        return frozenset()

    def groups(self, ops: Ops) -> Codes:
        """The sets; of sets that no operation reads as a whole, the elements."""
        read = np.unique(ops.key[(ops.f == F.READ) & (ops.status == OK)])
        pairs = np.stack([ops.key, np.where(np.isin(ops.key, read) | (ops.f == F.READ), -1, ops.a)])
        return np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """``add`` e, ``remove`` e, ``has`` e, ``lacks`` e, ``is`` e…; and adds and removes that found a change."""
        if status == FAIL or (f in (F.READ, F.CONTAINS) and status != OK):
            return None
        if f == F.READ:
            return Action("is", (values.words[a],))
        if f == F.CONTAINS:
            return Action("has" if b else "lacks", (a,))
        if f == F.ADD:
            return Action(("has", "add-new")[b] if b != UNTOLD else "add", (a,))
        return Action(("lacks", "remove-old")[b] if b != UNTOLD else "remove", (a,))

    def trait(self, action: Action) -> Trait:
        """An operation without a reported outcome is always possible."""
        if action.name in ("add", "remove"):
            return Trait.TOTAL
        return Trait.PARTIAL if action.name in ("add-new", "remove-old") else Trait.OBSERVER

    def step(self, state: State, action: Action) -> State | None:
        """The set after it."""
        held = cast("frozenset[int]", state)
        name, element = action.name, action.args[0]
        if name == "is":
            return held if held == element else None
        there = element in held
        if name in ("has", "lacks"):
            return held if there == (name == "has") else None
        if name in ("add-new", "remove-old") and there == (name == "add-new"):
            return None
        one = frozenset((cast("int", element),))
        return held | one if name.startswith("add") else held - one
