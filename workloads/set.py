"""set: clients add unique elements to a few sets and read whole sets back; in the end every set is read once more.

    add     value [set, v]   ok: None
    read    value set        ok: all of its elements

Promises: no element is ever added twice in a run, so every acknowledged one can be accounted for. Leaves out judging,
and removing.
"""

from __future__ import annotations

from harness.core.protocols import ClusterView, Generator, OpPlan
from harness.core.rng import Rng
from workloads.generators import Mix, Targets
from workloads.log import FinalReads

SETS = ("s0", "s1")
"""Few, so that each read tells of many adds."""

ADDS, READS = 3, 1
"""Weights of the two operations: a read is as long as the set."""


class SetWorkload:
    """See ``harness.core.protocols.Workload``."""

    name = "set"

    def needs(self) -> frozenset[str]:
        """Add and read."""
        return frozenset({"add", "read"})

    def processes(self, nodes: int) -> int:
        """Two a node, six at least."""
        return max(6, 2 * nodes)

    def rate_per_s(self) -> int:
        """Twenty over all processes."""
        return 20

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Adds and reads, endlessly."""
        del processes, rate_per_s  # the asker's pace
        targets = Targets(rng.stream("targets"), nodes)
        sets = rng.stream("sets")
        last = 0

        def add(view: ClusterView) -> OpPlan:
            nonlocal last
            last += 1
            return OpPlan(f="add", value=[sets.choice(SETS), last], target=targets.choose(view))

        def read(view: ClusterView) -> OpPlan:
            return OpPlan(f="read", value=sets.choice(SETS), target=targets.choose(view))

        return Mix(rng.stream("mix"), ((ADDS, add), (READS, read)), targets)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Each process reads every set once, through one node after another until it is answered."""
        return FinalReads(rng, nodes=nodes, processes=processes, keys=SETS)


WORKLOAD = SetWorkload()
