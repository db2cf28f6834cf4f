"""log: clients append unique values to a few lists and read them back; in the end every list is read once more.

    append  value [key, v]   ok: {"index": …, "term": …} of the entry, None where the system does not say
    read    value key        ok: the list of values, in the order in which they were appended

Guarantees: no value is ever used twice in a run, so every acknowledged write can be accounted for. Out of scope:
judging.
"""

from __future__ import annotations

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.generators import Targets, numbered_writes

KEYS = ("k0", "k1", "k2", "k3", "k4")
"""Few, so that each list shows the order of many writes."""

APPENDS, READS = 3, 2
"""Weights of the two operations."""

FINAL_ROUNDS_MAX = 25
"""How often a final read goes round all nodes before it is given up."""

FINAL_PAUSE_NS = 200 * MS
"""Between two rounds of one final read."""


class LogWorkload:
    """See ``dethrone.harness.core.interfaces.Workload``."""

    name = "log"

    def needs(self) -> frozenset[str]:
        """Append and read."""
        return frozenset({"append", "read"})

    def processes(self, nodes: int) -> int:
        """One a node, three at least: some must be free while others wait for nodes that are cut off."""
        return max(3, nodes)

    def rate_per_s(self) -> int:
        """Twenty over all processes."""
        return 20

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Appends and reads, endlessly."""
        del processes, rate_per_s  # the asker's pace
        return numbered_writes(rng, nodes=nodes, f="append", keys=KEYS, named="keys", writes=APPENDS, reads=READS)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Each process reads every list once, through one node after another until it is answered."""
        return FinalReads(rng, nodes=nodes, processes=processes)


class FinalReads:
    """Reads of every key by every process; ends by itself. See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(
        self, rng: Rng, *, nodes: tuple[str, ...], processes: int, keys: tuple[str, ...] = KEYS, f: str = "read"
    ) -> None:
        self._f = f
        self._nodes = nodes
        self._processes = max(1, processes)
        self._targets = Targets(rng.stream("targets"), nodes)
        self._left = {p: rng.stream(f"keys-{p}").shuffle(keys) for p in range(self._processes)}
        self._tries = dict.fromkeys(range(self._processes), 0)
        self._rest_until: dict[int, Ns] = dict.fromkeys(range(self._processes), 0)

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """The next read of this process; a pause after each fruitless round; None when it has read everything."""
        who = process % self._processes
        if not self._left[who]:
            return None
        if now < self._rest_until[who]:
            return self._rest_until[who]
        leader = self._targets.likely_leader(view)
        order = sorted(self._nodes, key=lambda node: node != leader)  # the leader first; sorting is stable
        target = order[self._tries[who] % len(order)]
        if self._tries[who] and self._tries[who] % len(order) == 0:
            self._rest_until[who] = now + FINAL_PAUSE_NS
        return OpPlan(f=self._f, value=self._left[who][0], target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """On to the next key once this one was read, or after the last round."""
        who = process % self._processes
        self._targets.learn(result)
        self._tries[who] += 1
        done = result.status == "ok" or self._tries[who] >= FINAL_ROUNDS_MAX * len(self._nodes)
        if done and self._left[who] and self._left[who][0] == op.value:
            self._left[who].pop(0)
            self._tries[who] = 0


WORKLOAD = LogWorkload()
