"""Registers, judged piece by piece while their operations come, so that a long history need not be in memory.

A register is cut after an operation that was *alone*: every other one whose outcome is known had returned before it was
called, or was called after it returned. What such an operation wrote or read is what the register held then, so the
next piece begins with it, as a write. An operation of unknown outcome stays open for ever: it is put into the next
piece, as long as nothing shows that it took effect. If it would have to be used up without being seen (a failed
compare-and-set can need that), the register is not cut there.

Guarantees: a verdict is that on the whole history; one in which nothing is cut is judged as it always was. Of a
register that is violated the first violation is reported, and the rest of it is not looked at. Where what waits for a
moment to cut at takes more than the bound on memory, that register is undecided. Out of scope: the judging itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from dethrone.checkers.linearizability.answer import Answer, Bar, Undecided, Violation
from dethrone.checkers.linearizability.decide import VIOLATIONS_MAX
from dethrone.checkers.models.ops import NAMES, F, token
from dethrone.harness.core.operations import NEVER, Operation

OPERATIONS_WAITING = 50_000
"""Operations that wait, of all registers, before the first try to cut."""
OPERATION_BYTES = 500
"""An operation that waits, and what judging it takes."""
WAITS = "waits"
"""The reason why a register is undecided of which too much waits."""

Judge = Callable[[Sequence[Operation]], Answer]


class Cut(NamedTuple):
    """A register in two pieces, and the operation between them. ``unseen``: operations of unknown outcome that stand in
    ``later``, and that the first piece may have used up."""

    first: list[Operation]
    unseen: list[Operation]
    begin: Operation
    later: list[Operation]


class Found(msgspec.Struct, kw_only=True):
    """What was found in all pieces: as an ``Answer``; each violation with the operations that its numbers are about."""

    operations: int = 0
    objects: int = 0
    violations: list[tuple[Violation, Mapping[int, Operation]]] = []
    bad_objects: int = 0
    undecided: list[Undecided] = []
    engines: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, answer: Answer, rows: Sequence[Operation], *, but: Collection[Any] = ()) -> None:
        """What was found in these; ``but``: of these registers nothing."""
        for one in answer.violations:
            if token(one.key) not in but and len(self.violations) < VIOLATIONS_MAX:
                named = {*one.ops, *(bar.op for bar in one.bars)}
                self.violations.append((one, {number: rows[number] for number in named}))
        self.undecided += answer.undecided
        self.engines.update(answer.engines)


class Pieces:
    """Takes operations in the order of their calls. ``judge`` answers for some registers at once; ``initial``: what
    registers hold at first; ``memory_bytes_max``: of what waits for a moment to cut at."""

    def __init__(self, judge: Judge, *, initial: Any, memory_bytes_max: int) -> None:
        self._judge = judge
        self._initial = token(initial)
        self._memory_bytes_max = memory_bytes_max
        self._waiting: dict[Any, list[Operation]] = {}
        """Register → its operations that have not been judged."""
        self._begin: dict[Any, Operation] = {}
        """Register → the operation that its last piece begins with, as it was."""
        self._bad: set[Any] = set()
        self._left: set[Any] = set()
        """Registers that were given up."""
        self._count = 0
        self._look_at = min(OPERATIONS_WAITING, memory_bytes_max // OPERATION_BYTES + 1)
        self._found = Found()

    def take(self, op: Operation) -> None:
        """The next operation."""
        if self._count >= self._look_at:
            self._look(op.invoked)
        register = token(op.key)
        self._found.operations += 1
        if register not in self._bad and register not in self._left:
            self._waiting.setdefault(register, []).append(op)
            self._count += 1

    def done(self) -> Found:
        """What was found; there is no more."""
        self._found.objects = len(self._waiting.keys() | self._bad | self._left)
        rows = sorted((op for some in self._waiting.values() for op in some), key=_INVOKED)
        if rows or not self._found.objects:
            answer = self._judge(rows)
            self._bad.update(map(token, answer.bad_keys))
            self._add(answer, rows)
        self._found.bad_objects = len(self._bad)
        return self._found

    def _look(self, now: int) -> None:
        """Judge what can be cut off. All operations to come are called at ``now`` or later."""
        cuts = {
            register: cut
            for register, rows in self._waiting.items()
            if (cut := cut_of(rows, now=now, initial=self._initial)) is not None
        }
        if cuts:
            self._judge_first(cuts)
        self._count = sum(map(len, self._waiting.values()))
        most = self._memory_bytes_max // OPERATION_BYTES
        if self._count > most:
            while self._count > most // 2:  # so far below that the next look is worth its time
                self._give_up(max(self._waiting, key=lambda register: len(self._waiting[register])))
        self._look_at = min(max(OPERATIONS_WAITING, 2 * self._count), most + 1)

    def _judge_first(self, cuts: dict[Any, Cut]) -> None:
        rows = sorted((op for cut in cuts.values() for op in cut.first), key=_INVOKED)
        answer = self._judge(rows)
        wrong = {token(key) for key in answer.bad_keys}
        again = [register for register in cuts if register in wrong and cuts[register].unseen]
        self._bad |= wrong.difference(again)
        self._add(answer, rows, but=again)
        for register in again:
            whole = sorted([*cuts[register].first, *cuts[register].unseen], key=_INVOKED)
            answer = self._judge(whole)
            if answer.outcome == "fail":
                self._bad.add(register)
                self._add(answer, whole)
            else:
                del cuts[register]
        for register, cut in cuts.items():
            self._waiting[register] = cut.later
            self._begin[register] = self._really(cut.begin)
        for register in self._bad:
            self._waiting.pop(register, None)

    def _give_up(self, register: Any) -> None:
        rows = self._waiting.pop(register)
        self._begin.pop(register, None)
        self._left.add(register)
        self._count -= len(rows)
        returns = sum(op.returned < NEVER for op in rows)
        self._found.undecided.append(Undecided(key=rows[0].key, reason=WAITS, returns_done=0, returns=returns))

    def _add(self, answer: Answer, rows: Sequence[Operation], *, but: Collection[Any] = ()) -> None:
        """As ``Found.add``, with operations as they were."""
        if answer.violations and self._begin:
            rows = list(map(self._really, rows))
            named = [msgspec.structs.replace(one, bars=_bars(one, rows)) for one in answer.violations]
            answer = msgspec.structs.replace(answer, violations=tuple(named))
        self._found.add(answer, rows, but=but)

    def _really(self, op: Operation) -> Operation:
        begin = self._begin.get(token(op.key))
        return begin if begin is not None and begin.invoked == op.invoked else op


def _bars(violation: Violation, rows: Sequence[Operation]) -> tuple[Bar, ...]:
    """The same bars; one that begins a piece says what it was."""
    return tuple(
        bar if NAMES[rows[bar.op].f] is F.WRITE or not bar.label.startswith("write") else _as_it_was(bar, rows[bar.op])
        for bar in violation.bars
    )


def _as_it_was(bar: Bar, op: Operation) -> Bar:
    from dethrone.checkers.linearizability.tell import word

    cas = NAMES[op.f] is F.CAS
    label = f"cas {word(op.value[0])} → {word(op.value[1])}" if cas else f"read → {word(op.result)}"
    return msgspec.structs.replace(bar, label=label)


def cut_of(rows: Sequence[Operation], *, now: int, initial: Any) -> Cut | None:
    """The operations of a register, cut as late as possible; None where it cannot be cut.

    Operations to come are called at ``now`` or later; ``initial``: the token of what the register holds at first.
    """
    at = _alone(rows, now)
    if at is None:
        return None
    begin = rows[at]
    early = [op for op in rows if op.status == "info" and op.invoked < begin.returned]
    known = [op for op in rows[: at + 1] if op.status != "info"]
    unseen = _unseen(early, known, initial)
    if unseen is None or len(known) == 1:
        return None
    carried = {op.invoked for op in unseen}
    gone = {op.invoked for op in early} | {op.invoked for op in known}
    later = [op for op in rows if op.invoked not in gone or op.invoked in carried]
    later.append(msgspec.structs.replace(begin, f="write", value=_held(begin), result=None))
    later.sort(key=_INVOKED)
    judged = gone - carried
    return Cut([op for op in rows if op.invoked in judged], unseen, begin, later)


def _alone(rows: Sequence[Operation], now: int) -> int | None:
    """The last operation that overlaps no other of known outcome, and that shows what the register held then."""
    found: int | None = None
    maybe: int | None = None
    latest = -1
    for at, op in enumerate(rows):
        if op.status == "info":
            continue
        if maybe is not None and op.invoked > rows[maybe].returned:
            found = maybe
        maybe = at if op.invoked > latest and op.status == "ok" and _held(op) is not _NOT_SHOWN else None
        latest = max(latest, op.returned)
    return maybe if maybe is not None and rows[maybe].returned < now else found


def _held(op: Operation) -> Any:
    """What the register held when this operation, which is ``ok``, took effect; or just after it."""
    what = NAMES[op.f]
    if what is F.READ:
        return op.result
    if what is F.WRITE:
        return op.value
    return op.value[1] if _swap(op) else _NOT_SHOWN


def _swap(op: Operation) -> bool:
    return isinstance(op.value, list | tuple) and len(op.value) == 2


def _unseen(early: Sequence[Operation], known: Sequence[Operation], initial: Any) -> list[Operation] | None:
    """Of the operations of unknown outcome those that nothing shows to have taken effect. None: that cannot be said."""
    if not early:
        return []
    seen: set[Any] = set()
    writers: Counter[Any] = Counter([initial])
    for op in (*early, *known):
        what = NAMES[op.f]
        if what is F.CAS and not _swap(op):
            return None
        if op.status == "fail":
            continue
        if what is not F.READ:
            writers[token(_held(op))] += 1
        if op.status == "ok" and what is not F.WRITE:
            seen.add(token(op.result if what is F.READ else op.value[0]))
    unseen = [op for op in early if NAMES[op.f] is not F.READ]
    while used := [op for op in unseen if token(_held(op)) in seen]:
        if any(writers[token(_held(op))] > 1 for op in used):
            return None
        seen.update(token(op.value[0]) for op in used if NAMES[op.f] is F.CAS)
        unseen = [op for op in unseen if op not in used]
    return unseen


_INVOKED = attrgetter("invoked")
_NOT_SHOWN = object()
