"""The models of ``linearizable`` for histories of others: operations in, the engines' answer as a verdict.

    register, cas-register, kv, multi-register, mutex, fifo-queue, set

Sets to which elements are only added are judged by the checker ``set``, which knows more names for what is wrong.
Guarantees: what the engines could not decide is ``unknown``, with how far they came; a violation names the lines of the
operations that cannot be put in order. Out of scope: the engines (``dethrone.checkers.linearizability``) and what
operations do (``dethrone.checkers.models``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.checkers.linear_pieces import WAITS, Found, Judge, Pieces
from dethrone.checkers.linearizability.answer import Answer, Budget, Undecided, Violation, unhurried
from dethrone.checkers.linearizability.decide import decide
from dethrone.checkers.models import model as make
from dethrone.checkers.models.ops import NAMES, F, Op, encode
from dethrone.checkers.models.register import Register
from dethrone.checkers.seen import Anomaly, Seen, SeenChecker, told
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.operations import ModelOptions, Operation, Operations
from dethrone.harness.core.verdict import Verdict

PROOF_MAX = 4
"""Operations of a violation whose places stand in the certificate; all of them are in the data."""

_NUMBERED = re.compile(r"operation (\d+)")
_ABOUT: Mapping[str, str] = {
    "register": "read, write (get, put): one value a key",
    "cas-register": "read, write, cas [expected, new]",
    "kv": "read, write, cas over many keys (the field key, or independent tuples)",
    "multi-register": "txn with [r k nil] and [w k v]: several registers at one moment",
    "mutex": "acquire, release",
    "fifo-queue": "enqueue v, dequeue",
    "set": "add, remove, contains, read: linearizable, or what was lost, stale, diverged, phantom, duplicate",
}


class LinearModel(SeenChecker):
    """See the module; one object a model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.about = _ABOUT[name]
        self._functions = make(name).functions

    def functions(self) -> frozenset[str]:
        """The operations of the model, by all their names."""
        return frozenset(name for name, f in NAMES.items() if f in self._functions)

    def judge(self, operations: Operations, options: ModelOptions) -> Verdict:
        """The verdict on a history of others."""
        if self.name == "set" and all(_only_grows(row) for row in operations.rows):
            from dethrone.checkers.set_reads import SetReads

            plain = operations.each(lambda row: msgspec.structs.replace(row, f=NAMES[row.f].name.lower()))
            return SetReads().judge(plain, options)
        return super().judge(operations, options)

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """What the engines find."""
        return self.found_in(operations.rows, options, source=operations.source)

    def found_in(
        self,
        rows: Iterable[Operation],
        options: ModelOptions,
        *,
        source: str = "",
        waiting_bytes_max: int | None = None,
    ) -> Seen:
        """What the engines find in these, which may come one by one. ``waiting_bytes_max``: what registers may take
        that are not judged yet [default: the bound on a search]."""
        model = make(self.name, initial=options.initial, strict_cas=options.strict_cas)

        def judge(some: Sequence[Operation]) -> Answer:
            try:
                return decide(
                    encode(map(_row, some), sets=self.name == "set"),
                    model,
                    budget=Budget(time_ns=options.limit_ns, memory_bytes=options.memory_bytes_max),
                    elapsed=options.elapsed or unhurried,
                )
            except HistoryError as error:
                raise _at_line(error, some, source) from error

        most = options.memory_bytes_max if waiting_bytes_max is None else waiting_bytes_max
        found = (
            _in_pieces(rows, Pieces(judge, initial=options.initial, memory_bytes_max=most))
            if isinstance(model, Register)
            else _whole(list(rows), judge)
        )
        return Seen(
            anomalies=[_anomaly(one, its) for one, its in found.violations],
            judged=found.operations,
            nothing="there is no operation",
            evidence=_evidence(found),
            doubts=[_undecided(one, options, most) for one in found.undecided[:3]],
            metrics={"engines": dict(found.engines)},
        )


def _in_pieces(rows: Iterable[Operation], pieces: Pieces) -> Found:
    for row in rows:
        pieces.take(row)
    return pieces.done()


def _whole(rows: Sequence[Operation], judge: Judge) -> Found:
    answer = judge(rows)
    found = Found(operations=answer.operations, objects=answer.objects, bad_objects=answer.bad_objects)
    found.add(answer, rows)
    return found


def _only_grows(op: Operation) -> bool:
    """A read, or an add that does not report whether the element was new."""
    told = isinstance(op.result, bool) and not isinstance(op.value, bool)
    return NAMES[op.f] is F.READ or (NAMES[op.f] is F.ADD and not told)


def _evidence(answer: Found) -> dict[str, Any]:
    out: dict[str, Any] = {"operations": answer.operations, "objects": answer.objects}
    if answer.bad_objects:
        out["bad_objects"] = answer.bad_objects
    if answer.undecided:
        out["undecided_objects"] = len(answer.undecided)
    return out


def _row(op: Operation) -> Op:
    """The operation as the engines take it: times are places already."""
    value, result = op.value, op.result
    if op.f == "txn":
        value, result = _steps(value), _steps(result)
    known = op.status != "info"
    return Op(
        f=op.f,
        process=op.process,
        key=op.key,
        value=value,
        output=result,
        call=op.invoked,
        ret=op.returned if known else None,
        status=op.status,
    )


def _steps(value: Any) -> Any:
    """The steps of a transaction with plain words for what they do (EDN has keywords)."""
    if not isinstance(value, list | tuple):
        return value
    return [
        [step[0].removeprefix(":"), *step[1:]]
        if isinstance(step, list | tuple) and step and isinstance(step[0], str)
        else step
        for step in value
    ]


def _at_line(error: HistoryError, rows: Sequence[Operation], source: str) -> HistoryError:
    """The same with the line of the operation that it is about."""
    found = _NUMBERED.search(error.what)
    number = int(found[1]) if found else -1
    if not 0 <= number < len(rows):
        return error
    line = rows[number].line
    return HistoryError(
        error.what.replace(f"operation {number}", "an operation", 1),
        where=f"{source}, line {line}",
        cause=error.cause,
        next_step=error.next_step,
    )


def _anomaly(violation: Violation, rows: Mapping[int, Operation]) -> Anomaly:
    proof = [rows[number] for number in violation.ops]
    stuck = {bar.op for bar in violation.bars if bar.role == "stuck"}
    # of a long proof what has no place, and the end: a chain of compare-and-set begins long before they part
    told_first = sorted(violation.ops, key=lambda number: (number in stuck, number))[-PROOF_MAX:]
    return Anomaly(
        kind=violation.rule,
        sentence=violation.sentence,
        proof=tuple(rows[number] for number in sorted(told_first)),
        data={
            "key": None if violation.key is None else told(violation.key),
            "lines": [op.line for op in proof],
            "bars": [{**_plain(bar), "process": rows[bar.op].process} for bar in violation.bars],
            "zones": [_plain(zone) for zone in violation.zones],
            "stuck_at": violation.stuck_at,
            "since": violation.since,
            "states": list(violation.states),
        },
    )


def _plain(shape: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(shape)
    return built


def _undecided(one: Undecided, options: ModelOptions, waiting_bytes_max: int) -> str:
    key = "" if one.key is None else f" (key {one.key!r})"
    if one.reason == WAITS:
        limit = f"{waiting_bytes_max / 1e6:g} MB; --memory raises the limit"
        return f"out of memory ({limit}): {one.returns} returns wait for a moment at which one operation was alone{key}"
    bound = {
        "out of memory": f" ({options.memory_bytes_max / 1e6:g} MB; --memory raises the limit)",
        "out of time": f" ({options.limit_ns / SECOND:g} s; --limit raises the limit)",
    }.get(one.reason, "")
    return f"{one.reason}{bound}: {one.returns_done} of {one.returns} returns were explained{key}"


REGISTER = LinearModel("register")
CAS_REGISTER = LinearModel("cas-register")
KV = LinearModel("kv")
MULTI_REGISTER = LinearModel("multi-register")
MUTEX = LinearModel("mutex")
FIFO_QUEUE = LinearModel("fifo-queue")
SET = LinearModel("set")
