"""Sets that only grow and are read as a whole: O(n log n) in the number of elements read.

An order puts the reads in a row by inclusion. With equal reads as one group, each operation has its place: an element
that is first in group i was added after group i − 1 and before group i; an element in no read, after all groups. So the
earliest moments suffice: going through the groups, each may begin once all calls before it have been made, and nothing
in it may have returned before that.

Unknown: an add whose element no read showed is thought away. Of several adds of one element one must come before the
reads that show it; none may come before the last read that does not.

Guarantees: exact. Out of scope: removals, adds that report whether they changed something (the search judges those).
"""

from __future__ import annotations

import msgspec
import numpy as np

from dethrone.checkers.models.ops import FAIL, OK, UNTOLD, F, Ints, Ops


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the Ops given that have no order. ``element``: the code of the element concerned, -1: none."""

    rule: str
    """``phantom``, ``fork`` (two reads, none of which has all of the other), ``lost``, ``early``"""
    first: Ints
    second: Ints
    element: int = -1


Found = Broken | bool | None
"""A contradiction; True: there is an order; None: not a set that only grows."""


def judge(ops: Ops) -> Found:
    """One set."""
    live = ops.status != FAIL
    if bool(np.any(live & ((ops.f == F.REMOVE) | (ops.f == F.CONTAINS) | ((ops.f == F.ADD) & (ops.b != UNTOLD))))):
        return None
    reads = np.flatnonzero((ops.f == F.READ) & (ops.status == OK))
    adds = np.flatnonzero((ops.f == F.ADD) & live)
    words = ops.values.words
    distinct = np.unique(ops.a[reads]).tolist()
    shown: list[frozenset[int]] = [words[code] for code in distinct]
    size = np.array([len(elements) for elements in shown], dtype=np.int64)
    group_of_code = {}
    first_group = np.full(len(words), len(distinct), dtype=np.int64)
    before: frozenset[int] = frozenset()
    previous = -1
    for rank, at in enumerate(np.argsort(size, kind="stable").tolist()):
        if not before <= shown[at]:
            missing = min(before - shown[at])
            return Broken(
                rule="fork",
                first=_reads(ops, reads, distinct[previous])[:1],
                second=_reads(ops, reads, distinct[at])[:1],
                element=missing,
            )
        group_of_code[distinct[at]] = rank
        fresh = shown[at] - before
        first_group[list(fresh)] = rank
        before, previous = shown[at], at
    known = np.zeros(len(words), dtype=np.bool_)
    known[ops.a[adds]] = True
    for element in sorted(before):
        if not known[element]:
            holders = reads[[element in words[code] for code in ops.a[reads].tolist()]]
            return Broken(rule="phantom", first=holders[:1], second=adds[:0], element=element)
    return _places(ops, reads, adds, first_group, group_of_code)


def _places(ops: Ops, reads: Ints, adds: Ints, first_group: Ints, group_of_code: dict[int, int]) -> Found:
    """Go through the places in order: adds seen first in group i have place 2i, reads of group i have place 2i + 1."""
    groups = len(group_of_code)
    seen = first_group[ops.a[adds]] < groups
    adds = adds[seen | (ops.status[adds] == OK)]
    # Of several adds of one element the one called first may be the one that counts; the others may come later.
    order = adds[np.argsort(ops.call[adds], kind="stable")]
    counts = np.zeros(len(ops), dtype=np.bool_)
    _, firsts = np.unique(ops.a[order], return_index=True)
    counts[order[firsts]] = True
    rows = np.concatenate([adds, reads])
    place = np.concatenate(
        [
            2 * first_group[ops.a[adds]],
            2 * np.array([group_of_code[code] for code in ops.a[reads].tolist()], dtype=np.int64) + 1,
        ]
    )
    counts[reads] = True
    order = np.argsort(place, kind="stable")
    rows, place = rows[order], place[order]
    pushing = np.where(counts[rows], ops.call[rows], -1)
    reach = np.maximum.accumulate(pushing)
    start = np.searchsorted(place, place)
    earliest = np.where(start > 0, reach[start - 1], -1)
    late = np.flatnonzero(ops.ret[rows] < earliest)
    if not len(late):
        return True
    at = int(late[np.argmin(ops.ret[rows[late]])])
    pusher = int(np.searchsorted(reach, earliest[at]))
    one, other = rows[at : at + 1], rows[pusher : pusher + 1]
    rule = "lost" if ops.f[one[0]] == F.ADD else "early"
    element = int(ops.a[one[0]]) if rule == "lost" else -1
    if rule == "early" and ops.f[other[0]] == F.ADD:
        element = int(ops.a[other[0]])
    if rule == "lost" and ops.f[other[0]] == F.ADD:
        # Two adds prove nothing without the read that shows the one and not the other.
        group = int(place[pusher]) // 2
        between = next(read for read in reads.tolist() if group_of_code[int(ops.a[read])] == group)
        other = np.append(other, between)
    return Broken(rule=rule, first=one, second=other, element=element)


def _reads(ops: Ops, reads: Ints, code: int) -> Ints:
    rows: Ints = reads[ops.a[reads] == code]
    return rows
