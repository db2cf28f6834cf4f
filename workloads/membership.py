"""membership: the workload log, while one client removes members and adds them again, one at a time.

    reconfigure  value ["remove" or "add", node]   ok: None, once the final configuration is committed

Members are removed, and some of them added again, during every second fault; once nothing is wrong with any host, all
are members again, so that what is owed to the whole cluster can be judged in quiet times and during the other faults.
While no fault was seen at all, they are removed and added in turn. A removed node keeps running. Guarantees: a majority
of the nodes, at least two, stay members; one change at a time. Out of scope: nodes that are new to the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.quorum import quorum
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.generators import Targets
from dethrone.workloads.log import WORKLOAD as LOG
from dethrone.workloads.log import FinalReads

PAUSE_NS = 400 * MS
"""Between two changes while a fault is in force, and before a refused one is tried again."""

CALM_PAUSE_NS = 5 * SECOND
"""Between two changes while no fault was seen yet."""


class MembershipWorkload(Base):
    name = "membership"
    ops = LOG.ops | {"reconfigure"}
    shows = LOG.shows
    keys_retire = True
    rate = LOG.rate

    def processes(self, nodes: int) -> int:
        """Those of the log, and one for the members."""
        return LOG.processes(nodes) + 1

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Process 0 changes the members, the others append and read."""
        log = LOG.main(rng.stream("log"), nodes=nodes, processes=processes, rate_per_s=rate_per_s)
        return _Changes(rng, nodes=nodes, processes=processes, log=log)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """Each process reads every list once."""
        return FinalReads(rng, nodes=nodes, processes=processes, used=used)


class _Changes:
    """See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, log: Generator) -> None:
        self._rng = rng.stream("members")
        self._targets = Targets(rng.stream("targets"), nodes)
        self._nodes = nodes
        self._processes = max(1, processes)
        self._log = log
        self._away: list[str] = []
        """Nodes that are removed, or may be; the oldest first."""
        self._rest_until: Ns = 0
        self._faults_seen = 0
        """How many times something was wrong with some host, and nothing before."""
        self._faulty = False

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """The next change for process 0, the log's next for the others."""
        if process % self._processes:
            return self._log.next(process, now, view)
        faulty = any(not state.healthy for state in view.state.values())
        self._faults_seen += faulty and not self._faulty
        self._faulty = faulty
        calm = not self._faults_seen
        if now < self._rest_until:
            return min(self._rest_until, now + PAUSE_NS)
        self._rest_until = now + (CALM_PAUSE_NS if calm else PAUSE_NS)
        changes = faulty and self._faults_seen % 2 == 1
        spare = len(self._nodes) - max(2, quorum(len(self._nodes))) - len(self._away)
        removes = spare > 0 and ((changes and self._rng.chance(1, 2)) or (calm and not self._away))
        target = self._targets.likely_leader(view) or self._rng.choice(self._nodes)
        if removes:
            node = self._rng.choice([name for name in self._nodes if name not in self._away])
            self._away.append(node)
            return OpPlan(f="reconfigure", value=["remove", node], target=target)
        if self._away and (not changes or self._rng.chance(2, 3)):
            return OpPlan(f="reconfigure", value=["add", self._away[0]], target=target)
        return self._rest_until

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Keep count of who is a member. An addition is tried until it is done, or refused because it was done."""
        if op.f != "reconfigure":
            self._log.returned(process, op, result)
            return
        self._targets.learn(result)
        kind, node = op.value
        done = result.status == "ok" or (result.error or "").endswith("is a voter already")
        if (kind == "remove" and result.status == "fail") or (kind == "add" and done):
            self._forget(node)
        elif kind == "add" and node in self._away:
            self._away.append(self._away.pop(self._away.index(node)))  # the next one first: this may be out of reach

    def _forget(self, node: str) -> None:
        if node in self._away:
            self._away.remove(node)


WORKLOAD = MembershipWorkload()
