"""The client state machine: lists and registers by key, changed by committed entries only.

Guarantees: the same entries give the same state and answers on every node. Out of scope: locks: DLedger has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Put
from dethrone.clusters.targets.dledger.messages import Command, Entry


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The command was applied and changed nothing."""

    why: str


class Machine:
    """What a node's applied entries add up to."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def read(self, key: str) -> Any:
        """The value of ``key``; a list is copied, for an answer must not change after it was given."""
        value = self.values.get(key)
        return list(value) if isinstance(value, list) else value

    def read_with(self, key: str, more: Iterable[Entry]) -> Any:
        """The value of ``key`` as it would be if ``more`` were applied, too."""
        scratch = Machine()
        if key in self.values:
            scratch.values[key] = self.read(key)
        for entry in more:
            scratch.apply(entry.command)
        return scratch.read(key)

    def apply(self, command: Command) -> Any:
        """Carry out one command: its answer's value, or a `Refusal`."""
        match command:
            case Append(key, value):
                held = self.values.setdefault(key, [])
                if not isinstance(held, list):
                    return Refusal("not a list")
                held.append(value)
            case Put(key, value):
                self.values[key] = list(value) if isinstance(value, list) else value
            case Cas(key, old, to):
                if not _same(self.values.get(key), old):
                    return False
                self.values[key] = list(to) if isinstance(to, list) else to
                return True
        return None


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1, 1.0 and true are three values."""
    return type(a) is type(b) and bool(a == b)
