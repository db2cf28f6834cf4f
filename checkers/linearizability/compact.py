"""The operations of one object as arrays of small integers, where the object is a register at heart.

A lock is a register of two values that is compared and set, an element of a set one that is written or compared and
set. Guarantees: operations that say nothing are dropped, and so are those of unknown outcome that lead only to values
that no operation needs (they can be thought away: the next thing to happen would overwrite them). None where the object
is no register, or too many operations are open at once. Out of scope: the search.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from dethrone.checkers.linearizability.kernel import (
    ACTION,
    CAS,
    DOES,
    EVENT_OF_RETURN,
    INFO,
    OF_AN_OPERATION,
    OTHER,
    READ,
    RET,
    SLOT,
    VALUES_LED,
    WRITE,
    A,
    B,
)
from dethrone.checkers.models.base import Model, State
from dethrone.checkers.models.mutex import FREE, HELD, Mutex
from dethrone.checkers.models.ops import FAIL, OK, OPEN, UNTOLD, F, Ints, Ops
from dethrone.checkers.models.ops import INFO as LOST
from dethrone.checkers.models.register import Register
from dethrone.checkers.models.sets import SetModel

KINDS_MAX = 128
"""Different operations of unknown outcome that the kernel counts."""
_NONE = -1
ABSENT, PRESENT = 0, 1


class Compact(msgspec.Struct, frozen=True, eq=False):
    """Events, operations and kinds of unknown ones as ``kernel`` wants them; operations have no slots yet."""

    event: Ints
    ops: Ints
    rows: Ints
    """Row of the Ops, by operation."""
    kinds: Ints
    cas_from: Ints
    """By value, and one more: the first kind of cas that expects it."""
    values: int
    actions: int
    states: Callable[[int], State]
    """The state of the model that a value stands for."""
    code: Callable[[State], int]
    returns: int


def compact(ops: Ops, model: Model, begins: tuple[State, ...]) -> Compact | None:
    """See the module; ``begins``: what the object may hold at first. None: not for the kernel."""
    told = _told(ops, model)
    if told is None:
        return None
    does, a, b, names = told
    mover = does >= WRITE
    heard = (does != _NONE) & (mover | (ops.ret != OPEN))
    unknown = heard & (ops.ret == OPEN)
    if unknown.any() and not (does == OTHER).any():
        needed = np.zeros(int(max(a.max(), b.max())) + 1, dtype=np.bool_)
        needed[a[heard & ((does == READ) | (does == CAS))]] = True
        heard &= ~unknown | needed[np.where(does == CAS, b, a)]
    rows = np.flatnonzero(heard)
    does, a, b, ret, call = does[rows], a[rows], b[rows], ops.ret[rows], ops.call[rows]
    a, b, used = _dense(does, a, b, [names.code(state) for state in begins])
    action, actions = _actions(does, a, b, len(used))
    open_ended = np.flatnonzero(ret == OPEN)
    kinds, first, which = np.unique(action[open_ended], return_index=True, return_inverse=True)
    if len(kinds) > KINDS_MAX:
        return None
    table = np.empty((len(rows), OF_AN_OPERATION), dtype=np.int64)
    table[:, DOES], table[:, A], table[:, B], table[:, ACTION], table[:, RET] = does, a, b, action, ret
    table[:, SLOT] = table[:, INFO] = -1
    table[open_ended, INFO] = which.reshape(-1)
    grouped = table[open_ended[first]]
    writes = int(np.count_nonzero(grouped[:, DOES] == WRITE))
    place = {int(value): at for at, value in enumerate(used.tolist())}
    return Compact(
        event=_events(call, ret),
        ops=table,
        rows=rows,
        kinds=grouped,
        cas_from=writes + np.searchsorted(grouped[writes:, A], np.arange(len(used) + 1)),
        values=len(used),
        actions=actions,
        states=lambda value: names.state(int(used[value])),
        code=lambda state: place[names.code(state)],
        returns=len(rows) - len(open_ended),
    )


class _Names(msgspec.Struct, frozen=True, eq=False):
    """Values of the register and states of the model."""

    state: Callable[[int], State]
    code: Callable[[State], int]


def _told(ops: Ops, model: Model) -> tuple[Ints, Ints, Ints, _Names] | None:
    """What each row does to a register (-1: nothing), its a and b."""
    f, status = ops.f, ops.status
    a, b = ops.a.astype(np.int64), ops.b.astype(np.int64)
    ok, failed = status == OK, status == FAIL
    if isinstance(model, Register):
        is_cas = f == F.CAS
        same = is_cas & (a == b)
        does = np.full(len(ops), _NONE, dtype=np.int64)
        does[ok & ((f == F.READ) | same)] = READ
        does[~failed & (f == F.WRITE)] = WRITE
        does[~failed & is_cas & ~same] = CAS
        if model.strict_cas:
            does[failed & is_cas] = OTHER
        return does, a, np.where(is_cas, b, a), _Names(_same, _as_int)
    if isinstance(model, Mutex):
        takes = f == F.ACQUIRE
        does = np.where(failed, _NONE, CAS)
        return does, np.where(takes, FREE, HELD), np.where(takes, HELD, FREE), _Names(_same, _as_int)
    if isinstance(model, SetModel) and not ((f == F.READ) & ok).any():
        return _element(ops)
    return None


def _same(value: int) -> State:
    return value


def _as_int(state: State) -> int:
    if not isinstance(state, int):
        raise TypeError(f"no value of a register: {state!r}")
    return state


def _element(ops: Ops) -> tuple[Ints, Ints, Ints, _Names] | None:
    """An element of a set: 1 while it is in it."""
    f, told = ops.f, ops.b
    asks = f == F.READ
    elements = np.unique(ops.a[~asks])
    if len(elements) > 1:
        return None
    adds, removes = f == F.ADD, f == F.REMOVE
    does = np.full(len(ops), READ, dtype=np.int64)
    does[(adds | removes) & (told == UNTOLD)] = WRITE
    does[(adds | removes) & (told == 1)] = CAS
    does[asks | (ops.status == FAIL) | ((f == F.CONTAINS) & (ops.status == LOST))] = _NONE
    after = np.where(adds, PRESENT, ABSENT)
    a = np.where(f == F.CONTAINS, (told == 1).astype(np.int64), np.where(does == CAS, 1 - after, after))
    inside = frozenset(int(one) for one in elements.tolist())
    names = _Names(
        lambda value: inside if value == PRESENT else frozenset(),
        lambda state: ABSENT if state == frozenset() else PRESENT,
    )
    return does, a, after.astype(np.int64), names


def _dense(does: Ints, a: Ints, b: Ints, begins: list[int]) -> tuple[Ints, Ints, Ints]:
    """Values as 0, 1, 2 …; and the values."""
    cas = does == CAS
    every = np.concatenate([a, b[cas], np.array(begins, dtype=np.int64)])
    most = int(every.max()) + 1
    if most > 4 * len(every) + 1024:
        used = np.unique(every)
        return np.searchsorted(used, a), np.where(cas, np.searchsorted(used, b), np.searchsorted(used, a)), used
    there = np.zeros(most, dtype=np.bool_)
    there[every] = True
    place = np.cumsum(there) - 1
    return place[a], np.where(cas, place[np.where(cas, b, 0)], place[a]), np.flatnonzero(there)


def _actions(does: Ints, a: Ints, b: Ints, values: int) -> tuple[Ints, int]:
    """Equal numbers for equal movers, and how many numbers there are: writes first, then cas by what they expect."""
    action = a.copy()
    cas = np.flatnonzero(does == CAS)
    if values <= VALUES_LED:
        action[cas] = (a[cas] + 1) * values + b[cas]
        return action, (values + 1) * values
    pairs, which = np.unique(a[cas] * values + b[cas], return_inverse=True)
    action[cas] = values + which.reshape(-1)
    return action, values + len(pairs)


def _events(call: Ints, ret: Ints) -> Ints:
    """Calls and returns in order."""
    count = len(call)
    closed = np.flatnonzero(ret != OPEN)
    at = np.concatenate([call, ret[closed]])
    event = np.concatenate([np.arange(count), EVENT_OF_RETURN - closed])
    last = int(at.max(initial=-1)) + 1
    if last > 8 * len(at):
        return event[np.argsort(at, kind="stable")]
    # positions are dense: no need to sort
    there, out = np.zeros(last, dtype=np.bool_), np.empty(last, dtype=np.int64)
    there[at], out[at] = True, event
    return out if len(at) == last else out[there]
