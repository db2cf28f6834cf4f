"""Transactions over append-only lists: what they wrote and saw, and the version order of each list.

A transaction is one operation ``txn`` whose value is a list of ``["append", key, value]`` and ``["r", key, nil]``; its
result is the same with the reads filled in. The order of a list's versions is read off its longest read: every other
read has to be a prefix of it. Guarantees: a transaction that failed wrote nothing; one whose outcome is unknown
committed if another transaction saw one of its values, and is dropped otherwise; nothing is guessed from malformed
ones, which become doubts. Out of scope: judging.

Source: Kingsbury, Alvaro, "Elle: inferring isolation anomalies from experimental observations", VLDB 2020.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dethrone.harness.core.operations import Operation, Operations, identity

APPEND = frozenset({"append", ":append"})
READ = frozenset({"r", ":r", "read", ":read"})
DOUBTS_MAX = 5


class Micro(msgspec.Struct, gc=False):
    """One step of a transaction. ``seen`` is what a read returned, None where that is unknown."""

    append: bool
    key: Any
    value: Any = None
    seen: Sequence[Any] | None = None


class Txn(msgspec.Struct, gc=False):
    """One transaction; ``number`` counts all of them in the order in which they were asked."""

    number: int
    op: Operation
    micros: list[Micro]

    @property
    def known(self) -> bool:
        """Whether it certainly committed and reported what it read."""
        return self.op.status == "ok"


class Write(msgspec.Struct, gc=False):
    """Who appended a value, as which of its appends to that list (from 0), and whether it was the last of them."""

    txn: Txn
    nth: int
    last: bool


class Look(msgspec.Struct, gc=False):
    """One read of a list. ``fresh``: the transaction had not appended to it before; ``updates``: it did so later."""

    txn: Txn
    values: Sequence[Any]
    fresh: bool
    updates: bool


@dataclass(slots=True)
class List:
    """Everything about one list. ``again``: values that were appended more than once; then it is not judged."""

    name: Any
    writes: dict[Any, Write] = field(default_factory=dict)
    again: set[Any] = field(default_factory=set)
    looks: list[Look] = field(default_factory=list)
    order: Sequence[Any] = ()
    """The longest read: the versions, oldest first."""
    strays: list[Look] = field(default_factory=list)
    """Reads that are no prefix of it."""
    twice: list[Any] = field(default_factory=list)
    """Values that stand in it more than once."""

    @property
    def ordered(self) -> bool:
        """Whether the order can be trusted."""
        return not self.again and not self.twice and not self.strays


@dataclass(slots=True)
class Observed:
    """All transactions and lists of one set of operations."""

    txns: list[Txn]
    lists: dict[Any, List]
    doubts: list[str]
    malformed: int = 0
    """Operations that are no transactions."""
    committed: list[Txn] = field(default_factory=list)
    """In the order in which they were asked: those that are ``known``, and the unknown of which something was seen."""


def observe(operations: Operations) -> Observed:
    """Take the transactions apart and order the lists."""
    out = Observed([], {}, list(operations.doubts))
    for op in operations.rows:
        micros = _micros(op)
        if isinstance(micros, str):
            out.malformed += 1
            if out.malformed <= DOUBTS_MAX:
                out.doubts.append(f"{where(op)}: {micros}")
            continue
        out.txns.append(Txn(len(out.txns), op, micros))
    lists: dict[Any, List] = out.lists
    for txn in out.txns:
        _enter(lists, txn)
    for one in lists.values():
        _order(one)
        if one.again:
            value = min(map(repr, one.again))
            out.doubts.append(f"{value} was appended more than once to {one.name!r}, so that list cannot be judged")
    seen = _seen(lists)
    out.committed = [txn for txn in out.txns if txn.known or (txn.op.status == "info" and txn.number in seen)]
    return out


def where(op: Operation) -> str:
    """How a sentence says which operation it means."""
    return f"line {op.line}" if op.line else f"event {op.invoked}"


def _micros(op: Operation) -> list[Micro] | str:
    """The steps; or what is wrong with them."""
    asked = op.value
    if not isinstance(asked, list | tuple):
        return "a transaction is a list of [f key value]"
    told = op.result if op.status == "ok" else None
    if told is not None and (not isinstance(told, list | tuple) or len(told) != len(asked)):
        return "the result of a transaction does not have its steps"
    if told is None and op.status == "ok":
        return "a transaction came back without its reads"
    out = []
    for at, step in enumerate(asked):
        if not isinstance(step, list | tuple) or len(step) != 3:
            return "a step of a transaction is [f key value]"
        f, key, value = step
        answer = step if told is None else told[at]
        if told is not None and not (
            isinstance(answer, list | tuple) and len(answer) == 3 and answer[0] == f and answer[1] == key
        ):
            return "the result of a transaction does not have its steps"
        if f in APPEND:
            if answer[2] != value:
                return "a transaction came back with another value than it appended"
            out.append(Micro(append=True, key=key, value=value))
        elif f in READ:
            seen = answer[2] if told is not None else None
            if told is not None and seen is None:
                seen = ()
            if seen is not None and not isinstance(seen, list | tuple):
                return "a read of a list returned no list"
            out.append(Micro(append=False, key=key, seen=seen))
        else:
            return f"unknown step {f!r} in a transaction; known: append, r"
    return out


def _enter(lists: dict[Any, List], txn: Txn) -> None:
    last: dict[Any, Write] = {}
    mine: dict[Any, list[Look]] = {}
    for micro in txn.micros:
        key = identity(micro.key)
        one = lists.get(key)
        if one is None:
            one = lists[key] = List(micro.key)
        if micro.append:
            value = identity(micro.value)
            if value in one.writes:
                one.again.add(value)
            before = last.get(key)
            if before is not None:
                before.last = False
            nth = 0 if before is None else before.nth + 1
            last[key] = one.writes[value] = Write(txn, nth, last=True)
            for look in mine.pop(key, ()):
                look.updates = True
        elif micro.seen is not None:
            look = Look(txn, _identities(micro.seen), key not in last, updates=False)
            one.looks.append(look)
            if look.fresh:
                mine.setdefault(key, []).append(look)


def _identities(values: Sequence[Any]) -> list[Any]:
    """As ``identity`` one by one, quickly where all are integers or words."""
    if {int, str}.issuperset(map(type, values)):
        return values if type(values) is list else list(values)
    return [identity(value) for value in values]


def _order(one: List) -> None:
    """The longest read, and who contradicts it."""
    if not one.looks:
        return
    longest = max(one.looks, key=lambda look: len(look.values)).values
    one.order = longest
    one.strays = [look for look in one.looks if longest[: len(look.values)] != look.values]
    if len(set(longest)) < len(longest):
        count: dict[Any, int] = defaultdict(int)
        for value in longest:
            count[value] += 1
        one.twice = [value for value, times in count.items() if times > 1]


def _seen(lists: dict[Any, List]) -> set[int]:
    """Numbers of the transactions of which others, or they themselves, saw a value in some list."""
    out: set[int] = set()
    for one in lists.values():
        if one.again:
            continue
        shown: Iterator[Sequence[Any]] = iter([one.order, *(look.values for look in one.strays)])
        for values in shown:
            out.update(one.writes[value].txn.number for value in values if value in one.writes)
    return out
