"""Registers whose values were each written once: clusters and their zones, O(n log n) in NumPy, all keys at once.

P. B. Gibbons, E. Korach, "Testing shared memories" (1997): the cluster of a value is its write and its reads; F is the
first return in it, S the last call. The operations of a cluster stand together in every order, so one cluster comes
before another where F of the one is before S of the other; an order exists if and only if no two clusters come before
each other. That is: no read returns before its write is called, no two *forward* zones (F before S) overlap, no
*backward* zone lies inside a forward one.

A successful cas(a → b) is the last of the cluster of a and the first of the cluster of b, so clusters joined by cas
form a chain that stands together; the order inside is given. Two cas from one value, or a ring of them, cannot be.

What is unknown: reads are dropped; a write is dropped unless its value was seen, for it can be thought away. The
initial value was written before everything. A failed cas that shows something (``strict``) is left to a witness order:
if it fits there, well; if not, nothing is decided.

Guarantees: of each key ``good``, a ``Clash``, or undecided (a value that was seen had two writers, or a failed cas does
not fit): exact where it decides. Out of scope: making the proof small, and words.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left

import msgspec
import numpy as np

from dethrone.checkers.models.ops import FAIL, OK, OPEN, Bools, Codes, F, Ints, Ops, distinct

_SHIFT = 32
_ROUNDS = 32
_BEFORE = -1
"""Position of the initial write."""


class Clash(msgspec.Struct, frozen=True, kw_only=True):
    """Why a key has no order. ``rows`` of the Ops given: a proof, not yet the smallest one."""

    key: int
    rule: str
    """``phantom``, ``early``, ``two-cas``, ``ring``, ``chain``, ``overlap``, ``inside``"""
    rows: Ints
    first: Ints
    """Rows of the first chain of clusters concerned."""
    second: Ints
    """Rows of the second one, where there are two."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Key by key. What is in neither ``clashes`` nor ``undecided`` is linearizable."""

    clashes: dict[int, Clash]
    bad: Ints
    """Keys that have no order, in rising order."""
    undecided: Ints
    """Keys that this engine cannot judge."""


class _Clusters(msgspec.Struct, eq=False):
    """Rows that count, and arrays by cluster."""

    count: int
    readers: Ints
    reader_of: Ints
    """Cluster of each reader."""
    movers: Ints
    target: Ints
    """Cluster that each mover writes."""
    source: Ints
    """Cluster that it found, -1 for a write."""
    key: Ints
    writer: Ints
    """Row that writes it, -1: none, -2: it is initial."""
    write_call: Ints
    write_ret: Ints
    read_call: Ints
    read_ret: Ints
    root: Ints
    depth: Ints


def judge(ops: Ops, *, initial: int, strict: bool, clashes_max: int = 20) -> Found:
    """All keys. ``initial``: the code of the value that an unset register reads."""
    keys = int(ops.key.max()) + 1 if len(ops) else 0
    bad = np.zeros(keys, dtype=np.bool_)
    undecided = np.zeros(keys, dtype=np.bool_)
    clashes: dict[int, Clash] = {}
    made, ambiguous = _clusters(ops, initial, keys)
    undecided[ambiguous] = True
    found: list[tuple[str, Ints, Ints]] = []
    """(rule, one cluster a row, another one or -1)."""
    seen = made.read_call >= 0
    source_seen = np.zeros(made.count, dtype=np.bool_)
    cas = made.source >= 0
    source_seen[made.source[cas]] = True
    none = np.full(made.count, -1, dtype=np.int64)

    def note(rule: str, where: Bools, others: Ints = none) -> None:
        hit = np.flatnonzero(where)
        if len(hit):
            found.append((rule, hit, others[hit]))

    note("phantom", (seen | source_seen) & (made.writer == -1))
    note("early", seen & (made.read_ret < made.write_call))
    block = made.root
    if cas.any():
        note("two-cas", np.bincount(made.source[cas], minlength=made.count) > 1)
        ring = made.root < 0
        note("ring", ring)
        block = np.where(ring, np.arange(made.count), made.root)
        inner = _chain_breaks(made, block)
        note("chain", inner >= 0, inner)
    first = np.minimum(made.write_ret, made.read_ret)
    last = np.maximum(made.write_call, made.read_call)
    if cas.any():
        joined_first = np.full(made.count, OPEN, dtype=np.int64)
        joined_last = np.full(made.count, _BEFORE - 1, dtype=np.int64)
        np.minimum.at(joined_first, block, first)
        np.maximum.at(joined_last, block, last)
        first, last = joined_first, joined_last
    live = np.flatnonzero((block == np.arange(made.count)) & ((made.writer != -1) | seen))
    for rule, one, other in _zone_clashes(made.key[live], first[live], last[live]):
        found.append((rule, live[one], live[other]))
    for rule, one, other in found:
        for x, y in zip(one.tolist(), other.tolist(), strict=True):
            key = int(made.key[x])
            if undecided[key]:
                continue
            bad[key] = True
            if key not in clashes and len(clashes) < clashes_max:
                clashes[key] = _clash(made, block, rule, x, y)
            elif len(clashes) >= clashes_max:
                bad[made.key[one]] = True
                break
    bad &= ~undecided
    if strict:
        for key in distinct(ops.key[(ops.f == F.CAS) & (ops.status == FAIL)]).tolist():
            if not (bad[key] or undecided[key]) and not _fits(ops, made, np.minimum(first, last)[block], key, initial):
                undecided[key] = True
    return Found(clashes=clashes, bad=np.flatnonzero(bad), undecided=np.flatnonzero(undecided))


def _clusters(ops: Ops, initial: int, keys: int) -> tuple[_Clusters, Ints]:
    """The clusters, and the keys that have a value that was seen and has two writers."""
    words = len(ops.values)
    f, status = ops.f, ops.status
    a, b, key = ops.a.astype(np.int64), ops.b.astype(np.int64), ops.key.astype(np.int64)
    is_cas = f == F.CAS
    same = is_cas & (a == b)
    reading = (status == OK) & ((f == F.READ) | same)
    moving = (status != FAIL) & ((f == F.WRITE) | (is_cas & ~same))
    readers, movers = np.flatnonzero(reading), np.flatnonzero(moving)
    target = _cluster(np.where(is_cas, b, a)[movers], key[movers], words, keys)
    moving_cas = is_cas[movers]
    source = np.where(moving_cas, _cluster(a[movers], key[movers], words, keys), -1)
    reader_of = _cluster(a[readers], key[readers], words, keys)
    wide, inverse = (
        np.unique(np.concatenate([target, source, reader_of]), return_inverse=True)
        if keys > 1
        else (
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
        )
    )
    count = words
    if keys > 1:
        # Codes of (key, value) made dense; -1, "no source", stays what it is.
        shift = int(len(wide) > 0 and wide[0] == -1)
        inverse = inverse.reshape(-1) - shift
        target = inverse[: len(target)]
        source = inverse[len(target) : 2 * len(target)]
        reader_of = inverse[2 * len(target) :]
        wide = wide[shift:]
        count = len(wide)
        cluster_key = wide // words
        is_initial = wide % words == initial
    else:
        cluster_key = np.zeros(count, dtype=np.int64)
        is_initial = np.arange(count) == initial
    seen = np.zeros(count + 1, dtype=np.bool_)
    seen[reader_of] = True
    certain = status[movers] == OK
    seen[source[certain]] = True
    seen[-1] = False
    happened = certain | _shown(target, source, ~certain, seen)
    seen[source[happened]] = True
    seen[-1] = False
    movers, target, source = movers[happened], target[happened], source[happened]
    # A value that was never seen may have many writers: each is a cluster of its own.
    unseen = np.flatnonzero(~seen[target])
    target = target.copy()
    target[unseen] = count + np.arange(len(unseen))
    cluster_key = np.concatenate([cluster_key, key[movers[unseen]]])
    is_initial = np.concatenate([is_initial, np.zeros(len(unseen), dtype=np.bool_)])
    total = count + len(unseen)
    writers = np.bincount(target, minlength=total) + is_initial
    ambiguous = distinct(cluster_key[(writers > 1) & np.concatenate([seen[:-1], np.zeros(len(unseen), np.bool_)])])
    writer = np.full(total, -1, dtype=np.int64)
    writer[target] = movers
    writer[is_initial] = -2
    write_call = np.where(is_initial, _BEFORE, np.int64(_BEFORE - 1))
    write_ret = np.where(is_initial, _BEFORE, np.int64(OPEN))
    plain = writer[target] == movers
    write_call[target[plain]] = ops.call[movers[plain]]
    write_ret[target[plain]] = ops.ret[movers[plain]]
    read_call = np.full(total, _BEFORE - 1, dtype=np.int64)
    read_ret = np.full(total, OPEN, dtype=np.int64)
    np.maximum.at(read_call, reader_of, ops.call[readers])
    np.minimum.at(read_ret, reader_of, ops.ret[readers])
    made = _Clusters(
        total,
        readers,
        reader_of,
        movers,
        target,
        source,
        cluster_key,
        writer,
        write_call,
        write_ret,
        read_call,
        read_ret,
        np.arange(total),
        np.zeros(total, dtype=np.int64),
    )
    _chains(made)
    return made, ambiguous


def _cluster(value: Ints, key: Ints, words: int, keys: int) -> Ints:
    """One number a (key, value)."""
    return value if keys <= 1 else key * words + value


def _shown(target: Ints, source: Ints, unknown: Bools, seen: Bools) -> Bools:
    """Which movers of unknown outcome certainly happened: what they wrote was seen, or a cas that happened did."""
    shown = np.zeros(len(target), dtype=np.bool_)
    if not unknown.any():
        return shown
    known = seen.copy()
    todo = np.flatnonzero(unknown)
    for _ in range(_ROUNDS):
        hit = known[target[todo]]
        if not hit.any():
            return shown
        now = todo[hit]
        shown[now] = True
        known[source[now]] = True
        known[-1] = False
        todo = todo[~hit]
    # A long chain of unknown cas, each seen by the next only: one step a round would be quadratic.
    writers: dict[int, list[int]] = {}
    for at in todo.tolist():
        writers.setdefault(int(target[at]), []).append(at)
    work = [cluster for cluster in writers if known[cluster]]
    while work:
        for at in writers.pop(work.pop(), ()):
            shown[at] = True
            if source[at] >= 0:
                work.append(int(source[at]))
    return shown


def _chains(made: _Clusters) -> None:
    """``root`` and ``depth`` of every cluster, along the cas that lead to it; root -1: a ring."""
    cas = np.flatnonzero(made.source >= 0)
    if not len(cas):
        return
    parent = np.arange(made.count)
    parent[made.target[cas]] = made.source[cas]
    depth = (parent != np.arange(made.count)).astype(np.int64)
    starts = depth == 0
    hops = 1
    while hops < 2 * made.count:
        depth += depth[parent]
        after = parent[parent]
        if np.array_equal(after, parent):
            break
        parent = after
        hops *= 2
    made.root = np.where(starts[parent], parent, -1)
    made.depth = depth


def _chain_breaks(made: _Clusters, block: Ints) -> Ints:
    """By cluster: the cluster of its chain that comes before it, but cannot; -1 where all is well.

    In the order of a chain (writer, readers, writer, readers …) nothing may return before something earlier is called.
    """
    order = np.lexsort((made.depth, block))
    calls = np.empty(2 * made.count, dtype=np.int64)
    calls[0::2], calls[1::2] = made.write_call[order], made.read_call[order]
    rets = np.empty(2 * made.count, dtype=np.int64)
    rets[0::2], rets[1::2] = made.write_ret[order], made.read_ret[order]
    chain = np.repeat(np.cumsum(np.concatenate([[0], np.diff(block[order]) != 0])), 2)
    lifted = (chain << _SHIFT) + np.maximum(calls, _BEFORE) + 1
    highest = np.maximum.accumulate(lifted)
    latest = highest - (chain << _SHIFT) - 1
    late = np.flatnonzero(rets[1:] < latest[:-1]) + 1
    late = late[chain[late] == chain[late - 1]]
    out = np.full(made.count, -1, dtype=np.int64)
    for at in late[:1000].tolist():
        earlier = int(np.searchsorted(highest, highest[at - 1]))
        cluster = int(order[at // 2])
        if out[cluster] < 0:
            out[cluster] = order[earlier // 2]
    return out


def _zone_clashes(key: Ints, first: Ints, last: Ints) -> list[tuple[str, Ints, Ints]]:
    """Pairs of zones of one key that must each come before the other."""
    out: list[tuple[str, Ints, Ints]] = []
    base = (key + 1) << _SHIFT
    low, high = base + first, base + last
    forward = np.flatnonzero(first < last)
    if not len(forward):
        return out
    forward = forward[np.argsort(low[forward], kind="stable")]
    begin, end = low[forward], high[forward]
    reach = np.maximum.accumulate(end)
    hit = np.flatnonzero(reach[:-1] > begin[1:])
    if len(hit):
        # The one that reaches furthest so far: found by where the maximum first appeared.
        out.append(("overlap", forward[np.searchsorted(reach, reach[hit])], forward[hit + 1]))
    backward = np.flatnonzero((first > last) & (first < OPEN))
    if len(backward):
        at = np.searchsorted(begin, high[backward]) - 1
        inside = (at >= 0) & (reach[at] > low[backward])
        holder = forward[np.searchsorted(reach, reach[at[inside]])]
        out.append(("inside", holder, backward[inside]))
    return out


def _clash(made: _Clusters, block: Ints, rule: str, one: int, other: int) -> Clash:
    """The rows of the chains of these clusters."""

    def rows(cluster: int) -> Ints:
        if cluster < 0:
            return np.zeros(0, dtype=np.int64)
        members = np.flatnonzero(block == block[cluster])
        if rule in ("two-cas", "ring"):
            members = np.flatnonzero(made.root == made.root[cluster])
        picked = np.zeros(made.count, dtype=np.bool_)
        picked[members] = True
        writers = made.movers[picked[made.target]]
        return np.concatenate([writers, made.readers[picked[made.reader_of]]])

    first, second = rows(one), rows(other)
    if rule == "two-cas":
        first = np.concatenate([first, made.movers[made.source == one]])
    everything = np.unique(np.concatenate([first, second]))
    return Clash(key=int(made.key[one]), rule=rule, rows=everything, first=np.unique(first), second=np.unique(second))


def _fits(ops: Ops, made: _Clusters, begin: Ints, key: int, initial: int) -> bool:
    """Whether the failed cas of a key, each seeing another value, fit into the order that the zones give.

    ``begin``: by cluster, where the zone of its chain begins.
    """
    mine = made.key == key
    clusters = np.flatnonzero(mine & ((made.writer != -1) | (made.read_call >= 0)))
    place = np.lexsort((made.depth[clusters], made.root[clusters], begin[clusters]))
    clusters = clusters[place]
    at_cluster = np.full(made.count, -1, dtype=np.int64)
    at_cluster[clusters] = np.arange(len(clusters))
    movers = made.movers[mine[made.target]]
    readers = made.readers[mine[made.reader_of]]
    seat = np.concatenate(
        [2 * at_cluster[made.target[mine[made.target]]], 2 * at_cluster[made.reader_of[mine[made.reader_of]]] + 1]
    )
    rows = np.concatenate([movers, readers])
    calls, rets = ops.call[rows], ops.ret[rows]
    order = np.lexsort((calls, seat))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows))
    by_ret, by_call = np.argsort(rets), np.argsort(calls)
    lowest = np.concatenate([[0], np.maximum.accumulate(rank[by_ret] + 1)])
    highest = np.concatenate([np.minimum.accumulate(rank[by_call][::-1])[::-1], [len(rows)]])
    # A gap g lies before the g-th operation; the value there is the one of the operation before it.
    value_at = [initial, *_values_after(ops, rows[order]).tolist()]
    ends: list[int] = [0] * len(value_at)
    end = len(value_at)
    for gap in range(len(value_at) - 1, -1, -1):
        if gap + 1 < len(value_at) and value_at[gap + 1] != value_at[gap]:
            end = gap + 1
        ends[gap] = end
    sorted_ret, sorted_call = rets[by_ret].tolist(), calls[by_call].tolist()
    failed = np.flatnonzero((ops.f == F.CAS) & (ops.status == FAIL) & (ops.key == key) & (ops.ret != OPEN))
    failed = failed[np.argsort(ops.call[failed])]
    waiting: list[tuple[int, int]] = []
    floor = 0
    for row in failed.tolist():
        call, ret, unwanted = int(ops.call[row]), int(ops.ret[row]), int(ops.a[row])
        while waiting and waiting[0][0] < call:
            floor = max(floor, heapq.heappop(waiting)[1])
        gap = max(floor, int(lowest[bisect_left(sorted_ret, call)]))
        top = int(highest[bisect_left(sorted_call, ret)])
        if gap < len(value_at) and value_at[gap] == unwanted:
            gap = ends[gap]
        if gap > top or gap >= len(value_at):
            return False
        heapq.heappush(waiting, (ret, gap))
    return True


def _values_after(ops: Ops, rows: Ints) -> Codes:
    """What a register holds after each of these operations."""
    wrote: Codes = np.where((ops.f[rows] == F.CAS), ops.b[rows], ops.a[rows])
    return wrote
