"""The search by the compiled kernel: numba, the optional extra ``fast``.

The same passes as ``search`` makes (see there), over objects that are registers at heart, much faster; it is loaded
only where there is much to do, for loading costs half a second. Promises: the same answers as ``search``; without
numba, or where this is not for the kernel, None. Compiled code is kept where numba keeps it (NUMBA_CACHE_DIR, beside
the sources, or the user's cache); where nothing may be written it is compiled each time.
"""

from __future__ import annotations

import types
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np

from checkers.linearizability import kernel
from checkers.linearizability.compact import Compact, compact
from checkers.linearizability.frontier import Bounds, Fits, Found, GaveUp, Mode, Since, Stuck
from checkers.linearizability.passes import by_passes
from checkers.models.base import Model
from checkers.models.ops import OPEN, Ops

Way = Mode | Literal["lavish"]
ALL = 1 << 40
"""A width without bound."""
MARK_EVERY = 128
"""Returns between two marks to go back to."""
MARKS_MAX = 128
BACK = 4
"""Each time it is stuck it goes back so many times as many marks as the time before."""
EXPAND_MAX = 16
"""Configurations looked at for one return, for each one that may be kept."""
STEPS_LEAST = 400_000
"""Steps of a pass over a few returns."""
STEPS_A_LOOK = 2_000_000
"""Steps between two looks at the time, at most: some tenths of a second."""
PASSES: tuple[tuple[Way, tuple[int, ...], int], ...] = (
    ("exact", (64, 512), 2_000),
    ("exact", (ALL,), 20_000),
    ("exact", (1024, 8192, 65536), 200_000),
    ("exact", (ALL,), ALL),
)
"""(mode, widths, steps a return), pass by pass."""
PASSES_UNKNOWN: tuple[tuple[Way, tuple[int, ...], int], ...] = (
    ("generous", (ALL,), 1_000),
    ("lavish", (32, 256, 2048), 400),
    ("greedy", (32, 256), 200),
    ("greedy", (1024, 8192), 20_000),
    ("generous", (ALL,), 200_000),
    ("greedy", (8192, 65536), 200_000),
    ("exact", (ALL,), ALL),
)
"""The same where there are operations of unknown outcome."""
_MODES: dict[Way, int] = {
    "exact": kernel.EXACT,
    "greedy": kernel.GREEDY,
    "generous": kernel.GENEROUS,
    "lavish": kernel.LAVISH,
}

Kernel = types.SimpleNamespace
"""``assign`` and ``stretch`` of ``kernel``, compiled or as they are."""


@cache
def there() -> bool:
    """Whether numba is installed: found, not imported."""
    return find_spec("numba") is not None


def loaded() -> bool:
    """Whether the kernel costs no loading any more."""
    return load.cache_info().currsize > 0


@cache
def load() -> Kernel | None:
    """The kernel, compiled; None where numba cannot be used."""
    try:
        from numba import njit
    except ImportError:  # a numba that does not fit this Python or NumPy, too
        return None
    space = dict(vars(kernel))
    for name in kernel.COMPILED:
        plain = space[name]
        bound = types.FunctionType(plain.__code__, space, name)
        bound.__module__, bound.__qualname__ = plain.__module__, plain.__qualname__
        try:
            space[name] = njit(cache=True)(bound)
        except RuntimeError:  # there is no place to keep it
            space[name] = njit(bound)
    return Kernel(assign=space["assign"], stretch=space["stretch"])


PLAIN = Kernel(assign=kernel.assign, stretch=kernel.stretch)
"""Not compiled: slow, for tests."""


def search(
    ops: Ops, model: Model, bounds: Bounds, *, since: Since | None = None, engine: Kernel | None = None
) -> Found | None:
    """What ``search.search`` says; None: not for the kernel."""
    begins = (model.start(ops.values),) if since is None else since.states
    made = compact(ops, model, begins)
    engine = engine or load()
    if made is None or engine is None:
        return None
    slot = np.full(len(made.rows), -1, dtype=np.int64)
    if engine.assign(made.event, made.is_return, made.info, slot) > kernel.SLOTS:
        return None
    spanning = 0
    if since is not None:
        early = np.flatnonzero((ops.call[made.rows] < since.position) & (made.ret != OPEN))
        for at in early.tolist():
            spanning |= 1 << int(slot[at])
    states = dict.fromkeys(made.code(state) for state in begins)
    return _Run(made, slot, engine, bounds).passes([(state, spanning) for state in states])


class _Mark(NamedTuple):
    """Everything that a pass needs to go on from a return."""

    at: int
    returns: int
    open_movers: int
    pool: Any
    spent: Any
    opened: Any
    movers: Any
    available: Any
    reach: Any


class _Run:
    """The passes over one object."""

    def __init__(self, made: Compact, slot: Any, engine: Kernel, bounds: Bounds) -> None:
        self.made = made
        self.engine = engine
        self.bounds = bounds
        self.course = (made.event, made.is_return, made.does, made.a, made.b, made.action, made.ret, slot, made.info)
        self.many = len(made.kinds[0])
        values, actions = made.values, made.actions
        self.scratch = (
            np.zeros(values, dtype=np.int64),
            np.zeros(values, dtype=np.int64),
            np.zeros(values, dtype=np.int64),
            np.zeros(values, dtype=np.int64),
            np.full(values, kernel.END, dtype=np.int64),
            np.zeros(actions, dtype=np.int64),
            np.zeros(actions, dtype=np.int64),
        )
        self.leads = values if self.many and values <= kernel.VALUES_LED else 0
        self.ctl = np.zeros(kernel.REGISTERS, dtype=np.int64)
        row_bytes = 2 * (8 * kernel.COLUMNS + 4 * self.many)
        self.rows_max = min(bounds.memory_bytes // row_bytes // 2, ALL)

    def passes(self, frontier: list[tuple[int, int]]) -> Found:
        """Narrow ones first; ``frontier``: (value, operations that may have taken effect before)."""

        def run(mode: Way, widths: tuple[int, ...], steps_max: int) -> tuple[Found, bool]:
            return self._pass(frontier, mode, widths, min(steps_max, ALL))

        passes = PASSES_UNKNOWN if self.many else PASSES
        return by_passes(
            passes, run, returns=self.made.returns, bounds=self.bounds, steps_least=STEPS_LEAST, unbounded=(ALL,)
        )

    def _pass(
        self, frontier: list[tuple[int, int]], mode: Way, widths: tuple[int, ...], steps_max: int
    ) -> tuple[Found, bool]:
        """One pass, and whether what it found is exact."""
        ctl, bounds = self.ctl, self.bounds
        ctl[kernel.STEPS], ctl[kernel.DROPPED] = 0, mode in ("greedy", "lavish")
        pool = np.zeros((max(256, len(frontier)), kernel.COLUMNS), dtype=np.int64)
        spent = np.zeros((len(pool), self.many), dtype=np.int32)
        for place, (state, spanning) in enumerate(frontier):
            pool[place, kernel.STATE], pool[place, kernel.DONE] = state, spanning
        marks = [
            _Mark(
                0,
                0,
                0,
                pool[: len(frontier)].copy(),
                spent[: len(frontier)].copy(),
                np.full(kernel.SLOTS, -1, dtype=np.int64),
                np.zeros(kernel.SLOTS, dtype=np.int64),
                np.zeros(self.many, dtype=np.int64),
                np.zeros(self.leads, dtype=np.int64),
            )
        ]
        marked = len(frontier)
        opened, movers, available, reach = self._return_to(marks[-1], pool, spent)
        most_spent = np.zeros(self.many, dtype=np.int64)
        level = furthest = calm_at = 0
        look = STEPS_A_LOOK
        while ctl[kernel.AT] < len(self.made.event):
            before = int(ctl[kernel.RETURNS])
            width = widths[level]
            code, pool, spent = self.engine.stretch(
                self.course,
                self.made.kinds,
                opened,
                movers,
                available,
                reach,
                most_spent,
                self.scratch,
                ctl,
                pool,
                spent,
                _MODES[mode],
                width,
                min(EXPAND_MAX * width, ALL),
                before + MARK_EVERY,
                min(steps_max, int(ctl[kernel.STEPS]) + look),
                self.rows_max,
            )
            returns, steps = int(ctl[kernel.RETURNS]), int(ctl[kernel.STEPS])
            furthest = max(furthest, returns)
            if code == kernel.MEMORY_OUT:
                return GaveUp("out of memory", furthest, self.made.returns, steps), True
            if bounds.elapsed() > bounds.time_ns:
                return GaveUp("out of time", furthest, self.made.returns, steps), True
            if code == kernel.STEPS_OUT:
                if steps >= steps_max:
                    return GaveUp("out of steps", furthest, self.made.returns, steps), True
                # the return that it stopped at is begun again, with more
                look = 2 * look if returns == before else STEPS_A_LOOK
                continue
            look = STEPS_A_LOOK
            if code == kernel.STUCK:
                level += 1
                exact = not ctl[kernel.DROPPED]
                if exact or level == len(widths):
                    return self._stuck(pool, returns, steps), exact
                calm_at = furthest + 2 * MARK_EVERY
                del marks[max(1, len(marks) - BACK**level) :]
                marked = sum(len(mark.pool) for mark in marks)
                opened, movers, available, reach = self._return_to(marks[-1], pool, spent)
                continue
            if len(widths) > 1:
                marks.append(self._mark(opened, movers, available, reach, pool, spent))
                marked += len(marks[-1].pool)
                while len(marks) > MARKS_MAX or (marked > self.rows_max and len(marks) > 2):
                    marked -= len(marks.pop(1).pool)
            if level and returns > calm_at:
                level = 0
        return Fits(int(ctl[kernel.STEPS])), True

    def _mark(self, opened: Any, movers: Any, available: Any, reach: Any, pool: Any, spent: Any) -> _Mark:
        ctl = self.ctl
        kept = int(ctl[kernel.KEPT])
        return _Mark(
            int(ctl[kernel.AT]),
            int(ctl[kernel.RETURNS]),
            int(ctl[kernel.MOVERS]),
            pool[:kept].copy(),
            spent[:kept].copy(),
            opened.copy(),
            movers.copy(),
            available.copy(),
            reach.copy(),
        )

    def _return_to(self, mark: _Mark, pool: Any, spent: Any) -> tuple[Any, Any, Any, Any]:
        """Everything as it was there; what was open, and the frontier in the arrays given."""
        ctl, kept = self.ctl, len(mark.pool)
        ctl[kernel.AT], ctl[kernel.RETURNS], ctl[kernel.MOVERS], ctl[kernel.KEPT] = (*mark[:3], kept)
        pool[:kept], spent[:kept] = mark.pool, mark.spent
        return mark.opened.copy(), mark.movers.copy(), mark.available.copy(), mark.reach.copy()

    def _stuck(self, pool: Any, returns: int, steps: int) -> Stuck:
        """It goes no further than this return."""
        made, ctl = self.made, self.ctl
        values = dict.fromkeys(pool[: int(ctl[kernel.KEPT]), kernel.STATE].tolist())
        row = int(made.rows[made.event[int(ctl[kernel.AT])]])
        return Stuck(row, tuple(made.states(value) for value in values), returns, steps)
