"""Shapes of partitions as pure functions: nodes → directed cuts ``(src, dst)``: what src sends never arrives at dst.

Guarantees: every function is a formula over names; no node is ever cut from itself; the same arguments give the same
cuts. Out of scope: who is chosen and how a cut is carried out.

Sources: Alquraan et al., "An analysis of network-partitioning failures in cloud systems", OSDI 2018 (complete, partial,
simplex partitions); Ng et al., "Omni-Paxos", EuroSys 2023 (quorum-loss, constrained election, chained); Jepsen's
nemesis (majorities ring, bridge).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from dethrone.harness.core.quorum import quorum

Cuts = frozenset[tuple[str, str]]
"""Directed links that carry nothing."""


def one_way(sources: Collection[str], targets: Collection[str]) -> Cuts:
    """Nothing from any source arrives at any target."""
    return frozenset((src, dst) for src in sources for dst in targets if src != dst)


def both_ways(left: Collection[str], right: Collection[str]) -> Cuts:
    """No packet passes between the two, in either direction."""
    return one_way(left, right) | one_way(right, left)


def halves(group: Collection[str], nodes: Sequence[str]) -> Cuts:
    """``group`` on one side, everybody else on the other: a complete partition."""
    return both_ways(group, _rest(group, nodes))


def isolate(group: Collection[str], nodes: Sequence[str]) -> Cuts:
    """Every node of ``group`` is alone, even from the others of the group."""
    return both_ways(group, nodes)


def bridge(middle: str, left: Collection[str], right: Collection[str]) -> Cuts:
    """Two sides that see each other only through ``middle``, which is in neither."""
    if middle in left or middle in right:
        raise ValueError(f"the bridge {middle} stands on a side")
    return both_ways(left, right)


def majorities_ring(ring: Sequence[str]) -> Cuts:
    """Each node keeps two-way links to its nearest neighbours on the ring, just enough for a majority of its own.

    From 4 nodes on the majorities differ; with fewer nothing would be cut.
    """
    reach = quorum(len(ring)) // 2  # neighbours on each side: 1 + 2 * reach >= quorum
    count = len(ring)
    cut = set()
    for i, src in enumerate(ring):
        for j, dst in enumerate(ring):
            if min((i - j) % count, (j - i) % count) > reach:
                cut.add((src, dst))
    return frozenset(cut)


def one_link(a: str, b: str) -> Cuts:
    """One link only, both directions: a partial partition."""
    return both_ways((a,), (b,))


def one_way_in(group: Collection[str], nodes: Sequence[str]) -> Cuts:
    """Each of ``group`` is deaf: it sends, but hears no node."""
    return one_way(nodes, group)


def one_way_out(group: Collection[str], nodes: Sequence[str]) -> Cuts:
    """Each of ``group`` is mute: it hears, but no node hears it."""
    return one_way(group, nodes)


def chain(order: Sequence[str]) -> Cuts:
    """Only neighbours in ``order`` are linked; the ends cannot talk."""
    linked = {frozenset(pair) for pair in itertools.pairwise(order)}
    return frozenset((a, b) for a in order for b in order if a != b and frozenset((a, b)) not in linked)


def hub(centre: str, nodes: Sequence[str]) -> Cuts:
    """Everyone sees only the hub."""
    rest = _rest((centre,), nodes)
    return both_ways(rest, rest)


def from_leader(group: Collection[str], leader: str) -> Cuts:
    """Each of ``group`` and the leader hear nothing of each other; all other links stand."""
    return both_ways(group, (leader,))


def constrained(candidate: str, leader: str, nodes: Sequence[str]) -> Cuts:
    """The leader is alone, and of the others only the candidate reaches a majority: no other node can be elected."""
    if candidate == leader:
        raise ValueError(f"the leader {leader} cannot be the one that shall succeed it")
    return isolate((leader,), nodes) | hub(candidate, _rest((leader,), nodes))


def _rest(group: Collection[str], nodes: Sequence[str]) -> list[str]:
    return [node for node in nodes if node not in group]
