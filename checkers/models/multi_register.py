"""multi-register: transactions that read and write several keys at one moment.

A transaction reads its own earlier writes. Keys that no transaction joins, directly or through others, are independent
objects. An unset key reads ``initial``. Out of scope: isolation weaker than one moment for all.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import numpy as np

from dethrone.checkers.models.base import Action, State, Trait
from dethrone.checkers.models.ops import FAIL, INFO, Codes, F, Ops, Values

_Micro = tuple[tuple[int, int, int], ...]


class MultiRegister(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. A state is the set of (key, value) that were written."""

    name: str = "multi-register"
    functions: frozenset[F] = frozenset({F.TXN})
    initial: Any = None

    def start(self, values: Values) -> State:
        """Nothing written yet, and what that reads as."""
        return (values.code(self.initial), frozenset())

    def groups(self, ops: Ops) -> Codes:
        """Connected components of keys."""
        up: dict[int, int] = {}

        def root(key: int) -> int:
            while up.setdefault(key, key) != key:
                up[key] = up[up[key]]
                key = up[key]
            return key

        words = ops.values.words
        firsts = []
        for code in ops.a.tolist():
            keys = [key for _, key, _ in words[code]]
            for key in keys[1:]:
                up[root(key)] = root(keys[0])
            firsts.append(keys[0] if keys else -1)
        return np.array([root(key) for key in firsts], dtype=np.int32)

    def action(self, values: Values, f: int, a: int, b: int, status: int) -> Action | None:
        """``txn`` micro-operations; of unknown outcome: only its writes."""
        del f, b
        micro: _Micro = values.words[a]
        if status == FAIL:
            return None
        if status == INFO:
            micro = tuple(item for item in micro if item[0] == F.WRITE)
        return Action("txn", micro) if micro else None

    def trait(self, action: Action) -> Trait:
        """Only reads, only writes, or both."""
        kinds = {item[0] for item in cast("_Micro", action.args)}
        if F.WRITE not in kinds:
            return Trait.OBSERVER
        return Trait.PARTIAL if F.READ in kinds else Trait.TOTAL

    def step(self, state: State, action: Action) -> State | None:
        """All of its writes, if all of its reads are right."""
        unset, pairs = cast("tuple[int, frozenset[tuple[int, int]]]", state)
        held = dict(pairs)
        for f, key, value in cast("_Micro", action.args):
            if f == F.WRITE:
                held[key] = value
            elif held.get(key, unset) != value:
                return None
        return (unset, frozenset(held.items()))
