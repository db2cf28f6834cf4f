"""mutex: a lock that is held by at most one, acquired and released.

``acquire`` is possible while it is free, ``release`` while it is held; who holds it is not part of this model. A failed
one did not happen. Out of scope: leases and fencing tokens (the checkers of locks).
"""

from __future__ import annotations

import msgspec

from dethrone.checkers.models.base import Action, State, Trait
from dethrone.checkers.models.ops import FAIL, Codes, F, Ops, Values

FREE, HELD = 0, 1


class Mutex(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "mutex"
    functions: frozenset[F] = frozenset({F.ACQUIRE, F.RELEASE})

    def start(self, values: Values) -> State:
        """Free."""
        del values
        return FREE

    def groups(self, ops: Ops) -> Codes:
        """The locks."""
        return ops.key

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """``acquire`` or ``release``."""
        del values, a, b
        if status == FAIL:
            return None
        return Action("acquire" if f == F.ACQUIRE else "release")

    def trait(self, action: Action) -> Trait:
        """Each changes the state, and is not always possible."""
        del action
        return Trait.PARTIAL

    def step(self, state: State, action: Action) -> State | None:
        """Held after an acquire, free after a release."""
        if action.name == "acquire":
            return HELD if state == FREE else None
        return FREE if state == HELD else None
