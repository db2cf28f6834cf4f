"""Cycles of a directed graph whose edges are of several kinds: whether there is one, its components, a short one.

Guarantees: linear time for the question and for the components (Kahn's peeling; the components are SciPy's); a reported
cycle visits no node twice; the search is bounded by edges looked at, and says when it stopped. Out of scope: what the
kinds mean.

Source: Kahn, "Topological sorting of large networks", 1962.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edges:
    """Parallel arrays. ``note`` is the caller's own number of an edge (why it is there)."""

    src: Ints
    dst: Ints
    kind: Ints
    note: Ints

    def __len__(self) -> int:
        return len(self.src)

    def where(self, mask: NDArray[np.bool_]) -> Edges:
        """Only these."""
        return Edges(self.src[mask], self.dst[mask], self.kind[mask], self.note[mask])


def edges_of(rows: Sequence[tuple[int, int, int, int]]) -> Edges:
    """Edges from (src, dst, kind, note)."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Edges(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def joined(parts: Iterable[Edges]) -> Edges:
    """All of them, in order."""
    rows = list(parts)
    return Edges(
        np.concatenate([part.src for part in rows]),
        np.concatenate([part.dst for part in rows]),
        np.concatenate([part.kind for part in rows]),
        np.concatenate([part.note for part in rows]),
    )


def core(edges: Edges, nodes: int) -> NDArray[np.bool_]:
    """Which nodes remain when those without a way in, or without a way out, are taken off again and again.

    None remain exactly if the graph has no cycle.
    """
    left = _peeled(edges.src, edges.dst, nodes, np.ones(nodes, dtype=np.bool_))
    return _peeled(edges.dst, edges.src, nodes, left) if left.any() else left


def _peeled(src: Ints, dst: Ints, nodes: int, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    inside = left[src] & left[dst]
    src, dst = src[inside], dst[inside]
    starts, targets = _rows(src, dst, nodes)
    degree = np.bincount(dst, minlength=nodes).tolist()
    ready = np.flatnonzero(left & (np.array(degree, dtype=np.int64) == 0)).tolist()
    gone = bytearray(nodes)
    while ready:
        node = ready.pop()
        gone[node] = 1
        for at in range(starts[node], starts[node + 1]):
            target = targets[at]
            degree[target] -= 1
            if not degree[target]:
                ready.append(target)
    result: NDArray[np.bool_] = left & (np.frombuffer(gone, dtype=np.uint8) == 0)
    return result


def ranks(edges: Edges, nodes: int, when: Ints) -> Ints | None:
    """A number for each node that rises along every edge, as near to the order of ``when`` as may be; None: a cycle."""
    starts, targets = _rows(edges.src, edges.dst, nodes)
    degree = np.bincount(edges.dst, minlength=nodes).tolist()
    times = when.tolist()
    queue = [(times[node], node) for node in range(nodes) if not degree[node]]
    heapq.heapify(queue)
    rank = np.full(nodes, -1, dtype=np.int64)
    count = 0
    while queue:
        _, node = heapq.heappop(queue)
        rank[node] = count
        count += 1
        for target in targets[starts[node] : starts[node + 1]]:
            degree[target] -= 1
            if not degree[target]:
                heapq.heappush(queue, (times[target], target))
    return rank if count == nodes else None


def _rows(src: Ints, dst: Ints, nodes: int) -> tuple[list[int], list[int]]:
    """Where the edges of each node begin, and all targets in that order."""
    order = np.argsort(src, kind="stable")
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(src, minlength=nodes), out=starts[1:])
    return starts.tolist(), dst[order].tolist()


def components(edges: Edges, nodes: int) -> list[list[int]]:
    """The strongly connected components of more than one node, each sorted, in the order of their first nodes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ways = coo_array((np.ones(len(edges), dtype=np.int8), (edges.src, edges.dst)), shape=(nodes, nodes))
    _, label = connected_components(ways.tocsr(), connection="strong")
    members = np.flatnonzero(np.bincount(label)[label] > 1)
    members = members[np.argsort(label[members], kind="stable")]
    parts = np.split(members, np.flatnonzero(np.diff(label[members])) + 1) if len(members) else []
    return sorted(part.tolist() for part in parts)


@dataclass(frozen=True, slots=True)
class Hop:
    """One edge of a cycle."""

    src: int
    dst: int
    kind: int
    note: int


@dataclass(slots=True)
class Budget:
    """How many edges a search may still look at."""

    left: int

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which cycles are looked for: one given edge, and back by others.

    ``also``: kinds of which those others hold at least one each. ``free``: kinds that add no length. ``rank``: rises
    along all those others, so a way back never goes above the rank of where it leads.
    """

    also: tuple[int, ...] = ()
    rank: Sequence[int] | None = None
    free: frozenset[int] = frozenset()


def shortest(firsts: Edges, others: Edges, wanted: Wanted, *, many: int, budget: Budget) -> list[list[Hop]]:
    """The shortest cycles of one edge of ``firsts`` and then edges of ``others``; at most ``many``, by their nodes.

    Without ``also`` a cycle through each of ``firsts`` is found wherever one exists and the budget lasts; with it one
    may be missed that shares nodes with a shorter walk. Both hold edges of one component only.
    """
    ways: dict[int, list[Hop]] = defaultdict(list)
    for step in _steps(others):
        ways[step.src].append(step)
    found: dict[frozenset[int], list[Hop]] = {}
    for first in _steps(firsts):
        if budget.spent or len(found) >= 8 * many:
            break
        cycle = _closed(ways, first, wanted, budget)
        if cycle is not None:
            found.setdefault(frozenset(step.src for step in cycle), cycle)
    return sorted(found.values(), key=lambda cycle: (_length(cycle, wanted), cycle[0].src))[:many]


def _steps(edges: Edges) -> Iterator[Hop]:
    columns = (edges.src, edges.dst, edges.kind, edges.note)
    return (Hop(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def _length(cycle: Sequence[Hop], wanted: Wanted) -> int:
    return sum(step.kind not in wanted.free for step in cycle)


def _closed(ways: Mapping[int, list[Hop]], first: Hop, wanted: Wanted, budget: Budget) -> list[Hop] | None:
    """The shortest way back from the end of ``first`` to its beginning that has a step of each kind of ``also``."""
    flag = {kind: 1 << at for at, kind in enumerate(wanted.also)}
    full = (1 << len(wanted.also)) - 1
    rank = wanted.rank
    top = 0 if rank is None else rank[first.src]
    start = (first.dst, 0)
    came: dict[tuple[int, int], tuple[tuple[int, int], Hop] | None] = {start: None}
    cost = {start: 0}
    queue = deque([start])
    done: set[tuple[int, int]] = set()
    while queue:
        state = queue.popleft()
        if state in done:
            continue
        done.add(state)
        node, flags = state
        if node == first.src and flags == full:
            return _simple(came, state, first)
        here = ways.get(node, ())
        budget.left -= len(here)
        if budget.spent:
            return None
        for step in here:
            if rank is not None and rank[step.dst] > top:
                continue
            following = (step.dst, flags | flag.get(step.kind, 0))
            free = step.kind in wanted.free
            price = cost[state] + (not free)
            if price < cost.get(following, price + 1):
                cost[following] = price
                came[following] = (state, step)
                if free:
                    queue.appendleft(following)
                else:
                    queue.append(following)
    return None


def _simple(
    came: dict[tuple[int, int], tuple[tuple[int, int], Hop] | None], state: tuple[int, int], first: Hop
) -> list[Hop] | None:
    """The cycle, unless it visits a node twice."""
    back: list[Hop] = []
    before = came[state]
    while before is not None:
        back.append(before[1])
        before = came[before[0]]
    cycle = [first, *reversed(back)]
    return cycle if len({step.src for step in cycle}) == len(cycle) else None
