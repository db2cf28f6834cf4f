"""The client state machine: to lists and registers it adds locks, their guards and transactions.

Guarantees: the same entries give the same state and answers on every node: no clock decides. A lock expires through an
`Expire` entry. In addition to the state, every node keeps its own monotonic deadline for each lock, counted from when
it applied the entry that gave or renewed it. That is later than the holder's deadline, which counts from its request. A
fencing token is the index of the entry that gave the lock. Out of scope: sessions (a retried command is a new command).

Source: thesis 6.1-6.4 (clients); lock tokens after Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec

from dethrone.clusters.targets.client_api import Acquire, Append, Cas, Get, Holder, Put, Release, Renew, Txn, Use
from dethrone.clusters.targets.kit.machine import Machine as Values
from dethrone.clusters.targets.kit.machine import Refusal, same
from dethrone.clusters.targets.raft.knobs import KNOBS
from dethrone.clusters.targets.raft.messages import Command, Expire
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.harness.core.clock import MS, Ns


class Lock(msgspec.Struct, frozen=True, gc=False):
    """A held lock. ``touched``: the entry that gave or last renewed it. ``deadline`` is this node's own, monotonic."""

    owner: str
    token: int
    touched: int
    deadline: Ns


class Machine(Values):
    """What a node's applied entries add up to. ``drift``: the largest ratio of two clocks' rates.
    ``rules``: the honest ones unless said otherwise."""

    def __init__(self, drift: Fraction = Fraction(1), rules: Rules | None = None) -> None:
        self.rules = Rules(KNOBS.parse({}, profile=None)) if rules is None else rules
        super().__init__()
        self.locks: dict[str, Lock] = {}
        self.guards: dict[str, int] = {}
        """Lock → the highest token that its guard accepted."""
        self.drift = drift

    def answer(self, asked: Get | Holder) -> Any:
        """The answer to a read: a key's value, or a lock's [owner, token]; None where there is none."""
        if isinstance(asked, Get):
            return self.read(asked.key)
        lock = self.locks.get(asked.key)
        return None if lock is None else [lock.owner, lock.token]

    def expired(self, key: str, now: Ns) -> Expire | None:
        """The entry that a leader appends before an ``acquire`` when the lock is past its time here."""
        lock = self.locks.get(key)
        if lock is None or now < lock.deadline:
            return None
        return Expire(key, lock.touched)

    def apply(self, index: int, command: Command, now: Ns = 0) -> Any:
        """Carry out one committed command: its answer's value, or a `Refusal`."""
        if type(command) is Append:  # most of them are
            return super().apply(index, command)
        match command:
            case Holder():
                return self.answer(command)
            case Use(key, token):
                highest = self.guards.get(key, token)
                if not self.rules.accepts_token(token, highest):
                    return Refusal(f"token {token} is older than {highest}")
                self.guards[key] = max(token, highest)
                return token
            case Txn(steps):
                return self._transact(steps)
            case Acquire(key, owner, ttl_ms):
                lock = self.locks.get(key)
                if lock is not None and lock.owner != owner and not self._over(lock, now):
                    return Refusal("held")
                self.locks[key] = Lock(owner, index, index, now + self._span(ttl_ms))
                return index
            case Renew(key, owner, ttl_ms):
                lock = self.locks.get(key)
                if lock is None or lock.owner != owner:
                    return Refusal("not held")
                self.locks[key] = Lock(owner, lock.token, index, now + self._span(ttl_ms))
                return lock.token
            case Release(key, owner):
                lock = self.locks.get(key)
                if lock is None or lock.owner != owner:
                    return Refusal("not held")
                del self.locks[key]
                return lock.token
            case Expire(key, touched):
                lock = self.locks.get(key)
                if lock is not None and lock.touched == touched:
                    del self.locks[key]
                return None
        return super().apply(index, command)

    def _transact(self, steps: Sequence[tuple[str, str, Any]]) -> Any:
        """All steps, or none where one of them is about a key that holds no list."""
        if any(not isinstance(self.values.get(key, []), list) for _, key, _ in steps):
            return Refusal("not a list")
        told: list[list[Any]] = []
        for f, key, value in steps:
            if f == "append":
                self.values.setdefault(key, []).append(value)
                told.append([f, key, value])
            else:
                told.append([f, key, list(self.values.get(key, ()))])
        return told

    def _over(self, lock: Lock, now: Ns) -> bool:
        return self.rules.clock_decides() and now >= lock.deadline

    def early(self, command: Command) -> tuple[Command, Any] | None:
        """What to append and to answer where a rule decides a command before it is ordered; None: it is not decided."""
        if isinstance(command, Cas) and self.rules.decides_early("cas"):
            held = same(self.values.get(command.key), command.old)
            return (Put(command.key, command.to), True) if held else (Get(command.key), False)
        if isinstance(command, Txn) and self.rules.decides_early("txn"):
            now = Machine(self.drift, self.rules)
            now.values = {key: self.read(key) for _, key, _ in command.steps if key in self.values}
            told = now.apply(0, command, 0)
            return None if isinstance(told, Refusal) else (command, told)
        return None

    def _span(self, ttl_ms: int) -> Ns:
        """A time to live on this node's clock that no holder's clock outlasts."""
        return ceil(ttl_ms * MS * self.drift)
