"""The door: columns of operations and a model in, an answer out. Chooses the engine for each object.

Registers go to the zones first, queues and growing sets to their own engines; what those cannot judge, and every other
model, goes to the search, object by object, until the budget is gone. Guarantees: ``pass`` only if every object has an
order, ``fail`` only with a proof. Out of scope: where operations come from.

Engines are imported where they are used: a small file is judged in less time than all of them take to load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from dethrone.checkers.linearizability import zones
from dethrone.checkers.linearizability.answer import Answer, Budget, Elapsed, Undecided, Violation, unhurried
from dethrone.checkers.linearizability.frontier import Bounds, GaveUp, Since, Stuck
from dethrone.checkers.models.base import Model
from dethrone.checkers.models.fifo_queue import FifoQueue
from dethrone.checkers.models.mutex import FREE, HELD, Mutex
from dethrone.checkers.models.ops import Codes, F, Ints, Ops, distinct
from dethrone.checkers.models.register import Register
from dethrone.checkers.models.sets import SetModel
from dethrone.harness.core.errors import HistoryError

VIOLATIONS_MAX = 20
"""Objects whose violation is reported."""


def decide(ops: Ops, model: Model, *, budget: Budget | None = None, elapsed: Elapsed = unhurried) -> Answer:
    """Whether every object of these operations has an order that the model accepts.

    HistoryError: an operation that the model does not have.
    """
    _understood(ops, model)
    budget = budget or Budget()
    work = _Work(model, Bounds(time_ns=budget.time_ns, memory_bytes=budget.memory_bytes, elapsed=elapsed))
    groups = model.groups(ops)
    if isinstance(model, Register):
        work.registers(ops, model)
    else:
        for rows in _split(groups):
            work.one(ops.take(rows))
    objects = len(distinct(groups))
    bad = len(work.bad_keys)
    return Answer(
        outcome="fail" if bad else "unknown" if work.undecided else "pass",
        operations=len(ops),
        objects=objects,
        violations=tuple(work.violations),
        bad_objects=bad,
        bad_keys=tuple(work.bad_keys),
        undecided=tuple(work.undecided),
        engines=dict(work.engines),
    )


def _understood(ops: Ops, model: Model) -> None:
    known = np.isin(ops.f, sorted(model.functions))
    for at in np.flatnonzero(~known)[:1].tolist():
        names = ", ".join(f.name.lower() for f in sorted(model.functions))
        raise HistoryError(
            f"operation {int(ops.id[at])} is {F(int(ops.f[at])).name.lower()}, which a {model.name} does not have",
            cause=f"a {model.name} has {names}",
            next_step="name the model that these clients used",
        )


def _split(groups: Codes) -> Iterator[Ints]:
    """Rows of each group, in their order."""
    if not len(groups):
        return
    order = np.argsort(groups, kind="stable")
    borders = np.flatnonzero(np.diff(groups[order])) + 1
    yield from np.split(order, borders)


class _Work:
    """What was found so far."""

    def __init__(self, model: Model, bounds: Bounds) -> None:
        self.model = model
        self.bounds = bounds
        self.violations: list[Violation] = []
        self.bad_keys: list[Any] = []
        self.undecided: list[Undecided] = []
        self.engines: Counter[str] = Counter()

    def registers(self, ops: Ops, model: Register) -> None:
        """All keys at once, then the ones left over one by one."""
        initial = cast("int", model.start(ops.values))
        found = zones.judge(ops, initial=initial, strict=model.strict_cas, clashes_max=VIOLATIONS_MAX)
        self.bad_keys += [ops.keys.words[key] for key in found.bad.tolist()]
        self.engines["zones"] += len(distinct(ops.key)) - len(found.undecided)
        if found.clashes:
            from dethrone.checkers.linearizability import tell
        for clash in found.clashes.values():
            self.violations.append(tell.register_clash(ops, model, clash))
        for key in found.undecided.tolist():
            self._searched(ops.take(ops.key == key))

    def one(self, ops: Ops) -> None:
        """One object of any other model."""
        if isinstance(self.model, FifoQueue):
            from dethrone.checkers.linearizability import queues

            queue = queues.judge(ops)
            if queue is not None:
                self.engines["queues"] += 1
                if isinstance(queue, queues.Broken):
                    from dethrone.checkers.linearizability import tell

                    self._bad(tell.queue_broken(ops, queue))
                return
            ops = queues.relevant(ops)
        if isinstance(self.model, SetModel):
            from dethrone.checkers.linearizability import grow_sets

            grown = grow_sets.judge(ops)
            if grown is not None:
                self.engines["grow-sets"] += 1
                if isinstance(grown, grow_sets.Broken):
                    from dethrone.checkers.linearizability import tell

                    self._bad(tell.set_broken(ops, grown))
                return
        self._searched(ops)

    def _bad(self, violation: Violation) -> None:
        self.bad_keys.append(violation.key)
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(violation)

    def _searched(self, ops: Ops) -> None:
        from dethrone.checkers.linearizability.search import search

        key = ops.keys.words[int(ops.key[0])] if len(ops) else None
        if self.bounds.elapsed() > self.bounds.time_ns:
            self.undecided.append(Undecided(key=key, reason="out of time", returns_done=0, returns=len(ops)))
            return
        found = search(ops, self.model, self.bounds)
        if isinstance(found, GaveUp):
            self.undecided.append(
                Undecided(key=key, reason=found.reason, returns_done=found.returns_done, returns=found.returns)
            )
            return
        self.engines["search"] += 1
        if isinstance(found, Stuck):
            self.bad_keys.append(key)
            if len(self.violations) < VIOLATIONS_MAX:
                self.violations.append(self._stuck(ops, found))

    def _stuck(self, ops: Ops, stuck: Stuck) -> Violation:
        """A small proof, as far as the model allows operations to be dropped."""
        from dethrone.checkers.linearizability import minimal, tell
        from dethrone.checkers.linearizability.search import by_frontiers

        model = self.model
        end = int(ops.ret[stuck.row])
        cut = minimal.until(ops, end + 1)
        since: Since | None = None
        states = _states(cut, model)
        searcher = minimal.Searcher(model)
        few: Ops | None = None
        if isinstance(model, Register):
            few, cut, since = minimal.overwritten(cut, searcher, end, states)
        if few is None and states:
            cut, since = minimal.window(ops, searcher, stuck.row, states)
        small = cut if few is None else few
        if len(small) <= minimal.PROOF_MAX:
            cascade = minimal.register_cascade(cut, model) if isinstance(model, Register) else minimal.answers_only(cut)
            small = minimal.fewest(small, lambda rest: searcher.stuck(rest, since) is not None, cascade)
        again = by_frontiers(small, model, Bounds(steps=minimal.STEPS_MAX), since=since)
        if not isinstance(again, Stuck):
            small, again = cut, Stuck(int(np.flatnonzero(cut.ret == end)[0]), stuck.states, stuck.returns_done)
        return tell.stuck(small, model, again, since=since, came=stuck.returns_done)


def _states(ops: Ops, model: Model) -> tuple[object, ...]:
    """All that an object of this model can hold, where they are few."""
    if isinstance(model, Mutex):
        return (FREE, HELD)
    if isinstance(model, Register):
        wrote = np.where(ops.f == F.CAS, ops.b, ops.a)[(ops.f == F.WRITE) | (ops.f == F.CAS)]
        return tuple(sorted({*wrote.tolist(), cast("int", model.start(ops.values))}))
    return ()
