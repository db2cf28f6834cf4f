"""The events of one object in order, its actions and states as small integers: what the search goes over.

Guarantees: operations that say nothing are dropped; transitions are computed once. Out of scope: what is done with
them.
"""

from __future__ import annotations

import msgspec

from dethrone.checkers.models.base import Action, Model, State, Trait
from dethrone.checkers.models.ops import OPEN, Ops


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


class Course(msgspec.Struct, frozen=True):
    """The events of one object, in order: rows, which are returns, and of each row its action and slot."""

    rows: list[int]
    is_return: list[bool]
    action: list[int]
    slot: list[int]
    ret: list[int]
    returns: int


def course_of(ops: Ops, model: Model, table: Table) -> Course:
    """Operations that say nothing are dropped; slots are reused once an operation has returned."""
    codes: dict[tuple[int, int, int, int], int] = {}
    action_of = []
    for what in zip(ops.f.tolist(), ops.a.tolist(), ops.b.tolist(), ops.status.tolist(), strict=True):
        code = codes.get(what)
        if code is None:
            action = model.action(ops.values, *what)
            code = codes[what] = -1 if action is None else table.action(action)
        action_of.append(code)
    ret = ops.ret.tolist()
    silent = {-1, *(code for code, trait in enumerate(table.traits) if trait is Trait.OBSERVER)}
    heard = [
        row
        for row, (code, back) in enumerate(zip(action_of, ret, strict=True))
        if code not in silent or (back != OPEN and code >= 0)
    ]
    closed = [row for row in heard if ret[row] != OPEN]
    call = ops.call.tolist()
    at = [*map(call.__getitem__, heard), *map(ret.__getitem__, closed)]
    order = sorted(range(len(at)), key=at.__getitem__)
    either, calls = heard + closed, len(heard)
    rows = [either[place] for place in order]
    is_return = [place >= calls for place in order]
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
    return Course(rows, is_return, action_of, slot, ret, len(closed))
