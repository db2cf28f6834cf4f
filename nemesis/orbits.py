"""Every way to cut links, up to symmetry: all graphs of cut links between a leader and other nodes that are alike.

Places are numbers: 0 is the leader, the others are interchangeable, so graphs that differ only in which of the others
is which are one (an *orbit*), and one of them stands for all. Of 3 nodes there are 6 where links are cut both ways, of
4 nodes 20, of 5 nodes 90; where each direction is cut by itself 36 of 3 nodes and 752 of 4.

Guarantees: pure; each orbit once, fewest cuts first, number 0 cuts nothing; numbers never change. Out of scope: which
node takes which place, and more nodes: their graphs are too many to play.
"""

from __future__ import annotations

import functools
import itertools
import re

import msgspec

from dethrone.harness.core.errors import ConfigError

NODES_MIN = 3
NODES_MAX, NODES_MAX_ONE_WAY = 5, 4

Places = frozenset[tuple[int, int]]
"""Directed links between places that carry nothing."""

_NAME = re.compile(r"(\d)(-one-way)?:(\d{1,4})")


class Orbit(msgspec.Struct, frozen=True):
    """One graph by its name: the number of its nodes, whether directions are cut by themselves, and its number."""

    nodes: int
    one_way: bool
    number: int

    def __str__(self) -> str:
        """``5:17``, ``3-one-way:4``."""
        return f"{self.nodes}{'-one-way' if self.one_way else ''}:{self.number}"

    @property
    def cuts(self) -> Places:
        """Its directed cuts."""
        return graphs(self.nodes, one_way=self.one_way)[self.number]


def orbits(nodes: int, *, one_way: bool = False) -> tuple[Orbit, ...]:
    """The names of all that cut something. ConfigError: there are too many, or none."""
    return tuple(Orbit(nodes, one_way, number) for number in range(1, len(graphs(nodes, one_way=one_way))))


def read(text: object) -> Orbit:
    """The graph of this name. ConfigError: there is none, or it cuts nothing."""
    match = _NAME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(f"{text!r:.60} is no graph of cut links", next_step="write graph = 5:17, or 3-one-way:4")
    orbit = Orbit(int(match[1]), match[2] is not None, int(match[3]))
    count = len(graphs(orbit.nodes, one_way=orbit.one_way))
    if not 0 < orbit.number < count:
        raise ConfigError(f"there is no graph {orbit}", next_step=f"numbers are 1 to {count - 1}; 0 cuts nothing")
    return orbit


@functools.cache
def graphs(nodes: int, *, one_way: bool = False) -> tuple[Places, ...]:
    """One graph of each orbit, as directed cuts, fewest links first; the first one cuts nothing."""
    most = NODES_MAX_ONE_WAY if one_way else NODES_MAX
    if not NODES_MIN <= nodes <= most:
        raise ConfigError(
            f"the graphs of cut links of {nodes} nodes are not enumerated",
            cause=f"they are for {NODES_MIN} to {most} voting nodes{' where directions are cut apart' * one_way}",
            next_step=f"give --nodes {most}",
        )
    pairs = itertools.permutations(range(nodes), 2) if one_way else itertools.combinations(range(nodes), 2)
    links = tuple(pairs)
    found = [mask for mask in range(1 << len(links)) if _stands_for_all(mask, links, nodes, one_way=one_way)]
    found.sort(key=lambda mask: (mask.bit_count(), mask))
    return tuple(_directed(mask, links, one_way=one_way) for mask in found)


def _stands_for_all(mask: int, links: tuple[tuple[int, int], ...], nodes: int, *, one_way: bool) -> bool:
    """Whether no renumbering of the others makes a smaller number of it."""
    return all(
        mask <= sum(1 << bit for position, bit in enumerate(moved) if mask >> position & 1)
        for moved in _moves(links, nodes, one_way)
    )


@functools.cache
def _moves(links: tuple[tuple[int, int], ...], nodes: int, one_way: bool) -> tuple[tuple[int, ...], ...]:  # noqa: FBT001
    """For each order of the others: where each link goes."""
    at = {link: position for position, link in enumerate(links)}
    out = []
    for others in itertools.permutations(range(1, nodes)):
        to = (0, *others)
        images = ((to[a], to[b]) for a, b in links)
        out.append(tuple(at[image if one_way or image in at else image[::-1]] for image in images))
    return tuple(out)


def _directed(mask: int, links: tuple[tuple[int, int], ...], *, one_way: bool) -> Places:
    chosen = [link for position, link in enumerate(links) if mask >> position & 1]
    return frozenset(chosen) if one_way else frozenset(pair for a, b in chosen for pair in ((a, b), (b, a)))
