"""The events of one object in order, its actions and states as small integers: what the search goes over.

Promises: operations that say nothing are left out; transitions are computed once. Leaves out what is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.models.base import Action, Model, State, Trait
from checkers.models.ops import OPEN, Ops


class Table:
    """States and actions as small integers, transitions computed once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.states: list[State] = []
        self._state_codes: dict[State, int] = {}
        self.actions: list[Action] = []
        self._action_codes: dict[Action, int] = {}
        self.traits: list[Trait] = []
        self.next: list[dict[int, int]] = []
        """By state: action → state after it, -1 where it is not possible."""

    def state(self, state: State) -> int:
        """The code of a state."""
        code = self._state_codes.get(state)
        if code is None:
            code = self._state_codes[state] = len(self.states)
            self.states.append(state)
            self.next.append({})
        return code

    def action(self, action: Action) -> int:
        """The code of an action."""
        code = self._action_codes.get(action)
        if code is None:
            code = self._action_codes[action] = len(self.actions)
            self.actions.append(action)
            self.traits.append(self._model.trait(action))
        return code

    def step(self, state: int, action: int) -> int:
        """The state after it, -1 if it is not possible."""
        known = self.next[state].get(action)
        if known is None:
            after = self._model.step(self.states[state], self.actions[action])
            known = self.next[state][action] = -1 if after is None else self.state(after)
        return known


@dataclass(frozen=True)
class Course:
    """The events of one object, in order: rows, which are returns, and of each row its action and slot."""

    rows: list[int]
    is_return: list[bool]
    action: list[int]
    slot: list[int]
    ret: list[int]
    returns: int


def course_of(ops: Ops, model: Model, table: Table) -> Course:
    """Operations that say nothing are left out; slots are reused once an operation has returned."""
    # one number a kind of operation: codes are smaller than the dictionary, and UNTOLD is -1
    wide = len(ops.values) + 2
    kind = ((ops.f.astype(np.int64) * wide + ops.a + 1) * wide + ops.b + 1) * 4 + ops.status
    _, first, inverse = np.unique(kind, return_index=True, return_inverse=True)
    actions = []
    for f, a, b, status in np.stack([ops.f, ops.a, ops.b, ops.status]).astype(np.int64)[:, first].T.tolist():
        action = model.action(ops.values, f, a, b, status)
        actions.append(-1 if action is None else table.action(action))
    action_of = np.array(actions, dtype=np.int64)[inverse.reshape(-1)]
    observer = np.array([*(trait is Trait.OBSERVER for trait in table.traits), False], dtype=np.bool_)
    heard = np.flatnonzero((action_of >= 0) & ~(observer[action_of] & (ops.ret == OPEN)))
    closed = heard[ops.ret[heard] != OPEN]
    at = np.concatenate([ops.call[heard], ops.ret[closed]])
    order = np.argsort(at, kind="stable")
    rows = np.concatenate([heard, closed])[order].tolist()
    is_return = (order >= len(heard)).tolist()
    slot = [-1] * len(ops)
    free: list[int] = []
    slots = 0
    for row, returns in zip(rows, is_return, strict=True):
        if returns:
            free.append(slot[row])
        elif free:
            slot[row] = free.pop()
        else:
            slot[row] = slots
            slots += 1
    return Course(rows, is_return, action_of.tolist(), slot, ops.ret.tolist(), len(closed))
