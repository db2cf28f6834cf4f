"""A cluster that exists only in a heap: one leader, obedient hosts. Drives the director in virtual time."""

import heapq
import itertools

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import Evidence, HostNews, OpOutcome, OpPlan, Reading, TraceLine, Yes
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.engine.run.planning import Draft

NODES = ("n1", "n2", "n3")


class FakeSystem:
    name = "fake"

    def trace(self, line):
        return msgspec.json.decode(line, type=TraceLine)

    def fault_support(self, kind):
        return Yes()


class Freeze:
    kind = "freeze"

    def resolve(self, fault, view, rng):
        return ((view.leader,), {}) if view.leader else "no leader"

    def apply(self, state, victims, params):
        out = dict(state)
        for victim in victims:
            out[victim] = msgspec.structs.replace(out[victim], frozen=True)
        return out


class Appends:
    """Endless appends, then one read a process."""

    name = "log"

    def main(self, rng, **_):
        numbers = itertools.count(1)

        class Main:
            def next(self, process, now, view):
                return OpPlan(f="append", value=["k", next(numbers)], target="n1")

            def returned(self, process, op, result):
                pass

        return Main()

    def final(self, rng, *, nodes, processes):
        todo = list(range(processes))

        class Final:
            def next(self, process, now, view):
                return OpPlan(f="read", value="k", target="n1") if todo and (todo.pop() or True) else None

            def returned(self, process, op, result):
                pass

        return Final()


def draft(*, steps=2, hold=2 * SECOND, limit=12 * SECOND, processes=2, stop_early=False):
    promise = Promise(
        system="fake",
        profile="fake",
        source="tests",
        election_timeout_ns=300 * MS,
        heartbeat_ns=50 * MS,
        leader_bound_ns=2 * SECOND,
        later_gap_ns=2 * SECOND,
        tiers=("T1",),
    )
    fault = PlannedFault(kind="freeze", victims="leader", hold_ns=hold)
    plan = Plan(
        system="fake",
        backend="fake",
        profile="fake",
        variant=None,
        nodes=NODES,
        voters=NODES,
        knobs={},
        seed=1,
        time_limit_ns=limit,
        workload=WorkloadPlan(name="log", processes=processes, rate_per_s=50, op_timeout_ns=SECOND),
        schedule=Schedule(
            seed=1, strategy="test", steps=tuple(Step(faults=(fault,), gap_ns=SECOND) for _ in range(steps))
        ),
        promise=promise,
        observable=("observed", "ops"),
        observe_interval_ns=80 * MS,
        final_read_ns=5 * SECOND,
        stop_at_first_failure=stop_early,
    )
    return Draft(plan=plan, system=FakeSystem(), backend=None, workload=Appends(), faults={"freeze": Freeze()})


class FakeWorld:
    """Hosts that do what they are told after 3 ms; polls each 80 ms; ops in 1 ms. ``script``: (time, happening)."""

    def __init__(self, script=(), *, leads="n1", answers=NODES, converge_fails=lambda want: False):
        self.time = 0
        self.heap = []
        self.order = itertools.count()
        self.state = healthy_cluster(NODES)
        self.leads = leads
        self.answers = answers
        self.converge_fails = converge_fails
        self.log = []
        for at, happening in script:
            self.push(at, happening)

    def push(self, at, what):
        heapq.heappush(self.heap, (at, next(self.order), what))

    def now(self):
        return self.time

    def submit(self, action):
        self.log.append((self.time, action))
        if isinstance(action, w.StartNodes):
            for node in NODES:
                news = HostNews(host=node, kind="started", span=Span(self.time, self.time), data={"incarnation": 1})
                self.push(self.time + MS, w.HostSaid(news))
                self.push(self.time + 80 * MS, node)
        elif isinstance(action, w.InvokeOp):
            done = w.OpDone(action.op, action.thread, self.time + MS, OpOutcome(status="ok", node="n1"))
            self.push(self.time + MS, done)
        else:
            span = Span(self.time, self.time + 3 * MS)
            evidence = {}
            for host, want in action.wants.items():
                failed = self.converge_fails(want)
                if not failed:
                    self.state[host] = want
                evidence[host] = Evidence(
                    host=host, span=span, state=want, confirmed=not failed, why="stuck" if failed else ""
                )
            self.push(self.time + 3 * MS, w.ConvergeDone(action.token, span, evidence, {}))

    def wait(self, until):
        if not self.heap or self.heap[0][0] > until:
            self.time = max(self.time, until)
            return []
        at, _, what = heapq.heappop(self.heap)
        self.time = max(self.time, at)
        return [self.poll(what)] if isinstance(what, str) else [what]

    def poll(self, node):
        self.push(self.time + 80 * MS, node)
        span = Span(self.time - MS, self.time)
        if node not in self.answers or self.state[node].frozen:
            return w.Polled(node, span, None, "no answer")
        return w.Polled(
            node,
            span,
            Reading(
                role="LEADER" if node == self.leads else "FOLLOWER", leads=node == self.leads, term=1, leader=self.leads
            ),
        )


def play(director, world, *, limit=300 * SECOND):
    """Run to the end; answers all events. Asserts that events are recorded before their actions are submitted."""
    history = []
    events, actions = director.open(world.now())
    while True:
        history += events
        for action in actions:
            world.submit(action)
        if director.done:
            return history
        assert world.now() < limit, "the run does not end"
        happenings = world.wait(director.wake_at(world.now()))
        events, actions = director.step(world.now(), happenings)
