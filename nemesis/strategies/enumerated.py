"""What strategies share that play a list in parts instead of drawing: graphs of cut links, shapes, restarts, pauses.

Each entry is one step. A run plays as many as its time limit allows; the run of seed k plays part k, so that the seeds
0, 1 … of a campaign play the whole list, in any order and as often as it was interrupted. Guarantees: pure; the list
depends on the number of voting nodes and the promise only. Out of scope: which followers take which places, which
the run draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.nemesis.faults import partition
from dethrone.nemesis.strategies.pacing import pace_of

KIND = partition.FAULT.kind
Entry = tuple[PlannedFault, ...]
"""The faults of one step."""


class EnumeratedStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """See ``Strategy``, ``Informed`` and ``Enumerating`` of ``dethrone.harness.core.interfaces``.

    ``outsiders``: nodes that do not vote; ``number``: of the part.
    """

    name: str
    outsiders: int = 0
    number: int = 0
    kinds: frozenset[str] = frozenset({KIND})

    def entries(self, nodes: int, hold_ns: Ns, promise: Promise) -> Sequence[Entry]:
        """The list for this number of voting nodes, of faults that hold for so long."""
        raise NotImplementedError

    def informed(
        self, *, observable: frozenset[str], operations: frozenset[str], outsiders: int = 0
    ) -> EnumeratedStrategy:
        """The same where this number of nodes does not vote."""
        del observable, operations  # it waits for no event
        return msgspec.structs.replace(self, outsiders=outsiders)

    def part(self, number: int) -> EnumeratedStrategy:
        """See ``Enumerating``."""
        return msgspec.structs.replace(self, number=number)

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """The part of the list. ConfigError: the time limit is shorter than one fault, or the nodes do not fit."""
        if promise.leaderless:
            raise ConfigError(f"the strategy {self.name!r} needs a system with a leader", next_step="choose another")
        pace = pace_of(time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise)
        entries = self.entries(nodes - self.outsiders, interval_ns, promise)
        size = pace.slots()
        parts = -(-len(entries) // size)
        part = self.number % parts
        for planned in (fault for entry in entries for fault in entry):
            faults[planned.kind].check(planned, nodes=nodes)
        gap_ns = max(1, interval_ns // 3) if pace.hasty else interval_ns
        return Schedule(
            seed=rng.seed,
            strategy=f"{self.name}, part {part + 1} of {parts}",
            steps=tuple(Step(faults=entry, gap_ns=gap_ns) for entry in entries[part * size : (part + 1) * size]),
            health_bound_ns=pace.health_bound_ns,
        )
