"""What the workloads share: how many clients do what, how often, and reads that go round the nodes in the end.

Guarantees: pure and deterministic, as the generators are. Out of scope: what operations mean.
"""

from __future__ import annotations

from typing import ClassVar

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.shown import Shape
from dethrone.workloads.generators import Targets

FINAL_ROUNDS_MAX = 25
"""How often a final read goes round all nodes before it is given up."""

FINAL_PAUSE_NS = 200 * MS
"""Between two rounds of one final read."""


class Base:
    """The constant part of a ``dethrone.harness.core.interfaces.Workload``."""

    ops: ClassVar[frozenset[str]]
    """Operations that the system's clients must serve."""
    per_node: ClassVar[int] = 2
    """Client processes; more than one a node lets operations overlap at every node."""
    least: ClassVar[int] = 6
    """Client processes of a small cluster: some must be free while others wait for nodes that are cut off."""
    shows: ClassVar[Shape | None] = None
    """What its reads show of an object: all of a list or set that grows, or anything else (None)."""
    keys_retire: ClassVar[bool] = False
    """Whether its keys retire, so that ``final`` gets those that were used."""
    rate: ClassVar[int]
    """Operations a second over all processes."""

    def needs(self) -> frozenset[str]:
        """Its operations."""
        return self.ops

    def processes(self, nodes: int) -> int:
        """As many as that for each node, and never fewer than the least."""
        return max(self.least, self.per_node * nodes)

    def rate_per_s(self) -> int:
        """The rate."""
        return self.rate


class Round:
    """The nodes that each process asks in turn about one thing, until it is answered: the leader first."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> None:
        self._nodes = nodes
        self._targets = Targets(rng.stream("targets"), nodes)
        self._tries = dict.fromkeys(range(processes), 0)
        self._rest_until: dict[int, Ns] = dict.fromkeys(range(processes), 0)

    def ask(self, who: int, now: Ns, view: ClusterView, f: str, value: object) -> OpPlan | Ns:
        """The question to the next node; a moment to wait for, after each fruitless round."""
        if now < self._rest_until[who]:
            return self._rest_until[who]
        leader = self._targets.likely_leader(view)
        order = sorted(self._nodes, key=lambda node: node != leader)  # sorting is stable
        tries = self._tries[who]
        if tries and tries % len(order) == 0:
            self._rest_until[who] = now + FINAL_PAUSE_NS
        return OpPlan(f=f, value=value, target=order[tries % len(order)])

    def learn(self, result: Return) -> None:
        """Learn from the answer whom to ask next."""
        self._targets.learn(result)

    def over(self, who: int, result: Return, *, mine: bool) -> bool:
        """Whether the question of this process is answered now, or given up. ``mine``: it is the one that returned."""
        self._tries[who] += 1
        given_up = self._tries[who] >= FINAL_ROUNDS_MAX * len(self._nodes)
        if not mine or not (result.status == "ok" or given_up):
            return False
        self._tries[who] = 0
        return True
