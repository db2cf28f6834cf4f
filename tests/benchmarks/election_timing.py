"""Elections timed one by one in the simulated world: a leader's process ends, and how long until the next one leads.

For figures that others publish about election times. It meets the world as the director does, through its actions and
happenings, but leaves the director out: no schedule, no checkers, no status questions in between. Promises: the same
set-up and seed give the same times; a moment is the node's own, not the harness'; who waits in vain is censored at the
horizon and counted as such. Leaves out what the times should be (``tests/benchmarks/bench_elections.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ClusterError, ConfigError
from dethrone.harness.core.hoststate import HEALTHY, DiskTrouble, HostState
from dethrone.harness.core.interfaces import OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.world import (
    Converge,
    ConvergeDone,
    Happening,
    HostSaid,
    InvokeOp,
    OpDone,
    StartNodes,
    Traces,
    VirtualBackend,
    VirtualWorld,
)
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft

LOOK_NS = 20 * MS
"""How far the clock moves between two looks; it changes no figure, since happenings carry their own moments."""

CALM_LIMIT_NS = 600 * SECOND
UNOBSERVED_NS = 3600 * SECOND
"""Between two status questions to a node: none is needed."""

AT_ONCE = {"sim.command_us": "0", "sim.kill_ms": "0", "sim.trace_us": "0"}
"""An order to a host takes no time, so that its moment is the one that was drawn."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How elections are made.

    ``crash_within_ns``: the leader's process ends at a uniform moment of so long, a heartbeat interval. ``behind``: so
    many followers hear the leader but lack all of its log, so they can win no vote of those who have it: each was wiped
    while down, and since then nothing that it sends arrives at the leader, who thus does not mend it. ``calm_ns``: so
    long nothing may be elected before the next crash. ``horizon_ns``: when waiting for a leader is given up.
    """

    options: RunOptions
    crash_within_ns: Ns
    behind: int = 0
    calm_ns: Ns = SECOND
    horizon_ns: Ns = 20 * SECOND


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """``took_ns``: from the end of the leader's process to the next leader's election, by the witness of that node.

    ``terms``: how many terms that took, 1 where the first to stand won; 0, and ``took_ns`` the horizon: nobody was
    elected.
    """

    took_ns: Ns
    terms: int


def elections(setup: Setup, *, seed: int, count: int, world_of: int = 50) -> list[Election]:
    """``count`` elections, every ``world_of`` of them in a world of its own. ConfigError where none can be made."""
    out: list[Election] = []
    number = 0
    while len(out) < count:
        stage = _Stage(setup, seed=seed + number)
        out += [stage.election() for _ in range(min(world_of, count - len(out)))]
        number += 1
    return out


class _Stage:
    """One world, election after election."""

    def __init__(self, setup: Setup, *, seed: int) -> None:
        self.setup = setup
        options = setup.options
        drafted = draft(
            msgspec.structs.replace(options, backend="sim", faults=(), settings={**AT_ONCE, **options.settings}),
            seed=seed,
        )
        plan = msgspec.structs.replace(drafted.plan, observe_interval_ns=UNOBSERVED_NS)
        if not isinstance(drafted.backend, VirtualBackend):
            raise ConfigError("elections are timed in virtual time only", next_step="use the backend sim")
        if plan.nodes != plan.voters or setup.behind > (len(plan.nodes) - 1) // 2:
            raise ConfigError(
                f"{setup.behind} of {len(plan.nodes)} nodes behind, {len(plan.voters)} of them voters",
                next_step="keep a majority with the whole log, and only voters behind",
            )
        self.nodes = plan.nodes
        self.rng = Rng(seed).stream("crashes")
        self.world: VirtualWorld = drafted.backend.world(drafted.system, plan)
        self.states: dict[str, HostState] = dict.fromkeys(self.nodes, HEALTHY)
        self.token = 0
        self.op = 0
        self.elected: tuple[Ns, str, int] = (0, "", 0)
        """The newest election: when, who, in which term; term 0: nobody was elected yet."""
        self.term_seen = 0
        """The highest term that any node was in: above the newest leader's while somebody campaigns."""
        self.died: dict[str, Ns] = {}
        """Node → when its process last ended."""
        self.over: set[int] = set()
        """Orders that are carried out, and (negative) operations that ended."""
        self.world.submit(StartNodes())

    def election(self) -> Election:
        """Calm, the set-up, a crash, and the wait for a successor; then all is healed."""
        setup = self.setup
        self._calm()
        if setup.behind:
            self._leave_behind()
        self._pass(self.rng.below(setup.crash_within_ns))
        _, leader, before = self.elected
        down = msgspec.structs.replace(self.states[leader], down="SIGKILL")
        self._converge({leader: down})
        died = self.died[leader]
        self._until(lambda: self.elected[2] > before, died + setup.horizon_ns)
        at, _, term = self.elected
        self._converge(dict.fromkeys(self.nodes, HEALTHY))
        if term == before:
            return Election(took_ns=setup.horizon_ns, terms=0)
        return Election(took_ns=at - died, terms=term - before)

    # --- the stage ------------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Wait until nobody stood or was elected for a while. ClusterError: that does not come about."""
        give_up = self.world.now() + CALM_LIMIT_NS
        while not self._led() or self.world.now() < self.elected[0] + self.setup.calm_ns:
            if self.world.now() > give_up:
                raise ClusterError("the cluster does not settle", next_step="lengthen its election timeouts")
            self._pass(LOOK_NS)

    def _led(self) -> bool:
        """Whether the newest term that anybody is in has its leader."""
        return self.elected[2] == self.term_seen > 0

    def _leave_behind(self) -> None:
        """Some followers lose their logs and cannot tell the leader; repeated if somebody else leads after that."""
        while True:
            _, leader, term = self.elected
            self._write(leader)
            behind = self.rng.sample([node for node in self.nodes if node != leader], self.setup.behind)
            wiped = HostState(down="SIGKILL", disk=DiskTrouble(kind="wiped"))
            self._converge({leader: HostState(cuts=tuple(sorted(behind))), **dict.fromkeys(behind, wiped)})
            self._converge(dict.fromkeys(behind, HEALTHY))
            self._pass(self.setup.calm_ns)
            if self.elected[2] == term and self._led():
                return
            self._converge(dict.fromkeys(self.nodes, HEALTHY))
            self._calm()

    def _write(self, leader: str) -> None:
        """Something in the log, and time for every node to get it."""
        self.op += 1
        number = self.op
        plan = OpPlan(f="append", value=["elections", number], target=leader)
        self.world.submit(InvokeOp(op=number, thread=0, plan=plan, timeout_ns=SECOND))
        self._until(lambda: -number in self.over, self.world.now() + 2 * SECOND)
        self._pass(self.setup.calm_ns)

    def _converge(self, changes: Mapping[str, HostState]) -> None:
        self.token += 1
        token = self.token
        before = {name: self.states[name] for name in changes}
        self.states.update(changes)
        self.world.submit(Converge(token, before, dict(changes)))
        self._until(lambda: token in self.over, self.world.now() + 60 * SECOND)

    # --- time -----------------------------------------------------------------------------------------------------

    def _pass(self, length: Ns) -> None:
        self._until(lambda: False, self.world.now() + length)

    def _until(self, true: Callable[[], bool], limit: Ns) -> None:
        """Let time pass until that is true, or to ``limit``."""
        world = self.world
        while not true() and (now := world.now()) < limit:
            for happening in world.wait(min(limit, now + LOOK_NS)):
                self._hear(happening)

    def _hear(self, happening: Happening) -> None:
        if isinstance(happening, Traces):
            for _, name, term, _, source, _, _ in happening.lines:
                self.term_seen = max(self.term_seen, term)
                if name == "elected" and source == "shell" and term > self.elected[2]:
                    self.elected = (happening.span.hi, happening.node, term)
        elif isinstance(happening, ConvergeDone):
            self.over.add(happening.token)
        elif isinstance(happening, OpDone):
            self.over.add(-happening.op)
        elif isinstance(happening, HostSaid) and happening.news.kind == "exited":
            self.died[happening.news.host] = happening.news.span.hi
