"""Invocations and returns, one after the other, become operations; what cannot be distinguished is an error with its
line.

Guarantees: events are in the order in which they come, not in that of their times (these are counted where they run
backwards, and refused where operations are judged by them); a process does one operation at a time; what never
returned, or returned ``info``, is unknown for ever; at most ``most`` operations are kept, and stopping there is said (a
violation among the first ones stands, but they can no longer be passed). Out of scope: what operations mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.operations import NEVER, Operation, Operations, Status

OPERATIONS_MAX = 2_000_000
"""Operations of one file that are kept: about a gigabyte."""

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
TYPES = frozenset({INVOKE, OK, FAIL, INFO})


class FileEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a history: ``invoke``, ``ok``, ``fail`` or ``info``. ``f`` is optional in a return."""

    type: str
    process: Any
    f: str | None
    key: Any
    value: Any
    time_ns: int | None
    line: int


class Pairing:
    """Takes events in the order of the file. ``where`` names the file; ``functions``: the operations that are known.

    ``reuse``: whether a process may continue after an operation of unknown outcome; Jepsen's never do, so there it
    shows that a second history begins. ``timed``: times that run backwards are refused.
    """

    def __init__(
        self,
        where: str,
        functions: Iterable[str],
        *,
        most: int = OPERATIONS_MAX,
        reuse: bool = False,
        timed: bool = False,
    ) -> None:
        self.where = where
        self._functions = frozenset(functions)
        self._most = most
        self._reuse = reuse
        self._timed = timed
        self._rows: list[Operation | None] = []
        self._open: dict[Any, tuple[int, int, FileEvent]] = {}
        """Process → row, place and call of what it is doing."""
        self._gone: dict[Any, int] = {}
        """Processes whose last operation ended unknown → its line."""
        self._numbers: dict[Any, int] = {}
        self._place = 0
        self._time = -1
        self._time_line = 0
        self._ignored = self._backwards = 0
        self._others = False
        self._full = False

    def fault(self, what: str, line: int, *, cause: str = "", next_step: str = "") -> HistoryError:
        """An error of this file at that line."""
        return HistoryError(what, where=f"{self.where}, line {line}", cause=cause, next_step=next_step)

    def ignore(self, *, event: bool = True) -> None:
        """One event that is none of a client; or a line of the file that is no ``event`` at all."""
        self._ignored += 1
        self._others |= event

    def take(self, event: FileEvent) -> bool:
        """One event. False: the bound is reached, nothing more is taken."""
        if event.time_ns is not None:
            self._backwards += event.time_ns < self._time
            if self._backwards and self._timed:
                raise self.fault(
                    f"time runs backwards, from {self._time} to {event.time_ns}",
                    event.line,
                    cause=f"line {self._time_line} is later; two histories in one file, or lines out of order",
                    next_step="give each history a file of its own, or leave the times out",
                )
            self._time, self._time_line = event.time_ns, event.line
        if event.type == INVOKE:
            if len(self._rows) >= self._most:
                self._full = True
                return False
            self._invoke(event)
        elif event.type in TYPES:
            self._return(event)
        else:
            raise self.fault(
                f"unknown type {event.type!r} of an event", event.line, next_step="known: invoke, ok, fail, info"
            )
        self._place += 1
        return True

    def _invoke(self, event: FileEvent) -> None:
        f, process, line = event.f, event.process, event.line
        if f not in self._functions:
            raise self.fault(
                "an operation without f" if f is None else f"unknown operation {f!r}",
                line,
                cause="the history is of another model",
                next_step=f"this model knows: {', '.join(sorted(self._functions))}",
            )
        before = self._open.get(process)
        if before is not None:
            raise self.fault(
                f"process {process} begins {f} while its {before[2].f} of line {before[2].line} has not returned",
                line,
                cause="a process does one operation at a time; two histories in one file, or a lost return",
                next_step="give each thread a number of its own; a call that gave up ends with type info",
            )
        if process in self._gone and not self._reuse:
            raise self.fault(
                f"process {process} continues after its operation of line {self._gone[process]} ended unknown",
                line,
                cause="two histories in one file: Jepsen never uses such a process again",
                next_step="give each history a file of its own",
            )
        self._open[process] = (len(self._rows), self._place, event)
        self._rows.append(None)

    def _return(self, event: FileEvent) -> None:
        before = self._open.pop(event.process, None)
        if before is None:
            raise self.fault(
                f"process {event.process} returns {event.type} without a call",
                event.line,
                cause="the beginning of the history is missing, or two histories are in one file",
            )
        row, place, asked = before
        if event.f is not None and event.f != asked.f:
            raise self.fault(
                f"process {event.process} returns from {event.f}, but line {asked.line} called {asked.f}", event.line
            )
        known = event.type != INFO
        self._rows[row] = Operation(
            process=self._number(event.process),
            f=str(asked.f),
            value=asked.value,
            status=cast("Status", event.type),
            result=event.value if known else None,
            invoked=place,
            returned=self._place if known else NEVER,
            invoked_ns=-1 if asked.time_ns is None else asked.time_ns,
            returned_ns=-1 if event.time_ns is None or not known else event.time_ns,
            line=asked.line,
            return_line=event.line,
            key=asked.key,
        )
        if not known:
            self._gone[event.process] = asked.line

    def _number(self, process: Any) -> int:
        """A process as a number: its own, or the next one for a word."""
        return process if type(process) is int else self._numbers.setdefault(process, -1 - len(self._numbers))

    def operations(self, *, doubts: Iterable[str] = ()) -> Operations:
        """All of them. HistoryError: there is none."""
        if not self._rows and not self._others:
            raise HistoryError(
                "no operation of any client in this history",
                where=self.where,
                cause="the file is empty, or of another format",
                next_step="see docs/histories.md for the formats",
            )
        for row, place, asked in self._open.values():
            self._rows[row] = Operation(
                process=self._number(asked.process),
                f=str(asked.f),
                value=asked.value,
                status="info",
                invoked=place,
                invoked_ns=-1 if asked.time_ns is None else asked.time_ns,
                line=asked.line,
                key=asked.key,
            )
        told = list(doubts)
        if self._full:
            told.append(
                f"more than {self._most} operations; only the first {self._most} were judged, so nothing can be passed"
            )
        counts = {"events_of_others": self._ignored, "times_backwards": self._backwards}
        notes = {name: count for name, count in counts.items() if count}
        return Operations(cast("list[Operation]", self._rows), tuple(told), self.where, "event", notes)


TAKES_NOTHING: frozenset[str] = frozenset({"read", "dequeue", "acquire", "release", "poll"})
"""Operations that are asked with nil; with independent keys, with [key nil]."""


def independent(operations: Operations) -> Operations:
    """Split Jepsen's independent [key value] tuples, if that is what the values are.

    They are where every operation that is asked with nothing is asked with [key nil]. HistoryError: some are and some
    are not.
    """
    probes = [row for row in operations.rows if row.f in TAKES_NOTHING]
    pairs = [row for row in probes if _is_pair(row.value) and row.value[1] is None]
    if not pairs or any(row.key is not None for row in operations.rows):
        return operations
    bare = next((row for row in probes if row.value is None), None)
    if bare is not None:
        raise HistoryError(
            f"line {bare.line} names no key, line {pairs[0].line} does",
            where=operations.source,
            cause="histories of one object and of many objects in one file",
        )
    if len(pairs) < len(probes):
        return operations
    return operations.each(lambda row: _split(row, operations.source))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _split(row: Operation, where: str) -> Operation:
    if not _is_pair(row.value):
        raise HistoryError(
            f"{row.f} has no [key value], though reads are asked by key", where=f"{where}, line {row.line}"
        )
    key, value = row.value
    result = row.result
    if row.status == "ok" and result is not None:
        if not _is_pair(result) or result[0] != key:
            raise HistoryError(
                f"{row.f} of key {key!r} returned {result!r}, which is not [key value] of that key",
                where=f"{where}, line {row.return_line}",
            )
        result = result[1]
    return msgspec.structs.replace(row, value=value, result=result, key=key)


Format = Literal["jepsen-edn", "jepsen-log", "jsonl"]
