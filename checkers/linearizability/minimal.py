"""Small proofs: from operations that have no order to as few of them as possible that have none.

Only operations that cannot have caused the violation are dropped, so what remains proves it by itself:

* an answer (a read, a failed cas) may always be dropped;
* of a register, a write or cas may be dropped together with everything that saw its value;
* the time before a position may be dropped if no order exists for any state of the object then, and all of the
  operations open there had taken effect.

Guarantees: dropping any single one of what remains, by these rules, would leave no contradiction (unless the cap on
tests was reached). Out of scope: finding the contradiction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np

from dethrone.checkers.linearizability.search import Bounds, Since, Stuck, by_frontiers
from dethrone.checkers.models.base import Model
from dethrone.checkers.models.ops import FAIL, OK, OPEN, Bools, F, Ops
from dethrone.checkers.models.register import Register

TESTS_MAX = 400
WINDOW_MAX = 512
"""Returns before the stuck one that a window may reach back."""
STEPS_MAX = 60_000
"""Steps of the search that one proof may cost."""
TEST_STEPS = 10_000
PROOF_MAX = 2_000
"""Operations above which a proof by search is shown as it is, cut at the return where it got stuck."""

_NONE = -1
"""No value."""

Still = Callable[[Ops], bool]
"""Whether these operations alone have no order; False if that is too much to say."""


def fewest(ops: Ops, still: Still, cascade: Callable[[Ops], Ops], *, tests: int = TESTS_MAX) -> Ops:
    """Drop ever smaller pieces while what remains has no order.

    ``cascade`` takes out what may not stay without what was dropped.
    """
    size = max(1, len(ops) // 2)
    needed = 0
    """Tests since the last that succeeded, one operation each."""
    while True:
        at = 0
        while at < len(ops) and tests > 0 and needed < len(ops):
            keep = np.ones(len(ops), dtype=np.bool_)
            keep[at : at + size] = False
            rest = cascade(ops.take(keep)) if keep.any() else None
            tests -= 1
            if rest is not None and len(rest) and still(rest):
                ops, needed = rest, 0
            else:
                at += size
                needed += size == 1
        if tests <= 0 or needed >= len(ops):
            return ops
        size = max(1, size // 2)


def register_cascade(everything: Ops, model: Register) -> Callable[[Ops], Ops]:
    """Take out what saw a value of which a writer is missing; a failed cas that shows something needs them all."""
    writers = _tally(_changes(everything))
    changes = sum(writers.values())

    def cascade(ops: Ops) -> Ops:
        seen = [a if f in (F.READ, F.CAS) else -1 for f, a in zip(ops.f.tolist(), ops.a.tolist(), strict=True)]
        refused = [
            f == F.CAS and status == FAIL and model.strict_cas
            for f, status in zip(ops.f.tolist(), ops.status.tolist(), strict=True)
        ]
        wrote = _changes(ops)
        kept = list(range(len(ops)))
        while True:
            left = _tally([wrote[row] for row in kept])
            told = sum(left.values()) == changes
            rest = [
                row
                for row in kept
                if left.get(seen[row], 0) == writers.get(seen[row], 0) and (told or not refused[row])
            ]
            if len(rest) == len(kept):
                return ops if len(kept) == len(ops) else ops.take(np.array(kept, dtype=np.int64))
            kept = rest

    return cascade


def _tally(wrote: list[int]) -> dict[int, int]:
    """Value → operations that may have written it."""
    counts = Counter(wrote)
    del counts[_NONE]
    return counts


def _changes(ops: Ops) -> list[int]:
    """The value that each row may have written."""
    columns = zip(ops.f.tolist(), ops.a.tolist(), ops.b.tolist(), ops.status.tolist(), strict=True)
    return [
        _NONE if status == FAIL else a if f == F.WRITE else b if f == F.CAS and a != b else _NONE
        for f, a, b, status in columns
    ]


def until(ops: Ops, position: int) -> Ops:
    """What was called before a position; what had not returned by then is not owed, but is known to end as it did."""
    early = ops.take(ops.call < position)
    pending = early.ret > position
    early = msgspec.structs.replace(early, ret=np.where(pending, OPEN, early.ret))
    return early.take(~(pending & ((early.status == FAIL) | (early.f == F.READ))))


def overwritten(
    ops: Ops, searcher: Searcher, end: int, states: tuple[object, ...]
) -> tuple[Ops | None, Ops, Since | None]:
    """The most common proof, found without a search for it: a write, and an answer to a later call that is older.

    ``ops`` of a register are cut at ``end``, the return that got stuck. None where it is none; the stretch in which
    no other operation may have written what was answered, and its beginning.
    """
    row = int(np.flatnonzero(ops.ret == end)[0])
    if ops.f[row] not in (F.READ, F.CAS):
        return None, ops, None
    before = np.flatnonzero((ops.f == F.WRITE) & (ops.status == OK) & (ops.ret < ops.call[row]) & (ops.a != ops.a[row]))
    if not len(before):
        return None, ops, None
    write = int(before[np.argmax(ops.call[before])])
    since = Since(position=int(ops.call[write]) - 1, states=states)
    late = ops.ret > since.position
    writes = (ops.f == F.WRITE) & (ops.a == ops.a[row]) | (ops.f == F.CAS) & (ops.b == ops.a[row])
    if (late & writes & (ops.status != FAIL)).any():
        return None, ops, None
    few = ops.take(np.array([write, row]) if write < row else np.array([row, write]))
    if searcher.stuck(few, since) is None:
        return None, ops, None
    return few, ops.take(late), since


def window(ops: Ops, searcher: Searcher, stuck: int, states: tuple[object, ...]) -> tuple[Ops, Since | None]:
    """The shortest stretch before the return of row ``stuck`` that has no order for any past, if there is one.

    ``ops`` are cut at that return; ``states`` are all that the object can hold.
    """
    end = int(ops.ret[stuck])
    cut = until(ops, end + 1)
    returns = np.sort(cut.ret[cut.ret < OPEN])
    back = 2
    while back <= min(WINDOW_MAX, len(returns) - 1):
        position = int(returns[-back - 1])
        since = Since(position=position, states=states)
        rest = cut.take(cut.ret > position)
        if searcher.stuck(rest, since) is not None:
            return rest, since
        back *= 2
    return cut, None


class Searcher:
    """Says whether operations are stuck while its steps last: no clock, so the same history has the same proof."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._left = STEPS_MAX

    def stuck(self, ops: Ops, since: Since | None) -> Stuck | None:
        """Where they are stuck; None if they are not, or that is too much to say."""
        if self._left <= 0:
            return None
        found = by_frontiers(ops, self._model, Bounds(steps=min(self._left, TEST_STEPS)), since=since)
        self._left -= found.steps + len(ops)
        return found if isinstance(found, Stuck) else None


def answers_only(ops: Ops) -> Callable[[Ops], Ops]:
    """For models of which only answers may be dropped: what remains must have every other operation."""
    kept = int(np.count_nonzero(~_answers(ops)))

    def cascade(rest: Ops) -> Ops:
        whole = int(np.count_nonzero(~_answers(rest))) == kept
        return rest if whole else rest.take(np.zeros(len(rest), dtype=np.bool_))

    return cascade


def _answers(ops: Ops) -> Bools:
    answers: Bools = (ops.status == OK) & (
        (ops.f == F.READ) | (ops.f == F.CONTAINS) | ((ops.f == F.DEQUEUE) & (ops.a == 0))
    )
    return answers
