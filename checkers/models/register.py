"""register, cas-register, kv: one value a key, written, read, and compared-and-set.

An unset register holds None unless ``initial`` says otherwise. A successful cas found what it expected. A failed one
did not happen, and says nothing more; with ``strict_cas`` it says that the value was another one at some moment of it.
Out of scope: how many writes wrote one value: that is for the engines to see.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.checkers.models.base import Action, State, Trait
from dethrone.checkers.models.ops import FAIL, INFO, OK, Codes, F, Ops, Values


class Register(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "register"
    functions: frozenset[F] = frozenset({F.READ, F.WRITE})
    initial: Any = None
    strict_cas: bool = False

    def start(self, values: Values) -> State:
        """The code of the initial value."""
        return values.code(self.initial)

    def groups(self, ops: Ops) -> Codes:
        """The keys."""
        return ops.key

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """``read`` v, ``write`` v, ``cas`` a b, or ``other`` a: the value is not a."""
        del values
        if f == F.READ:
            return Action("read", (a,)) if status == OK else None
        if f == F.WRITE:
            return None if status == FAIL else Action("write", (a,))
        if status == FAIL:
            return Action("other", (a,)) if self.strict_cas else None
        if a == b:
            return None if status == INFO else Action("read", (a,))
        return Action("cas", (a, b))

    def trait(self, action: Action) -> Trait:
        """Writes are blind."""
        if action.name == "write":
            return Trait.BLIND
        return Trait.PARTIAL if action.name == "cas" else Trait.OBSERVER

    def step(self, state: State, action: Action) -> State | None:
        """The value after it."""
        if action.name == "write":
            return action.args[0]
        if action.name == "read":
            return state if state == action.args[0] else None
        if action.name == "cas":
            return action.args[1] if state == action.args[0] else None
        return state if state != action.args[0] else None


def cas_register(*, initial: Any = None, strict_cas: bool = False) -> Register:
    """A register with compare-and-set."""
    functions = frozenset({F.READ, F.WRITE, F.CAS})
    return Register(name="cas-register", functions=functions, initial=initial, strict_cas=strict_cas)


def kv(*, initial: Any = None, strict_cas: bool = False) -> Register:
    """Many keys, each a register with compare-and-set: judged key by key, for linearizability is local."""
    functions = frozenset({F.READ, F.WRITE, F.CAS})
    return Register(name="kv", functions=functions, initial=initial, strict_cas=strict_cas)
