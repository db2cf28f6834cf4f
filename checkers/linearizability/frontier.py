"""One pass over the events of an object: a frontier of configurations, carried from return to return.

What a configuration is, and which are superfluous, stands in ``search``. A pass keeps a fixed number of configurations
after each return. If it gets stuck after something was dropped it goes back a little and tries that stretch again with
a wider frontier, further back and wider each time. Guarantees: memory is the frontier and a few marks to go back to.
Out of scope: which passes to make.
"""

from __future__ import annotations

from bisect import insort
from typing import Literal, NamedTuple

import msgspec

from dethrone.checkers.linearizability.answer import Elapsed, unhurried
from dethrone.checkers.linearizability.course import Course, Table
from dethrone.checkers.models.base import State, Trait
from dethrone.checkers.models.ops import OPEN

Mode = Literal["exact", "greedy", "generous"]
LOOK_EVERY = 256
"""Configurations between two looks at time and memory."""
MARK_EVERY = 64
"""Returns between two marks to go back to."""
BACK = 4
"""Each time it is stuck it goes back this many times as many marks as before."""
LEADS_MAX = 64
"""States looked at before it is taken for granted that something needs one of them."""
EXPAND_MAX = 16
"""Configurations looked at for one return, for each one that may be kept."""
CONFIG_BYTES = 260
"""A configuration: a tuple, two integers, its place in the lists."""
STATE_BYTES = 400

Config = tuple[int, int, int]
"""(state, done, used): bits of slots. done: the operation is not owed any more; used: it cannot be used any more."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where to give up: ``elapsed`` is asked now and then; bytes are an estimate of what is kept; a step is one
    configuration looked at, so a bound on steps alone does not depend on the machine."""

    time_ns: int = 1 << 62
    memory_bytes: int = 1 << 62
    steps: int = 1 << 62
    elapsed: Elapsed = unhurried


class Fits(msgspec.Struct, frozen=True):
    """There is an order."""

    steps: int = 0


class Stuck(msgspec.Struct, frozen=True):
    """No order brings this operation before its return. Rows are those of the Ops given."""

    row: int
    states: tuple[State, ...]
    """States of the configurations that came closest, the ones before it."""
    returns_done: int
    steps: int = 0


class GaveUp(msgspec.Struct, frozen=True):
    """Out of time or memory."""

    reason: str
    returns_done: int
    returns: int
    steps: int = 0


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """A later beginning: at this position the object held any of these states.

    An operation open there may have taken effect before, or not.
    """

    position: int
    states: tuple[State, ...]


Found = Fits | Stuck | GaveUp


class _OutOfBudget(Exception):  # noqa: N818 - a way out of nested loops, not an error
    """Ends a pass; carries the reason."""


class _Mark(NamedTuple):
    """Everything that a pass needs to continue from a return."""

    at: int
    returns: int
    frontier: list[Config]
    movers: list[tuple[int, int, int]]
    observers: dict[int, int]
    unknown: dict[int, int]
    total: int
    any_unknown: int


class Pass:
    """One pass. ``widths``: configurations kept after a return, at first and where it got stuck."""

    def __init__(
        self, table: Table, course: Course, mode: Mode, *, widths: tuple[int, ...], steps_max: int, bounds: Bounds
    ) -> None:
        self.table = table
        self.course = course
        self.widths = widths
        self.width = widths[0]
        self.steps_max = steps_max
        self.bounds = bounds
        self.generous = mode == "generous"
        self.greedy = mode == "greedy"
        self.dropped = self.greedy
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
        self.any_unknown = 0
        """Bits of all operations of unknown outcome, in greedy mode."""
        self._reach: dict[int, frozenset[int] | None] = {}
        self._reach_kinds = 0

    def run(self, frontier: list[Config]) -> tuple[Found, bool]:
        """What was found from these configurations on, and whether that is exact."""
        table, course = self.table, self.course
        rows, is_return, slots, actions = course.rows, course.is_return, course.slot, course.action
        traits, step = table.traits, table.step
        marks = [self._mark(0, 0, frontier)]
        returns = furthest = level = calm_at = at = 0
        try:
            while at < len(rows):
                row = rows[at]
                bit, action = 1 << slots[row], actions[row]
                trait = traits[action]
                at += 1
                if not is_return[at - 1]:
                    self._open(row, bit, action, trait)
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
                        level += 1
                        furthest = max(furthest, returns)
                        if not self.dropped or level == len(self.widths):
                            states = dict.fromkeys(table.states[c[0]] for c in before)
                            return Stuck(row, tuple(states), returns, self.steps), not self.dropped
                        self.width, calm_at = self.widths[level], furthest + 2 * MARK_EVERY
                        del marks[max(1, len(marks) - BACK**level) :]
                        at, returns, frontier = self._return_to(marks[-1])
                        continue
                clear = ~bit
                frontier = [(s, done & clear, used & clear) for s, done, used in frontier]
                if len(frontier) > 1 and (pending or trait is not Trait.OBSERVER):
                    frontier = self._thin(frontier)
                self._close(row, bit, action, trait)
                returns += 1
                if returns % MARK_EVERY == 0:
                    marks.append(self._mark(at, returns, frontier))
                if level and returns > calm_at:
                    level, self.width = 0, self.widths[0]
        except _OutOfBudget as out:
            return GaveUp(str(out), max(furthest, returns), course.returns, self.steps), True
        return Fits(self.steps), True

    def _open(self, row: int, bit: int, action: int, trait: Trait) -> None:
        if trait is Trait.OBSERVER:
            self.observers[action] = self.observers.get(action, 0) | bit
        elif self.course.ret[row] == OPEN:
            self.unknown[action] = self.unknown.get(action, 0) | bit
            if self.greedy:
                self.any_unknown |= bit
        else:
            insort(self.movers, (self.course.ret[row], bit, action))
            if trait is not Trait.PARTIAL:
                self.total |= bit

    def _close(self, row: int, bit: int, action: int, trait: Trait) -> None:
        if trait is Trait.OBSERVER:
            self.observers[action] &= ~bit
            if not self.observers[action]:
                del self.observers[action]
        else:
            self.movers.remove((self.course.ret[row], bit, action))
            self.total &= ~bit

    def reach(self, state: int) -> frozenset[int] | None:
        """Other states that operations of unknown outcome lead to, without blind ones; None: very many."""
        if len(self.unknown) != self._reach_kinds:
            self._reach, self._reach_kinds = {}, len(self.unknown)
        if state not in self._reach:
            traits, step = self.table.traits, self.table.step
            partial = [action for action in self.unknown if traits[action] is not Trait.BLIND]
            reached, todo = {state}, [state]
            while todo and len(reached) <= LEADS_MAX:
                here = todo.pop()
                after = {step(here, action) for action in partial} - {-1} - reached
                reached |= after
                todo += after
            self._reach[state] = None if todo else frozenset(reached - {state})
        return self._reach[state]

    def _mark(self, at: int, returns: int, frontier: list[Config]) -> _Mark:
        return _Mark(
            at,
            returns,
            frontier,
            self.movers.copy(),
            self.observers.copy(),
            self.unknown.copy(),
            self.total,
            self.any_unknown,
        )

    def _return_to(self, mark: _Mark) -> tuple[int, int, list[Config]]:
        self.movers, self.observers, self.unknown = mark.movers.copy(), mark.observers.copy(), mark.unknown.copy()
        self.total, self.any_unknown = mark.total, mark.any_unknown
        return mark.at, mark.returns, mark.frontier

    def _expand(self, frontier: list[Config], pending: list[Config], bit: int) -> list[Config]:
        """What can follow once the operation ``bit`` has returned, but for what is superfluous.

        ``pending`` have not used it. Those that owe it must; those in which it is settled may, now or never. What one
        of the latter does without using it, it can as well do later: such steps are only passed through.
        """
        kept: dict[int, list[tuple[int, int]]] = {}
        for state, done, used in frontier:
            if done & bit:
                kept.setdefault(state, []).append((done, used))
        near = _Near(self, bit)
        passed: set[Config] = set()
        either = self.any_unknown
        todo: list[Config] = []
        for state, done, used in pending:
            if done & bit or _keep(kept.setdefault(state, []), done, used, either):
                todo.append((state, done, used))
        generous, limit = self.generous, EXPAND_MAX * self.width
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
            now = done | near.seen(state)
            tried = 0
            for mask, kinds, after, gain, needs, wants in near.moves(state):
                free = mask & ~used
                if not free:
                    continue
                one = free & -free
                if not (needs & ~now or wants & ~used & ~one):
                    continue
                if kinds > 0:
                    kind = kinds << 1 if done & one else kinds
                    if kind & tried:
                        continue
                    tried |= kind
                    then, gone = now | gain | one, used | one
                elif -kinds & tried:
                    continue
                else:
                    then, gone = now | gain, used if generous else used | one
                pairs = kept.get(after)
                if pairs is None:
                    kept[after] = [(then, gone)]
                elif not _keep(pairs, then, gone, either):
                    continue
                if not gone & bit:
                    todo.append((after, then, gone))
                    if done & bit and not generous:
                        passed.add((after, then, gone))
        return [
            (s, done, used)
            for s, pairs in kept.items()
            for done, used in pairs
            if done & bit and (not passed or (s, done, used) not in passed)
        ]

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
        if self.steps > min(self.bounds.steps, self.steps_max):
            raise _OutOfBudget("out of steps")
        if self.bounds.elapsed() > self.bounds.time_ns:
            raise _OutOfBudget("out of time")
        size = configs * (CONFIG_BYTES + used.bit_length() // 4) + len(self.table.states) * STATE_BYTES
        if size > self.bounds.memory_bytes:
            raise _OutOfBudget("out of memory")


Move = tuple[int, int, int, int, int, int]
"""(bits of which the lowest is taken, kinds, state after it, what it gets done, needs, wants).

``kinds``: a bit for the action; of unknown outcome: minus the two bits of its owed likes. ``needs``, ``wants``:
it is of use only if one of these is not done yet, or not used yet; -1: always.
"""


class _Near:
    """What is open around one return, state by state, computed once for all configurations."""

    def __init__(self, course_pass: Pass, bit: int) -> None:
        self._pass = course_pass
        self._bit = bit
        self._seen: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        self._moves: dict[int, list[Move]] = {}

    def seen(self, state: int) -> int:
        """Bits of the open observers that are possible in this state."""
        bits = self._seen.get(state)
        if bits is None:
            bits = 0
            step = self._pass.table.step
            for action, mask in self._pass.observers.items():
                if step(state, action) >= 0:
                    bits |= mask
            self._seen[state] = bits
        return bits

    def wanted(self, state: int) -> int:
        """Bits of the open operations, owed and not blind, that are possible in this state."""
        bits = self._wanted.get(state)
        if bits is None:
            bits = 0
            table = self._pass.table
            for _, bit, action in self._pass.movers:
                if table.traits[action] is not Trait.BLIND and table.step(state, action) >= 0:
                    bits |= bit
            self._wanted[state] = bits
        return bits

    def leads(self, state: int) -> bool:
        """Whether operations of unknown outcome lead from this state to one that something needs."""
        if not self._pass.unknown:
            return False
        reach = self._pass.reach(state)
        return reach is None or any(self.seen(there) or self.wanted(there) for there in reach)

    def moves(self, state: int) -> list[Move]:
        """What can be used in this state: owed operations by return, then those of unknown outcome."""
        found = self._moves.get(state)
        if found is None:
            found = self._moves[state] = self._find(state)
        return found

    def _find(self, state: int) -> list[Move]:
        passing, table = self._pass, self._pass.table
        leading: dict[int, bool] = {}
        out: list[Move] = []
        known, traits = table.next[state], table.traits
        owed = [(bit, action, True) for _, bit, action in passing.movers]
        for mask, action, is_owed in [*owed, *((mask, action, False) for action, mask in passing.unknown.items())]:
            after = known.get(action)
            if after is None:
                after = table.step(state, action)
            blind = traits[action] is Trait.BLIND
            if after < 0 or (after == state and not blind and not is_owed):
                continue
            seen = self.seen(after)
            needs = wants = -1
            if (blind or not is_owed) and mask != self._bit:
                if after not in leading:
                    leading[after] = self.leads(after)
                if not leading[after]:
                    needs, wants = seen, self.wanted(after)
                    if not (needs or wants):
                        continue
            gain = seen | passing.total if blind else seen
            kinds = 1 << 2 * action if is_owed else -(3 << 2 * action)
            out.append((mask, kinds, after, gain, needs, wants))
        return out


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
