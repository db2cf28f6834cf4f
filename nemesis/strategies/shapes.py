"""The strategy ``shapes``: every shape of a partition, around each of its victims, and what several cuts make up.

The latter are the constrained election with its staging, flapping, and healing one by one. Guarantees: as
``enumerated``. Out of scope: the shapes themselves (``dethrone.nemesis.shapes``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import AfterFault, PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.faults import partition
from dethrone.nemesis.strategies.enumerated import KIND, Entry, EnumeratedStrategy

FLAPS = 4
"""How often a link that flaps fails within a step; half of the time it works."""


class ShapesStrategy(EnumeratedStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    name: str = "shapes"

    def entries(self, nodes: int, hold_ns: Ns, promise: Promise) -> Sequence[Entry]:
        """Every shape that this number of nodes allows, around each of the victims that are drawn for it."""
        del promise  # the list is the same for every system
        plain = [
            (_cut(name, victims, hold_ns),)
            for name, shape in partition.SHAPES.items()
            if nodes >= shape.nodes_min and shape.weight
            for victims in shape.draws
            if shape.whole or 0 < selectors.size(selectors.parse(victims), nodes) < nodes
        ]
        staged = [constrained_election(hold_ns)] if nodes >= partition.SHAPES["constrained"].nodes_min else []
        several = [flapping(hold_ns), *([healed_one_by_one(nodes, hold_ns)] if nodes > 2 else [])] if nodes > 1 else []
        return [*plain, *staged, *several]


def constrained_election(hold_ns: Ns) -> Entry:
    """A follower loses the leader, and so falls behind; then only that follower can still reach a majority.

    A majority of the nodes knows more than the only node that they could elect. Source: Ng et al., "Omni-Paxos", 2023.
    """
    behind_ns = hold_ns // 3
    return (
        _cut("from-leader", "follower", hold_ns, name="behind"),
        msgspec.structs.replace(
            _cut("constrained", "hit-by:behind", hold_ns - behind_ns),
            when=AfterFault(fault="behind"),
            delay_ns=behind_ns,
        ),
    )


def flapping(hold_ns: Ns) -> Entry:
    """The links of the leader fail and return, again and again; also once another node leads."""
    period_ns = max(2, hold_ns // FLAPS)
    first = _cut("isolate", "leader", period_ns // 2, name="flap")
    again = [
        msgspec.structs.replace(
            _cut("isolate", "hit-by:flap", period_ns // 2), when=AfterFault(fault="flap"), delay_ns=number * period_ns
        )
        for number in range(1, FLAPS)
    ]
    return (first, *again)


def healed_one_by_one(nodes: int, hold_ns: Ns) -> Entry:
    """No link works, then the nodes return one after another: the first majority meets without the others."""
    return tuple(
        _cut("isolate", f"node:n{number}", hold_ns // 2 + hold_ns * (number - 1) // (2 * (nodes - 1)))
        for number in range(1, nodes)
    )


def _cut(shape: str, victims: str, hold_ns: Ns, *, name: str = "") -> PlannedFault:
    return PlannedFault(kind=KIND, victims=victims, hold_ns=max(1, hold_ns), params={"shape": shape}, name=name)


STRATEGY = ShapesStrategy()
