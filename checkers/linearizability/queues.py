"""FIFO queues whose values were each enqueued once: O(n log n).

T. A. Henzinger, A. Sezgin, V. Vafeiadis, "Aspect-oriented linearizability proofs" (2013): a history of such a queue has
an order if and only if none of four patterns is in it. In columns:

* ``phantom``, ``early``, ``twice``: a value dequeued that was not enqueued, before it was, or by two;
* ``order``: enqueue(x) returned before enqueue(y) was called, y was dequeued, and x never was, or only by a call after
  that dequeue had returned;
* ``empty``: an empty answer although something was certainly in the queue at each of its moments: x is certainly there
  from the return of its enqueue to the call of its dequeue.

Unknown: an enqueue whose value was never seen is thought away, one that was seen happened. A dequeue that did not
report what it took may have taken any value that no other did: one such dequeue for each value that must have left.
Where they and empty answers meet, a plan is tried; if it does not work out nothing is decided.

Guarantees: exact where it decides. Out of scope: queues with repeated values, and making the proof small.
"""

from __future__ import annotations

import heapq

import msgspec
import numpy as np

from dethrone.checkers.models.ops import FAIL, INFO, NOTHING, OK, OPEN, Bools, F, Ints, Ops


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """One pattern: rows of the Ops given, of the one and of the other value."""

    rule: str
    """``phantom``, ``early``, ``twice``, ``order``, ``empty``"""
    first: Ints
    second: Ints


Found = Broken | bool | None
"""A pattern; True: there is an order; None: not decided here."""


def judge(ops: Ops) -> Found:
    """One queue."""
    # Codes of this queue's own values: there may be many queues.
    values, a = np.unique(ops.a, return_inverse=True)
    words = len(values)
    enqueues = np.flatnonzero((ops.f == F.ENQUEUE) & (ops.status != FAIL))
    dequeues = np.flatnonzero((ops.f == F.DEQUEUE) & (ops.status == OK) & (ops.a != NOTHING))
    empties = np.flatnonzero((ops.f == F.DEQUEUE) & (ops.status == OK) & (ops.a == NOTHING))
    drops = np.sort(ops.call[(ops.f == F.DEQUEUE) & (ops.status == INFO)])
    taken = np.bincount(a[dequeues], minlength=words)
    enqueues = enqueues[(ops.status[enqueues] == OK) | (taken[a[enqueues]] > 0)]
    put = np.bincount(a[enqueues], minlength=words)
    if (put > 1).any():
        return None
    for value in np.flatnonzero(taken > 1)[:1].tolist():
        return Broken(rule="twice", first=dequeues[a[dequeues] == value], second=enqueues[a[enqueues] == value])
    for value in np.flatnonzero((taken > 0) & (put == 0))[:1].tolist():
        return Broken(rule="phantom", first=dequeues[a[dequeues] == value], second=enqueues[:0])
    taker = np.full(words, -1, dtype=np.int64)
    taker[a[dequeues]] = dequeues
    out = taker[a[enqueues]]
    gone = out >= 0
    leave_call = np.where(gone, ops.call[out], OPEN)
    leave_ret = np.where(gone, ops.ret[out], OPEN)
    for at in np.flatnonzero(gone & (leave_ret < ops.call[enqueues]))[:1].tolist():
        return Broken(rule="early", first=enqueues[at : at + 1], second=out[at : at + 1])
    return _Queue(ops, enqueues, out, leave_call, leave_ret, empties, drops).judge()


def relevant(ops: Ops) -> Ops:
    """Without enqueues of unknown outcome whose value was not taken: they can be thought away, values repeated or
    not.
    """
    taken = ops.a[(ops.f == F.DEQUEUE) & (ops.status == OK)]
    return ops.take(~((ops.f == F.ENQUEUE) & (ops.status == INFO) & ~np.isin(ops.a, taken)))


class _Queue(msgspec.Struct, eq=False):
    """By value: its enqueue (row), its dequeue (row or -1), when that was called and returned (OPEN: never)."""

    ops: Ops
    enqueues: Ints
    out: Ints
    leave_call: Ints
    leave_ret: Ints
    empties: Ints
    drops: Ints

    def judge(self) -> Found:
        """The patterns ``order`` and ``empty``."""
        everyone = np.ones(len(self.enqueues), dtype=np.bool_)
        if not len(self.drops):
            return self._overtaken(everyone, self.leave_call) or self._covered(self.leave_call) or True
        known = self._overtaken(self.out >= 0, self.leave_call)
        if known is not None:
            return known
        planned = self._plan()
        if isinstance(planned, Broken):
            return planned
        if self._covered(planned) is None and self._overtaken(everyone, planned) is None:
            return True
        # Values whose dequeue is known leave as early as they can in every order.
        return self._covered(np.where(self.out >= 0, self.leave_call, -1))

    def _overtaken(self, among: Bools, leaves: Ints) -> Broken | None:
        """``order``, where the one that left too late, or never, is ``among`` these."""
        ops = self.ops
        chosen = np.flatnonzero(among)
        taken = np.flatnonzero(self.out >= 0)
        if not len(chosen) or not len(taken):
            return None
        chosen = chosen[np.argsort(ops.ret[self.enqueues[chosen]], kind="stable")]
        latest = np.maximum.accumulate(leaves[chosen])
        before = np.searchsorted(ops.ret[self.enqueues[chosen]], ops.call[self.enqueues[taken]]) - 1
        broken = (before >= 0) & (latest[before] > self.leave_ret[taken])
        hits = taken[broken]
        if not len(hits):
            return None
        at = np.argmin(self.leave_ret[hits])
        second = hits[at]
        first = chosen[np.searchsorted(latest, latest[before[broken][at]])]
        return Broken(rule="order", first=self._rows(first), second=self._rows(second))

    def _covered(self, leaves: Ints) -> Broken | None:
        """``empty``, if each value leaves when ``leaves`` says."""
        ops = self.ops
        if not len(self.empties):
            return None
        begin = ops.ret[self.enqueues]
        sure = np.flatnonzero(begin < leaves)
        if not len(sure):
            return None
        sure = sure[np.argsort(begin[sure], kind="stable")]
        begin, reach = begin[sure], np.maximum.accumulate(leaves[sure])
        fresh = np.concatenate([[True], begin[1:] > reach[:-1]])
        start = begin[np.maximum.accumulate(np.where(fresh, np.arange(len(sure)), 0))]
        last = np.searchsorted(begin, ops.ret[self.empties]) - 1
        covered = (last >= 0) & (start[last] < ops.call[self.empties]) & (reach[last] > ops.ret[self.empties])
        for at in np.flatnonzero(covered)[:1].tolist():
            empty = self.empties[at : at + 1]
            return Broken(rule="empty", first=empty, second=self._chain(sure, begin, leaves, int(empty[0])))
        return None

    def _chain(self, sure: Ints, begin: Ints, leaves: Ints, empty: int) -> Ints:
        """As few values as possible, each there before the one before it leaves, that cover an empty answer."""
        call, ret = int(self.ops.call[empty]), int(self.ops.ret[empty])
        rows: list[Ints] = []
        covered_to, position = call, 0
        while covered_to < ret:
            upto = int(np.searchsorted(begin, covered_to))
            best = position + int(np.argmax(leaves[sure[position:upto]]))
            covered_to, position = int(leaves[sure[best]]), upto
            rows.append(self._rows(sure[best]))
        return np.concatenate(rows)

    def _rows(self, at: np.int64) -> Ints:
        return np.array([row for row in (self.enqueues[at], self.out[at]) if row >= 0], dtype=np.int64)

    def _plan(self) -> Ints | Broken:
        """When each value leaves, if each dequeue that reported nothing takes what has to leave soonest.

        A value that is overtaken must have left before the overtaking dequeue returned; one that an empty answer
        missed, before that one returned. Broken: there are not enough such dequeues in time for those overtaken.
        """
        ops = self.ops
        staying = np.flatnonzero(self.out < 0)
        taken = np.flatnonzero(self.out >= 0)
        soonest = self._deadlines(staying, taken)
        leaves = self.leave_call.copy()
        urgent = np.argsort(soonest, kind="stable")
        for count, at in enumerate(urgent.tolist()):
            if soonest[at] >= OPEN:
                break
            if count >= len(self.drops) or self.drops[count] >= soonest[at]:
                passing = taken[
                    (ops.call[self.enqueues[taken]] > ops.ret[self.enqueues[staying[at]]])
                    & (self.leave_ret[taken] == soonest[at])
                ]
                late = [self._rows(staying[i]) for i in urgent[: count + 1].tolist()]
                return Broken(rule="order", first=np.concatenate(late), second=self._rows(passing[0]))
        if len(self.empties):
            answered = np.sort(ops.ret[self.empties])
            after = np.searchsorted(answered, ops.ret[self.enqueues[staying]])
            missed = np.where(after < len(answered), np.append(answered, OPEN)[after], OPEN)
            soonest = np.minimum(soonest, missed)
        pressing = np.flatnonzero(soonest < OPEN).tolist()
        waiting = [(int(soonest[at]), int(staying[at])) for at in pressing]
        heapq.heapify(waiting)
        for call in self.drops.tolist():
            if waiting:
                leaves[heapq.heappop(waiting)[1]] = call
        return leaves

    def _deadlines(self, staying: Ints, taken: Ints) -> Ints:
        """By staying value: the first return of a dequeue that overtook it, OPEN if none did."""
        ops = self.ops
        if not len(taken):
            return np.full(len(staying), OPEN, dtype=np.int64)
        order = taken[np.argsort(ops.call[self.enqueues[taken]], kind="stable")]
        calls = ops.call[self.enqueues[order]]
        first = np.minimum.accumulate(self.leave_ret[order][::-1])[::-1]
        at = np.searchsorted(calls, ops.ret[self.enqueues[staying]])
        return np.where(at < len(order), np.append(first, OPEN)[at], OPEN)
