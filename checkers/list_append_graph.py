"""The dependency graph of list-append transactions, and the cycles in it, by Adya's names.

Edges between committed transactions: ``ww`` (the next version is of another one), ``wr`` (read what it wrote), ``rw``
(read a version whose successor it wrote), ``process`` (one client did it before), ``realtime`` (it had returned before
the other was asked). An acknowledged value that no read shows stands after the longest read. Real time is one chain of
moments, with a way in at each return and a way out at each invocation: three edges a transaction, for any number
of clients. Cycles: G0 is all ``ww``; G1c adds ``wr``; G-single has exactly one ``rw``; G2 two or more; each also with
``-process`` or ``-realtime``, if such an edge is needed.

Guarantees: no cycle is reported that does not follow from what was seen; if there is any, at least one is reported. Out
of scope: versions of lists whose order cannot be trusted.

Source: Adya, "Weak consistency: a generalized theory", 1999; Kingsbury, Alvaro, "Elle", VLDB 2020.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from dethrone.checkers.cycles import (
    Budget,
    Edges,
    Hop,
    Ints,
    Wanted,
    components,
    core,
    edges_of,
    joined,
    ranks,
    shortest,
)
from dethrone.checkers.list_append_observed import List, Observed, Txn
from dethrone.harness.core.operations import NEVER

WW, WR, RW, PROCESS, RETURNED, LATER, INVOKED = range(7)
"""Kinds of edges. The last three are the ways into, along and out of real time."""

REALTIME = frozenset({RETURNED, LATER, INVOKED})
CYCLES_MAX = 3
"""Cycles reported of each name."""

EDGES_MAX = 3_000_000
"""Edges that the search for short cycles looks at before it takes what it has."""

UNSEEN_MAX = 10_000
"""Pairs of a reader and an unseen append of one list; beyond it only the first ones count, and that is said."""


class Because(msgspec.Struct, frozen=True, gc=False):
    """Why there is an edge: which list, which value, and what was seen. None: the order alone."""

    name: Any
    value: Any
    before: Any = None
    """ww: the value before it; rw: the list that was read without it."""
    seen: bool = True
    """False: no read shows ``value``."""


@dataclass(slots=True)
class Graph:
    """Nodes below ``len(txns)`` are transactions, the others moments. ``why``: by the note of an edge."""

    txns: Sequence[Txn]
    nodes: int
    edges: Edges
    why: list[Because]
    left_out: int = 0
    """Pairs dropped because of UNSEEN_MAX."""

    @property
    def when(self) -> Ints:
        """For each node about when it was: an order to try first."""
        asked = np.array([2 * txn.op.invoked for txn in self.txns], dtype=np.int64)
        return np.concatenate([asked, asked - 1, [2 * NEVER - 1]])


@dataclass(frozen=True, slots=True)
class Link:
    """One edge of a cycle between transactions. ``kind``: ww, wr, rw, process or realtime."""

    before: Txn
    after: Txn
    kind: str
    why: Because | None


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle by its name. ``links`` follow each other, the last one leads back to the first."""

    name: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """All that was found. ``exhausted``: the search stopped at its bound, shorter or weaker cycles may exist."""

    cycles: list[Cycle]
    exhausted: bool


def build(observed: Observed) -> Graph:
    """The graph of all committed transactions."""
    txns = observed.committed
    made = _Making({txn.number: node for node, txn in enumerate(txns)})
    committed = made.node_of.keys()
    for one in observed.lists.values():
        if one.ordered and one.looks:
            _of_list(made, one, [value for value, write in one.writes.items() if write.txn.number in committed])
    edges = joined([edges_of(made.rows), edges_of(list(_of_processes(txns))), _of_time(txns)])
    return Graph(txns, 2 * len(txns) + 1, edges, made.why, made.left_out)


@dataclass(slots=True)
class _Making:
    """Edges as they are found."""

    node_of: Mapping[int, int]
    """Number of a transaction → its node."""
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    why: list[Because] = field(default_factory=list)
    left_out: int = 0

    def add(self, src: int, dst: int, kind: int, why: Because) -> None:
        """One edge, unless it leads back to where it comes from."""
        if src != dst:
            self.rows.append((src, dst, kind, len(self.why)))
            self.why.append(why)

    def writer(self, one: List, value: Any) -> int:
        """The node of the transaction that appended it; -1: none that committed."""
        write = one.writes.get(value)
        return -1 if write is None else self.node_of.get(write.txn.number, -1)


def _of_list(made: _Making, one: List, appended: Sequence[Any]) -> None:
    """The edges of one list. ``appended``: all values of transactions that committed."""
    order = one.order
    writers = [made.writer(one, value) for value in order]
    last = -1
    latest = [-1]
    """For each length of a read: the last place within it whose writer is known."""
    for place, writer in enumerate(writers):
        if writer >= 0:
            if last >= 0:
                made.add(writers[last], writer, WW, Because(one.name, order[place], order[last]))
            last = place
        latest.append(last)
    upcoming = [-1] * (len(order) + 1)
    """For each length of a read: the first place behind it whose writer is known."""
    for place in range(len(order) - 1, -1, -1):
        upcoming[place] = place if writers[place] >= 0 else upcoming[place + 1]
    ends: list[tuple[int, Sequence[Any]]] = []
    drawn: set[tuple[int, int]] = set()
    for look in one.looks:
        reader, length = made.node_of[look.txn.number], len(look.values)
        if (reader, length) in drawn:
            continue
        drawn.add((reader, length))
        if (place := latest[length]) >= 0:
            made.add(writers[place], reader, WR, Because(one.name, order[place], look.values))
        if (place := upcoming[length]) >= 0:
            made.add(reader, writers[place], RW, Because(one.name, order[place], look.values))
        else:
            ends.append((reader, look.values))
    shown = set(order)
    _of_unseen(made, one, [value for value in appended if value not in shown], last, ends)


def _of_unseen(
    made: _Making, one: List, unseen: Sequence[Any], last: int, ends: Sequence[tuple[int, Sequence[Any]]]
) -> None:
    """Values that no read shows come after the longest read: after its last writer and after all who read it."""
    pairs = 0
    for value in unseen:
        target = made.writer(one, value)
        if last >= 0:
            made.add(
                made.writer(one, one.order[last]), target, WW, Because(one.name, value, one.order[last], seen=False)
            )
        for reader, values in ends:
            pairs += 1
            if pairs <= UNSEEN_MAX:
                made.add(reader, target, RW, Because(one.name, value, values, seen=False))
    made.left_out += max(0, pairs - UNSEEN_MAX)


def _of_processes(txns: Sequence[Txn]) -> Iterator[tuple[int, int, int, int]]:
    """One client's transactions, one after the other."""
    before: dict[int, int] = {}
    for node, txn in enumerate(txns):
        last = before.get(txn.op.process)
        if last is not None and txns[last].op.returned < txn.op.invoked:
            yield last, node, PROCESS, -1
        if txn.known:
            before[txn.op.process] = node


def _of_time(txns: Sequence[Txn]) -> Edges:
    """A chain of moments: moment k is before the k-th invocation and after every return that precedes it."""
    many = len(txns)
    invoked = np.array([txn.op.invoked for txn in txns], dtype=np.int64)
    returned = np.array([txn.op.returned for txn in txns], dtype=np.int64)
    node = np.arange(many, dtype=np.int64)
    back = np.flatnonzero(returned < NEVER)
    moment = many + np.searchsorted(invoked, returned[back])
    chain = many + node
    parts = [
        _uniform(back, moment, RETURNED),
        _uniform(chain, chain + 1, LATER),
        _uniform(chain, node, INVOKED),
    ]
    return joined(parts)


def _uniform(src: Any, dst: Any, kind: int) -> Edges:
    return Edges(src, dst, np.full(len(src), kind, dtype=np.int64), np.full(len(src), -1, dtype=np.int64))


# --- cycles -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Search:
    """One kind of cycle: an edge of ``first``, then edges of ``then`` with at least one of each of ``also``."""

    first: int
    then: frozenset[int]
    also: tuple[int, ...] = ()


_WRITES, _READS = frozenset({WW}), frozenset({WW, WR})
_ALL = frozenset({WW, WR, RW})


def _searches() -> Iterator[_Search]:
    """From the strongest statement to the weakest; the order is that of the names."""
    for order, mark in ((frozenset[int](), -1), (frozenset({PROCESS}), PROCESS), (REALTIME, RETURNED)):
        also = () if mark < 0 else (mark,)
        yield _Search(WW if mark < 0 else mark, _WRITES | order)
        yield _Search(WR, _READS | order, also)
        yield _Search(RW, _READS | order, also)
        yield _Search(RW, _ALL | order, (RW, *also))


def cycles(graph: Graph) -> Found:
    """The shortest cycles of each kind; at least one if there is any."""
    inside = core(graph.edges, graph.nodes)
    if not inside.any():
        return Found([], exhausted=False)
    edges = graph.edges.where(inside[graph.edges.src] & inside[graph.edges.dst])
    told: dict[frozenset[int], Cycle] = {}
    exhausted = False
    for search in _searches():
        budget = Budget(EDGES_MAX)
        for steps in _search(edges, graph.when, search, budget, list(told)):
            members = frozenset(step.src for step in steps if step.src < len(graph.txns))
            # a stronger statement about some of the same transactions says more
            if not any(known <= members for known in told):
                told[members] = _named(graph, steps)
        exhausted = exhausted or budget.spent
    if not told:
        told[frozenset()] = _named(graph, _any(edges, graph.nodes))
    return Found(list(told.values()), exhausted)


def _search(
    edges: Edges, when: Ints, search: _Search, budget: Budget, told_so_far: Sequence[frozenset[int]]
) -> Iterator[list[Hop]]:
    """Cycles of that kind, from every component of the edges that it may use.

    With several ``rw`` only where nothing stronger is reported of the component: no level forbids just one of them.
    """
    nodes = len(when)
    allowed = sorted(search.then | {search.first})
    mine = edges.where(np.isin(edges.kind, allowed))
    inside = core(mine, nodes)  # most kinds of edges alone have no cycle, and this is the quick way to see it
    mine = mine.where(inside[mine.src] & inside[mine.dst])
    found = components(mine, nodes)
    if not found:
        return
    component = np.full(nodes, -1, dtype=np.int64)
    for number, members in enumerate(found):
        if RW in search.also and any(cycle.issubset(members) for cycle in told_so_far):
            continue
        component[members] = number
    number_of = component[mine.src]
    mine = mine.where((number_of >= 0) & (number_of == component[mine.dst]))
    others = mine.where(np.isin(mine.kind, sorted(search.then)))
    firsts = mine.where(mine.kind == search.first)
    rank: Any = None
    if search.first not in search.then and len(firsts):
        rank = ranks(others, nodes, when)
        if rank is not None:
            firsts = firsts.where(rank[firsts.dst] <= rank[firsts.src])
    by_component = defaultdict(list)
    for at, number in enumerate(component[firsts.src].tolist()):
        by_component[number].append(at)
    known = None if rank is None else rank.tolist()
    wanted = Wanted(also=search.also, free=frozenset({RETURNED, LATER}), rank=known)
    told = 0
    for number, places in by_component.items():
        rows = np.array(places, dtype=np.int64)
        chosen = Edges(firsts.src[rows], firsts.dst[rows], firsts.kind[rows], firsts.note[rows])
        within = others.where(component[others.src] == number)
        for cycle in shortest(chosen, within, wanted, many=CYCLES_MAX, budget=budget):
            told += 1
            yield cycle
        if told >= CYCLES_MAX or budget.spent:
            return


def _any(edges: Edges, nodes: int) -> list[Hop]:
    """Some shortest cycle, of any kind: where the search for the kinds came to its bound."""
    members = np.zeros(nodes, dtype=np.bool_)
    members[components(edges, nodes)[0]] = True
    mine = edges.where(members[edges.src] & members[edges.dst])
    wanted = Wanted(free=frozenset({RETURNED, LATER}))
    first = mine.where(np.arange(len(mine)) == int(np.argmin(mine.kind)))
    return shortest(first, mine, wanted, many=1, budget=Budget(2**62))[0]


def _named(graph: Graph, steps: Sequence[Hop]) -> Cycle:
    """The cycle between transactions, by its name."""
    many = len(graph.txns)
    start = next(at for at, step in enumerate(steps) if step.src < many)
    links: list[Link] = []
    before = steps[start].src
    for step in [*steps[start:], *steps[:start]]:
        if step.dst >= many:
            continue
        kind = {WW: "ww", WR: "wr", RW: "rw", PROCESS: "process"}.get(step.kind, "realtime")
        why = graph.why[step.note] if step.note >= 0 else None
        links.append(Link(graph.txns[before], graph.txns[step.dst], kind, why))
        before = step.dst
    kinds = [link.kind for link in links]
    anti = kinds.count("rw")
    name = "G2" if anti > 1 else "G-single" if anti else "G1c" if "wr" in kinds else "G0"
    if "realtime" in kinds:
        name += "-realtime"
    elif "process" in kinds:
        name += "-process"
    return Cycle(name, tuple(links))
