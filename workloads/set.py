"""set: clients add unique elements to a few sets and read whole sets back; in the end every set is read once more.

    add     value [set, v]   ok: None
    read    value set        ok: all of its elements

Guarantees: no element is ever added twice in a run, so every acknowledged one can be accounted for. Out of scope:
judging, and removing.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.interfaces import Generator
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.generators import numbered_writes
from dethrone.workloads.log import FinalReads

SETS = ("s0", "s1")
"""The first ones. Few, so that each read shows many adds."""

ADDS, READS = 3, 1
"""Weights of the two operations: a read is as long as the set."""


class SetWorkload(Base):
    name = "set"
    ops = frozenset({"add", "read"})
    shows = "set"
    keys_retire = True
    rate = 20

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Adds and reads, endlessly."""
        del processes, rate_per_s  # the asker's pace
        return numbered_writes(rng, nodes=nodes, f="add", keys=SETS, named="sets", writes=ADDS, reads=READS)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """Each process reads every set once, through one node after another until it is answered."""
        return FinalReads(rng, nodes=nodes, processes=processes, keys=SETS, used=used)


WORKLOAD = SetWorkload()
