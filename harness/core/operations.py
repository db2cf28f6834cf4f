"""Client operations as such: what was asked, what came back, and in which order, from any recorder.

Two sources lead here: the ``Invoke`` and ``Return`` events of a run of ours, and the files of other tools
(``dethrone.harness.core.foreign``). Checkers of what clients saw judge nothing but this. Guarantees: rows stand in the
order of their invocations; a ``place`` is a number in the one order of all invocations and returns, and the only thing
that precedence is read from; an operation whose outcome is unknown has no return. Out of scope: what the operations
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dethrone.harness.core.client_ops import Op, client_ops, misfit
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import Mark
from dethrone.harness.core.shown import Shown

if TYPE_CHECKING:
    from dethrone.harness.core.columns import Bools
    from dethrone.harness.core.history import History

NEVER = 2**62
"""The place of a return that did not come: behind everything."""

Status = Literal["ok", "fail", "info"]


class Operation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One operation of one client process.

    ``value`` is what was asked with, ``result`` what an ``ok`` returned. ``fail``: certainly no effect, ever; ``info``:
    unknown, so ``returned`` is NEVER. ``key``: the object that it is about, where the source has several; it is not in
    ``value`` then. ``invoked_ns``, ``returned_ns``: when, -1 where the source has no times.
    ``line``, ``return_line``: where it stands in the file that it came from, 0: not known.
    """

    process: int
    f: str
    value: Any
    status: Status
    result: Any = None
    invoked: int
    returned: int = NEVER
    invoked_ns: Ns = -1
    returned_ns: Ns = -1
    line: int = 0
    return_line: int = 0
    key: Any = None
    group: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        """Its invocation and, if it has one, its return: what a certificate names."""
        return (self.invoked,) if self.returned >= NEVER else (self.invoked, self.returned)


@dataclass(frozen=True, slots=True)
class Operations:
    """Many operations. ``doubts``: why they may not be passed (cut off, more than the bound …), violation or not.

    ``source`` names them in sentences; ``unit`` says what a place is there: the ``seq`` of an event of ours, or the
    number of an event in a foreign file.
    """

    rows: Sequence[Operation]
    doubts: tuple[str, ...] = ()
    source: str = ""
    unit: Literal["seq", "event"] = "event"
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Counts of what was passed over while reading (nemesis events, keys …), for the evidence."""

    def __len__(self) -> int:
        return len(self.rows)

    def each(self, change: Callable[[Operation], Operation]) -> Operations:
        """The same with every operation as ``change`` makes it."""
        return replace(self, rows=[change(row) for row in self.rows])


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How operations are to be read. ``initial``: the value of an object before the first write (None: unset, nil).

    ``strict_cas``: a failed cas is an answer ("the value was another one"), not an operation that did not happen.
    ``consistency``: what transactions are held against: ``strict-serializable``, ``strong-session-serializable``,
    ``serializable``, ``read-committed`` or ``read-uncommitted``. ``stale_reads``: reads may be old. ``settled``:
    the place from which on they must show everything all the same.
    ``drift_ppm_max``: by how much clocks may differ in rate, for leases. ``limit_ns``, ``memory_bytes_max``: what a
    search may cost before it ends in ``unknown``; ``elapsed`` returns the ns since it began (None: no time passes).
    """

    initial: Any = None
    strict_cas: bool = False
    consistency: str = "strict-serializable"
    stale_reads: bool = False
    settled: int = -1
    drift_ppm_max: int = 0
    limit_ns: Ns = 60_000_000_000
    memory_bytes_max: int = 1_000_000_000
    elapsed: Callable[[], Ns] | None = None


def of_history(history: History, functions: Iterable[str], among: Bools | None = None) -> Operations:
    """The operations of a run of ours whose ``f`` is one of these; places are ``seq``, keys stay in the values.

    ``among``: those of a batch (``Ops.batches``) only.
    """
    doubts: list[str] = []
    rows = list(stream_of(history, functions, doubts, among))
    return Operations(rows, tuple(doubts), unit="seq")


def stream_of(
    history: History, functions: Iterable[str], doubts: list[str], among: Bools | None = None
) -> Iterator[Operation]:
    """The same one by one; ``doubts`` are added as they show."""
    doubts += incomplete(history)
    for op in client_ops(history).rows(frozenset(functions), among):
        if isinstance(op.shown, HistoryError):
            doubts.append(misfit(op))
        yield _row(op)


def final_began(history: History) -> int:
    """Where the final phase began, before which a follower that answers may be behind; if it did not, never."""
    return next((mark.seq for mark in history.of(Mark) if mark.name == "final"), NEVER)


def incomplete(history: History) -> list[str]:
    """Why all operations of a history may be doubted, if they may."""
    return [] if history.complete else [f"the history is not complete: {history.damage or 'it has no end record'}"]


def _row(op: Op) -> Operation:
    known = op.status in ("ok", "fail")
    return Operation(
        process=op.process,
        f=op.f,
        value=op.value,
        status="ok" if op.status == "ok" else "fail" if op.status == "fail" else "info",
        result=op.shown if known else None,
        invoked=op.seq,
        returned=op.back if known else NEVER,
        invoked_ns=op.t,
        returned_ns=op.back_t if known else -1,
        group=op.group,
    )


def identity(value: Any) -> Any:
    """A hashable stand-in: equal exactly if the values are equal in the source's own sense (1, 1.0 and true differ)."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is bool or kind is float:
        return (kind.__name__, value)
    if kind is list or kind is tuple or kind is Shown:
        return ("[]", *map(identity, value))
    if isinstance(value, Mapping):
        return ("{}", frozenset((identity(key), identity(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return ("#", frozenset(map(identity, value)))
    return value
