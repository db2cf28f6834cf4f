"""The client state machine that most protocols replicate: lists and registers, changed by committed entries only.

Guarantees: the same entries give the same state and answers on every node. Out of scope: locks, guards and transactions
(``raft.machine``), and a log whose reads follow its own mark (``zk_ephemeral.log``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The command was applied and changed nothing."""

    why: str


class Machine:
    """What a node's applied entries add up to."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def read(self, key: str) -> Any:
        """The value of ``key``; a list is copied, for an answer must not change after it was given."""
        return copied(self.values.get(key))

    def read_after(self, key: str, commands: Iterable[Any]) -> Any:
        """The value of ``key`` as it would be if these were applied, too."""
        scratch = Machine()
        if key in self.values:
            scratch.values[key] = self.read(key)
        for command in commands:
            scratch.apply(0, command)
        return scratch.read(key)

    def apply(self, index: int, command: Any) -> Any:
        """Carry out one committed command: its answer's value, or a `Refusal`."""
        match command:
            case Append(key, value):
                held = self.values.setdefault(key, [])
                if not isinstance(held, list):
                    return Refusal("not a list")
                held.append(value)
                return index
            case Put(key, value):
                self.values[key] = copied(value)
            case Cas(key, old, to):
                if not same(self.values.get(key), old):
                    return False
                self.values[key] = copied(to)
                return True
            case Get(key):
                return self.read(key)
        return None


def copied(value: Any) -> Any:
    """The value; of a list, a list of its own."""
    return list(value) if isinstance(value, list) else value


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1, 1.0 and true are three values."""
    return type(a) is type(b) and bool(a == b)
