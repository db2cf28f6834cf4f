"""Any model: all configurations an object can be in, carried from return to return.

A configuration is a state and which of the open operations have been used. Operations are put in order as late as
possible (just before a return that needs it: G. Lowe, "Testing for linearizability", 2017), so between two returns
there is nothing but the frontier: memory is the frontier, never the path. What keeps the frontier small:

* an operation that cannot change the state is taken as soon as it is possible, in all configurations;
* an operation that is always possible can be *hidden* just before a blind one (a write is overwritten at once). After a
  blind operation each open total one is "settled, but may still be used": both choices in one configuration;
* of operations that do the same, the one that returns first is tried; those of unknown outcome are never owed;
* a blind operation, or one of unknown outcome, is used only if something else needs the state that it leads to;
* of two configurations in one state, one that owes less and may use more makes the other superfluous.

First with a narrow frontier (a witness is soon found if there is one), and *greedily* where outcomes are unknown: of
configurations that differ only in which of those were used, the one that used fewest is kept. If that gets stuck after
something was dropped, then *generously*: operations of unknown outcome may take effect any number of times, so which
of them were used need not be told apart; if even that is stuck, there is no order. Then wider and wider.

Promises: ``Stuck`` only if there is no order, ``Fits`` only if there is one. Bounded in time and in memory; then
``GaveUp`` says how far it came. Leaves out which order it is.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Literal

import numpy as np

from checkers.linearizability.answer import Elapsed, unhurried
from checkers.models.base import Action, Model, State, Trait
from checkers.models.ops import OPEN, Ops

Mode = Literal["exact", "greedy", "generous"]
ALL = 1 << 62
TRIES: tuple[tuple[int, Mode], ...] = ((32, "exact"), (1024, "exact"), (32768, "exact"), (ALL, "exact"))
"""Configurations kept after each return, and how, try by try."""
TRIES_UNKNOWN: tuple[tuple[int, Mode], ...] = (
    (16, "greedy"),
    (ALL, "generous"),
    (256, "greedy"),
    (4096, "greedy"),
    (1024, "exact"),
    (ALL, "exact"),
)
"""The same where there are operations of unknown outcome."""
LOOK_EVERY = 256
"""Configurations between two looks at time and memory."""
LEADS_MAX = 64
"""States looked at before it is taken for granted that something needs one of them."""
CONFIG_BYTES = 260
"""A configuration: a tuple, two integers, its place in the lists."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where to give up: ``elapsed`` is asked now and then; bytes are an estimate of what is kept; a step is one
    configuration looked at, so a bound on steps alone does not depend on the machine."""

    time_ns: int = 1 << 62
    memory_bytes: int = 1 << 62
    steps: int = 1 << 62
    elapsed: Elapsed = unhurried


@dataclass(frozen=True, kw_only=True)
class Since:
    """A later beginning: at this position the object held any of these states.

    Whatever is open there may have taken effect before, or not.
    """

    position: int
    states: tuple[State, ...]


Config = tuple[int, int, int]
"""(state, done, used): bits of slots. done: the operation is not owed any more; used: it cannot be used any more."""


@dataclass(frozen=True)
class Fits:
    """There is an order."""


@dataclass(frozen=True)
class Stuck:
    """No order brings this operation before its return. Rows are those of the Ops given."""

    row: int
    states: tuple[State, ...]
    """States of the configurations that came closest, the ones before it."""
    returns_done: int


@dataclass(frozen=True)
class GaveUp:
    """Out of time or memory."""

    reason: str
    returns_done: int
    returns: int


Found = Fits | Stuck | GaveUp


class _Table:
    """States and actions as small integers, transitions computed once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.states: list[State] = []
        self._state_codes: dict[State, int] = {}
        self.actions: list[Action] = []
        self._action_codes: dict[Action, int] = {}
        self.traits: list[Trait] = []
        self.next: list[dict[int, int]] = []
        """By state: action → state after it, -1 where it is not possible."""

    def state(self, state: State) -> int:
        """The code of a state."""
        code = self._state_codes.get(state)
        if code is None:
            code = self._state_codes[state] = len(self.states)
            self.states.append(state)
            self.next.append({})
        return code

    def action(self, action: Action) -> int:
        """The code of an action."""
        code = self._action_codes.get(action)
        if code is None:
            code = self._action_codes[action] = len(self.actions)
            self.actions.append(action)
            self.traits.append(self._model.trait(action))
        return code

    def step(self, state: int, action: int) -> int:
        """The state after it, -1 if it is not possible."""
        known = self.next[state].get(action)
        if known is None:
            after = self._model.step(self.states[state], self.actions[action])
            known = self.next[state][action] = -1 if after is None else self.state(after)
        return known


@dataclass(frozen=True)
class _Course:
    """The events of one object, in order: rows, which are returns, and of each row its action and slot."""

    rows: list[int]
    is_return: list[bool]
    action: list[int]
    slot: list[int]
    ret: list[int]
    returns: int


def _course(ops: Ops, model: Model, table: _Table) -> _Course:
    """Operations that say nothing are left out; slots are reused once an operation has returned."""
    columns = np.stack([ops.f, ops.a, ops.b, ops.status]).astype(np.int64)
    kinds, inverse = np.unique(columns, axis=1, return_inverse=True)
    actions = []
    for f, a, b, status in kinds.T.tolist():
        action = model.action(ops.values, f, a, b, status)
        actions.append(-1 if action is None else table.action(action))
    action_of = np.array(actions, dtype=np.int64)[inverse.reshape(-1)]
    observer = np.array([*(trait is Trait.OBSERVER for trait in table.traits), False], dtype=np.bool_)
    heard = np.flatnonzero((action_of >= 0) & ~(observer[action_of] & (ops.ret == OPEN)))
    closed = heard[ops.ret[heard] != OPEN]
    at = np.concatenate([ops.call[heard], ops.ret[closed]])
    order = np.argsort(at, kind="stable")
    rows = np.concatenate([heard, closed])[order].tolist()
    is_return = (order >= len(heard)).tolist()
    slot = [-1] * len(ops)
    free: list[int] = []
    slots = 0
    for row, returns in zip(rows, is_return, strict=True):
        if returns:
            free.append(slot[row])
        elif free:
            slot[row] = free.pop()
        else:
            slot[row] = slots
            slots += 1
    return _Course(rows, is_return, action_of.tolist(), slot, ops.ret.tolist(), len(closed))


class _OutOfBudget(Exception):  # noqa: N818 - a way out of nested loops, not an error
    """Ends a try; carries the reason."""


def search(ops: Ops, model: Model, bounds: Bounds, *, since: Since | None = None) -> Found:
    """Whether the operations of one object fit an order that the model accepts; ``since``: from a later moment on."""
    table = _Table(model)
    course = _course(ops, model, table)
    states = (model.start(ops.values),) if since is None else since.states
    spanning = 0
    if since is not None:
        for row, slot in enumerate(course.slot):
            if slot >= 0 and ops.call[row] < since.position and course.ret[row] != OPEN:
                spanning |= 1 << slot
    frontier = [(table.state(state), spanning, 0) for state in states]
    found: Found = Fits()
    unknown = {table.traits[course.action[row]] for row in course.rows if course.ret[row] == OPEN}
    furthest = 0
    for width, mode in TRIES_UNKNOWN if unknown else TRIES:
        if mode == "generous" and Trait.TOTAL in unknown:
            continue  # without bound: an enqueue again and again
        found, exact = _Try(table, course, width, mode, bounds).run(frontier)
        if isinstance(found, GaveUp):
            furthest = max(furthest, found.returns_done)
            if mode == "exact" or found.reason == "out of time":
                return GaveUp(found.reason, furthest, found.returns)
        elif (isinstance(found, Fits) and mode != "generous") or (isinstance(found, Stuck) and exact):
            return found
        elif isinstance(found, Stuck):
            furthest = max(furthest, found.returns_done)
    return found


class _Try:
    """One pass over the events with a bound on the frontier."""

    def __init__(self, table: _Table, course: _Course, width: int, mode: Mode, bounds: Bounds) -> None:
        self.table = table
        self.course = course
        self.width = width
        self.bounds = bounds
        self.generous = mode == "generous"
        self.greedy = mode == "greedy"
        self.any_unknown = 0
        """Bits of all operations of unknown outcome, in greedy mode."""
        self.dropped = mode == "greedy"
        self.countdown = LOOK_EVERY
        self.steps = 0
        # What is open now:
        self.movers: list[tuple[int, int, int]] = []
        """(return, bit, action) of owed operations that may change the state, the first to return first."""
        self.observers: dict[int, int] = {}
        """Action → bits of its open operations."""
        self.unknown: dict[int, int] = {}
        """Action → bits of its operations of unknown outcome."""
        self.total = 0
        """Bits of the owed operations that are always possible."""

    def run(self, frontier: list[Config]) -> tuple[Found, bool]:
        """What was found from these configurations on, and whether that is exact."""
        table, course = self.table, self.course
        actions, slots, ends, traits = course.action, course.slot, course.ret, table.traits
        done_returns = 0
        step = table.step
        try:
            for row, is_return in zip(course.rows, course.is_return, strict=True):
                bit = 1 << slots[row]
                action = actions[row]
                trait = traits[action]
                if not is_return:
                    if trait is Trait.OBSERVER:
                        self.observers[action] = self.observers.get(action, 0) | bit
                    elif ends[row] == OPEN:
                        self.unknown[action] = self.unknown.get(action, 0) | bit
                        if self.greedy:
                            self.any_unknown |= bit
                    else:
                        insort(self.movers, (ends[row], bit, action))
                        if trait is not Trait.PARTIAL:
                            self.total |= bit
                    continue
                if trait is Trait.OBSERVER:
                    frontier = [(s, d | bit, u) if step(s, action) >= 0 else (s, d, u) for s, d, u in frontier]
                    pending = [c for c in frontier if not c[1] & bit]
                else:
                    pending = [c for c in frontier if not c[2] & bit]
                if pending:
                    before = frontier
                    frontier = self._expand(frontier, pending, bit)
                    if not frontier:
                        states = dict.fromkeys(table.states[c[0]] for c in before)
                        return Stuck(row, tuple(states), done_returns), not self.dropped
                clear = ~bit
                frontier = [(s, done & clear, used & clear) for s, done, used in frontier]
                if len(frontier) > 1 and (pending or trait is not Trait.OBSERVER):
                    frontier = self._thin(frontier)
                if trait is Trait.OBSERVER:
                    self.observers[action] &= clear
                    if not self.observers[action]:
                        del self.observers[action]
                else:
                    self.movers.remove((ends[row], bit, action))
                    self.total &= clear
                done_returns += 1
        except _OutOfBudget as out:
            return GaveUp(str(out), done_returns, course.returns), True
        return Fits(), True

    def _expand(self, frontier: list[Config], pending: list[Config], bit: int) -> list[Config]:
        """What can follow once the operation ``bit`` has returned, but for what is superfluous.

        ``pending`` have not used it. Those that owe it must; those in which it is settled may, now or never. What one
        of the latter does without using it, it can as well do later: such steps are only passed through.
        """
        kept: dict[int, list[tuple[int, int]]] = {}
        for state, done, used in frontier:
            if done & bit:
                kept.setdefault(state, []).append((done, used))
        seeing: dict[int, int] = {}
        wanted: dict[int, int] = {}
        leading: dict[int, bool] = {}
        moves: dict[int, list[tuple[int, int, int, bool]]] = {}
        passed: set[Config] = set()
        either = self.any_unknown
        todo: list[Config] = []
        for state, done, used in pending:
            if done & bit or _keep(kept.setdefault(state, []), done, used, either):
                todo.append((state, done, used))
        total, limit = self.total, 64 * self.width
        position = 0
        while position < len(todo):
            state, done, used = todo[position]
            position += 1
            self.countdown -= 1
            if self.countdown <= 0:
                self._look(len(todo) + sum(map(len, kept.values())), used)
            if (done, used) not in kept[state]:
                continue  # something better came since
            if position > limit:
                self.dropped = True
                break
            found = moves.get(state)
            if found is None:
                found = moves[state] = self._moves(state)
            now = done | self._seen(state, seeing)
            tried = set()
            for mask, action, after, blind in found:
                free = mask & ~used
                if not free:
                    continue
                one = free & -free
                then = now | self._seen(after, seeing)
                if action >= 0:
                    kind = 2 * action + (done & one != 0)
                    if kind in tried:
                        continue
                    tried.add(kind)
                    then |= one
                elif 2 * ~action in tried or 2 * ~action + 1 in tried:
                    continue
                gone = used if action < 0 and self.generous else used | one
                if blind:
                    then |= total
                if (
                    (blind or action < 0)
                    and one != bit
                    and not self._seen(after, seeing) & ~now
                    and not self._wanted(after, wanted) & ~gone
                    and not self._leads(after, leading, seeing, wanted)
                ):
                    continue
                if _keep(kept.setdefault(after, []), then, gone, either) and not gone & bit:
                    todo.append((after, then, gone))
                    if done & bit and not self.generous:
                        passed.add((after, then, gone))
        return [
            (s, done, used)
            for s, pairs in kept.items()
            for done, used in pairs
            if done & bit and (not passed or (s, done, used) not in passed)
        ]

    def _seen(self, state: int, seeing: dict[int, int]) -> int:
        """Bits of the open observers that are possible in this state."""
        bits = seeing.get(state)
        if bits is None:
            bits = 0
            for action, mask in self.observers.items():
                if self.table.step(state, action) >= 0:
                    bits |= mask
            seeing[state] = bits
        return bits

    def _wanted(self, state: int, wanted: dict[int, int]) -> int:
        """Bits of the open operations, owed and not blind, that are possible in this state."""
        bits = wanted.get(state)
        if bits is None:
            bits = 0
            for _, bit, action in self.movers:
                if self.table.traits[action] is not Trait.BLIND and self.table.step(state, action) >= 0:
                    bits |= bit
            wanted[state] = bits
        return bits

    def _leads(self, state: int, leading: dict[int, bool], seeing: dict[int, int], wanted: dict[int, int]) -> bool:
        """Whether operations of unknown outcome lead from this state to one that something needs."""
        known = leading.get(state)
        if known is None:
            table = self.table
            partial = [action for action in self.unknown if table.traits[action] is not Trait.BLIND]
            reached, todo, known = {state}, [state], False
            while todo and not known:
                here = todo.pop()
                after = {table.step(here, action) for action in partial} - {-1} - reached
                known = len(reached) > LEADS_MAX or any(
                    self._seen(there, seeing) or self._wanted(there, wanted) for there in after
                )
                reached |= after
                todo += after
            leading[state] = known
        return known

    def _moves(self, state: int) -> list[tuple[int, int, int, bool]]:
        """What can be used in this state: (bits of which the lowest is taken, action, state after it, blind).

        Owed operations first; those of unknown outcome have ~action, so that the two are told apart.
        """
        table = self.table
        out = []
        for _, bit, action in self.movers:
            after = table.step(state, action)
            if after >= 0:
                out.append((bit, action, after, table.traits[action] is Trait.BLIND))
        for action, mask in self.unknown.items():
            after = table.step(state, action)
            blind = table.traits[action] is Trait.BLIND
            if after >= 0 and (blind or after != state):
                out.append((mask, ~action, after, blind))
        return out

    def _thin(self, frontier: list[Config]) -> list[Config]:
        """Without superfluous configurations, and no more than the width allows."""
        kept: dict[int, list[tuple[int, int]]] = {}
        either = self.any_unknown
        for state, done, used in frontier:
            _keep(kept.setdefault(state, []), done, used, either)
        thin = [(state, done, used) for state, pairs in kept.items() for done, used in pairs]
        if len(thin) > self.width:
            self.dropped = True
            thin.sort(key=lambda c: c[2].bit_count() - c[1].bit_count())
            thin = thin[: self.width]
        return thin

    def _look(self, configs: int, used: int) -> None:
        self.countdown = LOOK_EVERY
        self.steps += LOOK_EVERY
        if self.steps > self.bounds.steps:
            raise _OutOfBudget("out of steps")
        if self.bounds.elapsed() > self.bounds.time_ns:
            raise _OutOfBudget("out of time")
        size = configs * (CONFIG_BYTES + used.bit_length() // 4) + len(self.table.states) * 400
        if size > self.bounds.memory_bytes:
            raise _OutOfBudget("out of memory")


def _keep(pairs: list[tuple[int, int]], done: int, used: int, either: int) -> bool:
    """Add a configuration to those of its state unless one of them is as good; drop those that it makes superfluous.

    Of the operations ``either`` it only counts how many were used.
    """
    if either:
        count, owed = (used & either).bit_count(), ~either
        for other, gone in pairs:
            if not (done & ~other or gone & ~used & owed) and (gone & either).bit_count() <= count:
                return False
        pairs[:] = [
            (other, gone)
            for other, gone in pairs
            if other & ~done or used & ~gone & owed or (gone & either).bit_count() < count
        ]
    else:
        for other, gone in pairs:
            if not (done & ~other or gone & ~used):
                return False
        if pairs:
            pairs[:] = [(other, gone) for other, gone in pairs if other & ~done or used & ~gone]
    pairs.append((done, used))
    return True
