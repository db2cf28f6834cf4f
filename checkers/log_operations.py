"""Client operations on logs, log by log, as the checker ``log`` judges them (``log_reads``).

Guarantees: what is not understood is a doubt, and is not judged; of polls of unknown outcome nothing is taken. Out of
scope: what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dethrone.checkers.seen import place
from dethrone.harness.core.operations import Operation, Operations, identity
from dethrone.harness.core.shown import Shown


@dataclass(slots=True)
class Read:
    """One read of the whole log."""

    op: Operation
    shown: Sequence[Any]


@dataclass(slots=True)
class Log:
    """One log. ``again``: values that were appended more than once: not judged."""

    key: Any
    appends: dict[Any, Operation] = field(default_factory=dict)
    again: set[Any] = field(default_factory=set)
    reads: list[Read] = field(default_factory=list)
    polls: list[tuple[Operation, list[tuple[int, Any]]]] = field(default_factory=list)
    """In the order in which they were asked; of a ``seek``, and of a poll of unknown outcome, nothing."""

    def acked(self) -> Iterator[tuple[Any, Operation]]:
        """Values that were certainly appended, and once."""
        for value, op in self.appends.items():
            if op.status == "ok" and value not in self.again:
                yield value, op

    def committed(self, value: Any) -> Operation | None:
        """The append of this value, if it may have taken effect and is the only one."""
        op = self.appends.get(value)
        return None if op is None or op.status == "fail" or value in self.again else op


def collect(operations: Operations) -> tuple[list[Log], list[str]]:
    """Operations by log; and what could not be understood."""
    logs: dict[Any, Log] = {}
    doubts: list[str] = []
    for op in operations.rows:
        if op.f not in ("append", "read", "poll", "seek"):
            continue
        log = logs.get(identity(op.key))
        if log is None:
            log = logs[identity(op.key)] = Log(op.key)
        if op.f == "append":
            value = identity(op.value)
            if value in log.appends:
                log.again.add(value)
            log.appends.setdefault(value, op)
        elif op.f == "read":
            if op.status == "ok":
                values = () if op.result is None else op.result
                if isinstance(values, Shown) and values.known.simple:
                    log.reads.append(Read(op, values))
                elif isinstance(values, list | tuple | Shown):
                    log.reads.append(Read(op, [identity(value) for value in values]))
                else:
                    doubts.append(f"a read{place(op)} returned no list of values, so it cannot be judged")
        elif op.f == "seek" or op.status != "ok":
            if op.f == "seek" or op.status == "info":
                log.polls.append((op, []))
        else:
            pairs = _pairs(op.result)
            if pairs is None:
                doubts.append(f"a poll{place(op)} returned no [index, value] pairs, so it cannot be judged")
                pairs = []
            log.polls.append((op, pairs))
    return list(logs.values()), doubts


def _pairs(result: Any) -> list[tuple[int, Any]] | None:
    if result is None:
        return []
    if not isinstance(result, list | tuple):
        return None
    out = []
    for pair in result:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or type(pair[0]) is not int:
            return None
        out.append((pair[0], identity(pair[1])))
    return out


def index_of(op: Operation) -> int | None:
    """The index that an append returned, if it did."""
    told_index = op.result.get("index") if isinstance(op.result, dict) else op.result
    return told_index if op.status == "ok" and type(told_index) is int else None
