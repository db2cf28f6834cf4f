"""Small parts of which workloads make their generators.

Guarantees: pure and deterministic in the seed and the order of calls. Pacing is not theirs: the caller decides how
often. Process numbers may grow (a client whose operation ended unknown continues under a new number, that many
processes higher), so a process is known by ``number % processes``. Out of scope: what operations mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.keys import Keys

LEADER_PERCENT = 70
"""Share of operations that go to the node believed to lead; the rest go to any node, cut off or not."""


class Nothing:
    """No operation at all."""

    def next(self, process: int, now: Ns, view: ClusterView) -> None:
        """No more of this phase."""

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Never called."""


class Targets:
    """Chooses the node to ask: mostly the last one known to lead, sometimes any other."""

    def __init__(self, rng: Rng, nodes: Sequence[str]) -> None:
        self._rng = rng
        self._nodes = tuple(nodes)
        self._answered: str | None = None

    def likely_leader(self, view: ClusterView) -> str | None:
        """The leader seen now, else the node that carried out the last operation."""
        return view.leader or self._answered

    def choose(self, view: ClusterView) -> str:
        """A node of the cluster."""
        leader = self.likely_leader(view)
        if leader is not None and self._rng.chance(LEADER_PERCENT, 100):
            return leader
        return self._rng.choice(self._nodes)

    def learn(self, result: Return) -> None:
        """Remember who carried out an operation; forget it when it no longer does."""
        if result.status == "ok" and result.node in self._nodes:
            self._answered = result.node
        elif result.status != "ok" and result.node == self._answered:
            self._answered = None


Maker = Callable[[ClusterView], OpPlan]


class Mix:
    """For each call one of several makers of operations, by weight; endless."""

    def __init__(self, rng: Rng, makers: Sequence[tuple[int, Maker]], targets: Targets) -> None:
        self._rng = rng
        self._weighted = tuple(maker for weight, maker in makers for _ in range(weight))
        self._targets = targets

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """An operation for whichever process asks."""
        del process, now
        return self._rng.choice(self._weighted)(view)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Learn from the answer whom to ask next."""
        del process, op
        self._targets.learn(result)


def numbered_writes(
    rng: Rng, *, nodes: Sequence[str], f: str, keys: Sequence[str], named: str, writes: int, reads: int
) -> Mix:
    """Writes ``f`` of ``[key, n]``, with n = 1, 2, 3 … over all keys, and reads of a key, by these weights.

    ``keys``: the first ones (``dethrone.workloads.keys``). ``named``: the stream of ``rng`` that draws the keys.
    """
    targets = Targets(rng.stream("targets"), nodes)
    drawn, known = rng.stream(named), Keys(keys)
    last = 0

    def write(view: ClusterView) -> OpPlan:
        nonlocal last
        last += 1
        return OpPlan(f=f, value=[known.choose(drawn), last], target=targets.choose(view))

    def read(view: ClusterView) -> OpPlan:
        return OpPlan(f="read", value=known.choose(drawn), target=targets.choose(view))

    return Mix(rng.stream("mix"), ((writes, write), (reads, read)), targets)
