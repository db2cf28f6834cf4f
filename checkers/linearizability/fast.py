"""The search by the compiled kernel: numba, the optional extra ``fast``.

The same passes as ``search`` makes (see there), over objects that are registers at heart, much faster. It is loaded
only for much work: importing numba and loading compiled code take a second, compiling it the first time some twenty.
Guarantees the same answers as ``search``; None without numba, or where this is not for the kernel. Numba keeps what it
compiled (NUMBA_CACHE_DIR, next to the sources, or the user's cache); where it cannot write, it compiles each time.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np

from dethrone.checkers.linearizability import kernel
from dethrone.checkers.linearizability.compact import Compact, compact
from dethrone.checkers.linearizability.frontier import Bounds, Fits, Found, GaveUp, Mode, Since, Stuck
from dethrone.checkers.linearizability.passes import by_passes
from dethrone.checkers.models.base import Model
from dethrone.checkers.models.ops import OPEN, Ops

Way = Mode | Literal["lavish"]
ALL = 1 << 40
"""A width without bound."""
MARK_EVERY = 128
"""Returns between two marks to go back to."""
MARK_EVERY_CALM = 2048
"""The same as long as nothing was dropped."""
ROWS_LEAST = 256
"""Configurations that there is room for at first."""
MARKS_MAX = 128
BACK = 4
"""Each time it is stuck it goes back this many times as many marks as before."""
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

Engine = Callable[[tuple[Any, ...], tuple[Any, ...]], Callable[..., int]]
"""``kernel.stretch`` for these arrays and this room, compiled or as it is: what remains are its integers."""


@cache
def there() -> bool:
    """Whether numba is installed: found, not imported."""
    return find_spec("numba") is not None


COMPILED = ("assign", "bit_count", "extend", "leads", "keep", "copied", "thinned", "stretch")
"""What numba compiles: each after what it calls."""
INLINED = ("bit_count", "leads", "keep", "copied")
"""Those of them that are short and called for every configuration."""


def loaded() -> bool:
    """Whether the kernel costs no loading any more."""
    return load.cache_info().currsize > 0


@cache
def load() -> Engine | None:
    """The kernel, compiled; None where numba cannot be used."""
    try:
        from numba import njit
    except ImportError:  # not installed, or a numba that does not fit this Python or NumPy
        return None
    space = dict(vars(kernel))
    for name in COMPILED:
        plain = space[name]
        bound = types.FunctionType(plain.__code__, space, name)
        bound.__module__, bound.__qualname__ = plain.__module__, plain.__qualname__
        options: dict[str, Any] = {"error_model": "numpy", "inline": "always" if name in INLINED else "never"}
        try:
            space[name] = njit(cache=True, **options)(bound)
        except RuntimeError:  # no directory to keep it in
            space[name] = njit(**options)(bound)
    return partial(_with, space["stretch"])


def plain(arrays: tuple[Any, ...], rows: tuple[Any, ...]) -> Callable[..., int]:
    """Not compiled: slow, for tests."""
    return _with(kernel.stretch, arrays, rows)


def _with(stretch: Callable[..., int], arrays: tuple[Any, ...], rows: tuple[Any, ...]) -> Callable[..., int]:
    return partial(stretch, *arrays, *rows)


def search(
    ops: Ops, model: Model, bounds: Bounds, *, since: Since | None = None, engine: Engine | None = None
) -> Found | None:
    """What ``search.search`` says; None: not for the kernel."""
    begins = (model.start(ops.values),) if since is None else since.states
    made = compact(ops, model, begins)
    if made is None:
        return None
    engine = engine or load()
    if engine is None:
        return None
    run = _Run(made, engine, bounds)
    if run.slots() > kernel.SLOTS:
        return None
    spanning = 0
    if since is not None:
        early = np.flatnonzero((ops.call[made.rows] < since.position) & (made.ops[:, kernel.RET] != OPEN))
        for slot in made.ops[early, kernel.SLOT].tolist():
            spanning |= 1 << slot
    states = dict.fromkeys(made.code(state) for state in begins)
    return run.passes([(state, spanning) for state in states])


class _Mark(NamedTuple):
    """Everything that a pass needs to continue from a return."""

    at: int
    returns: int
    open_movers: int
    pool: Any
    spent: Any
    open: Any


class _Run:
    """The passes over one object."""

    def __init__(self, made: Compact, engine: Engine, bounds: Bounds) -> None:
        self.made = made
        self.engine = engine
        self.bounds = bounds
        self.many = len(made.kinds)
        leads = made.values if self.many and made.values <= kernel.VALUES_LED else 0
        # what is open, one array to copy: by slot, movers, by kind, by value
        slots, kinds = kernel.SLOTS, 2 * kernel.SLOTS + self.many
        self.open = np.zeros(kinds + leads, dtype=np.int64)
        self.by_value = np.zeros((made.values + 1, kernel.OF_A_VALUE), dtype=np.int64)
        self.by_value[:, kernel.HEAD] = kernel.END
        self.by_value[:, kernel.CAS_FROM] = made.cas_from
        self.most_spent = np.zeros(self.many, dtype=np.int64)
        self.ctl = np.zeros(kernel.REGISTERS, dtype=np.int64)
        self.arrays = (
            made.event,
            made.ops,
            made.kinds,
            self.open[:slots],
            self.open[slots : 2 * slots],
            self.open[2 * slots : kinds],
            self.open[kinds:],
            self.most_spent,
            self.by_value,
            np.zeros((made.actions, 2), dtype=np.int64),
            np.zeros(kernel.SPREAD + 1, dtype=np.int64),
            self.ctl,
        )
        self.rows: tuple[Any, Any, Any, Any] = ()  # type: ignore[assignment]
        """Room for configurations and what they spent, twice."""
        self._room(ROWS_LEAST)
        row_bytes = 2 * (8 * kernel.COLUMNS + 4 * self.many)
        self.rows_max = min(bounds.memory_bytes // row_bytes // 2, ALL)

    def _room(self, rows: int) -> None:
        """Room for this number, the frontier kept."""
        kept, old = int(self.ctl[kernel.KEPT]), self.rows
        self.rows = (
            np.empty((rows, kernel.COLUMNS), dtype=np.int64),
            np.empty((rows, self.many), dtype=np.int32),
            np.empty((rows, kernel.COLUMNS), dtype=np.int64),
            np.empty((rows, self.many), dtype=np.int32),
        )
        if kept:
            self.rows[0][:kept], self.rows[1][:kept] = old[0][:kept], old[1][:kept]
        self.stretch = self.engine(self.arrays, self.rows)

    def slots(self) -> int:
        """Give operations their slots; how many are needed."""
        return int(self.stretch(kernel.ASSIGN, 0, 0, 0, 0, 0))

    def passes(self, frontier: list[tuple[int, int]]) -> Found:
        """Narrow ones first; ``frontier``: (value, operations that may have taken effect before)."""
        pool = np.zeros((len(frontier), kernel.COLUMNS), dtype=np.int64)
        pool[:, kernel.STATE] = [state for state, _ in frontier]
        pool[:, kernel.DONE] = [spanning for _, spanning in frontier]
        start = np.zeros(len(self.open), dtype=np.int64)
        start[: kernel.SLOTS] = -1
        begin = _Mark(0, 0, 0, pool, np.zeros((len(pool), self.many), dtype=np.int32), start)

        def run(mode: Way, widths: tuple[int, ...], steps_max: int) -> tuple[Found, bool]:
            return self._pass(begin, mode, widths, min(steps_max, ALL))

        passes = PASSES_UNKNOWN if self.many else PASSES
        return by_passes(
            passes, run, returns=self.made.returns, bounds=self.bounds, steps_least=STEPS_LEAST, unbounded=(ALL,)
        )

    def _pass(self, begin: _Mark, mode: Way, widths: tuple[int, ...], steps_max: int) -> tuple[Found, bool]:
        """One pass, and whether what it found is exact."""
        ctl, bounds = self.ctl, self.bounds
        ctl[kernel.STEPS], ctl[kernel.DROPPED] = 0, mode in ("greedy", "lavish")
        self.most_spent[:] = 0
        marks = [begin]
        marked = len(begin.pool)
        self._return_to(begin)
        level = furthest = calm_at = 0
        look = STEPS_A_LOOK
        while ctl[kernel.AT] < len(self.made.event):
            before = int(ctl[kernel.RETURNS])
            width = widths[level]
            code = self.stretch(
                _MODES[mode],
                width,
                min(EXPAND_MAX * width, ALL),
                # nothing was dropped: nothing can have been lost that there was to go back for
                before + (MARK_EVERY if ctl[kernel.DROPPED] else MARK_EVERY_CALM),
                min(steps_max, int(ctl[kernel.STEPS]) + look),
                self.rows_max,
            )
            returns, steps = int(ctl[kernel.RETURNS]), int(ctl[kernel.STEPS])
            furthest = max(furthest, returns)
            if code == kernel.MEMORY_OUT:
                return GaveUp("out of memory", furthest, self.made.returns, steps), True
            if bounds.elapsed() > bounds.time_ns:
                return GaveUp("out of time", furthest, self.made.returns, steps), True
            if code == kernel.ROOM_OUT:
                self._room(2 * len(self.rows[0]) + self.many)
                continue
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
                    return self._stuck(returns, steps), exact
                calm_at = furthest + 2 * MARK_EVERY
                del marks[max(1, len(marks) - BACK**level) :]
                marked = sum(len(mark.pool) for mark in marks)
                self._return_to(marks[-1])
                continue
            if len(widths) > 1:
                marks.append(self._mark())
                marked += len(marks[-1].pool)
                while len(marks) > MARKS_MAX or (marked > self.rows_max and len(marks) > 2):
                    marked -= len(marks.pop(1).pool)
            if level and returns > calm_at:
                level = 0
        return Fits(int(ctl[kernel.STEPS])), True

    def _mark(self) -> _Mark:
        ctl = self.ctl
        kept = int(ctl[kernel.KEPT])
        return _Mark(
            int(ctl[kernel.AT]),
            int(ctl[kernel.RETURNS]),
            int(ctl[kernel.MOVERS]),
            self.rows[0][:kept].copy(),
            self.rows[1][:kept].copy(),
            self.open.copy(),
        )

    def _return_to(self, mark: _Mark) -> None:
        """Everything as it was there: what was open, and the frontier."""
        ctl, kept = self.ctl, len(mark.pool)
        if kept > len(self.rows[0]):
            ctl[kernel.KEPT] = 0
            self._room(2 * kept)
        ctl[kernel.AT], ctl[kernel.RETURNS], ctl[kernel.MOVERS], ctl[kernel.KEPT] = (*mark[:3], kept)
        self.rows[0][:kept], self.rows[1][:kept] = mark.pool, mark.spent
        self.open[:] = mark.open

    def _stuck(self, returns: int, steps: int) -> Stuck:
        """It goes no further than this return."""
        made, ctl = self.made, self.ctl
        values = dict.fromkeys(self.rows[0][: int(ctl[kernel.KEPT]), kernel.STATE].tolist())
        op = kernel.EVENT_OF_RETURN - int(made.event[int(ctl[kernel.AT])])
        return Stuck(int(made.rows[op]), tuple(made.states(value) for value in values), returns, steps)
