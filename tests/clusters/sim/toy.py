"""A target that does what a test tells it, in a world without director: every event of a core is written down."""

from __future__ import annotations

from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import HostNews, OpPlan, Reading
from dethrone.harness.core.machine import CoreStatus, LogEnd, Note, Witnessed
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.world import Converge, ConvergeDone, HostSaid, InvokeOp, OpDone, Polled, StartNodes, Traces

__all__ = ["HEALTHY", "MS", "SECOND", "HostNews", "Span", "ToyWorld", "quiet"]


class ToyCore:
    """Calls ``script(core, event, out)``; ``event`` is None at the boot. ``got``: (time, event) of all its lives."""

    def __init__(self, node, script, got):
        self.node = node
        self.script = script
        self.got = got
        self.disk = {}
        self.token = 0

    def boot(self, disk, now, rng, out):
        self.disk = dict(disk)
        self.rng = rng
        self.script(self, None, now, out)

    def handle(self, event, now, rng, out):
        self.got.append((now, event))
        self.script(self, event, now, out)

    def status(self, now):
        return CoreStatus(role="FOLLOWER", term=1, leader=None, voted_for=None, log_end=LogEnd(), commit=0)


class GracefulCore(ToyCore):
    graceful = True


class ToyWitness:
    def booted(self, disk):
        return []

    def sent(self, to, body):
        return [Witnessed("sent", 1, {"to": to, "body": str(body)})]

    def received(self, src, body):
        return [Witnessed("received", 1, {"src": src, "body": str(body)})]

    def synced(self, ops):
        return [Witnessed("synced", 1, {"ops": len(ops)})]


class ToyTarget:
    name = "toy"
    message_type = request_type = reply_type = str

    def __init__(self, script, transport, core=ToyCore):
        self.script = script
        self.transport = transport
        self.kind = core
        self.got = {}

    def knobs(self, settings, *, profile=None):
        return {}

    def core(self, *, node, members, knobs, variant):
        return self.kind(node, self.script, self.got.setdefault(node, []))

    def witness(self, *, node, members):
        return ToyWitness()

    def variants(self):
        return {}


class ToySystem:
    name = "toy"
    tells_log = tells_vote = True

    def __init__(self, target):
        self._target = target

    def target(self):
        return self._target

    def typed(self, knobs, *, profile):
        return {}

    def rpc_timeout_ns(self, typed):
        return 50 * MS

    def reading(self, node, body):
        return Reading(role="FOLLOWER", leads=False, term=1, incarnation=1) if body else None


def quiet(core, event, now, out):
    """A script that does nothing."""


class ToyWorld:
    """A simulated world of toy nodes, driven by hand. ``at(ns)``: play up to that moment."""

    def __init__(self, script=quiet, *, nodes=3, seed=1, transport="tcp", start=True, graceful=False, **settings):
        from dethrone.clusters.sim.world import SimWorld

        names = tuple(f"n{k}" for k in range(1, nodes + 1))
        words = {"latency_us": "300", "client_latency_us": "300", "command_us": "100", "start_ms": "10", "kill_ms": "5"}
        words |= {"sync_us": "200", "write_us": "10"} | settings
        plan = Plan(
            system="toy",
            backend="sim",
            profile="toy",
            variant=None,
            nodes=names,
            voters=names,
            knobs={},
            seed=seed,
            time_limit_ns=SECOND,
            workload=WorkloadPlan(name="election", processes=1, rate_per_s=0, op_timeout_ns=SECOND),
            schedule=Schedule(seed=seed, strategy="none", steps=()),
            promise=Promise(
                system="toy",
                profile="toy",
                source="tests",
                election_timeout_ns=300 * MS,
                heartbeat_ns=50 * MS,
                leader_bound_ns=SECOND,
                later_gap_ns=SECOND,
            ),
            observable=("traced",),
            observe_interval_ns=100 * MS,
            final_read_ns=SECOND,
            backend_settings=words,
        )
        self.target = ToyTarget(script, transport, GracefulCore if graceful else ToyCore)
        self.world = SimWorld(ToySystem(self.target), plan)
        self.names = names
        self.told = []
        self.tokens = 0
        self.state = dict.fromkeys(names, HEALTHY)
        if start:
            self.world.submit(StartNodes())
            self.at(50 * MS)

    @property
    def now(self):
        return self.world.now()

    def at(self, when):
        """Play up to this moment."""
        while self.world.now() < when:
            self.told += self.world.wait(when)
        self.told += self.world.wait(when)
        return self

    def on(self, ns):
        """Play for so long."""
        return self.at(self.now + ns)

    def node(self, name):
        return self.world._nodes[name]

    def poke(self, name, body):
        """Let a node handle a client's request ``body`` now."""
        node = self.node(name)
        node.when_open(lambda: node.serve(node.next_request(), body))
        return self

    def converge(self, **wants):
        """Bring hosts into states; plays until that is done."""
        self.tokens += 1
        before = {name: self.state[name] for name in wants}
        self.state |= wants
        self.world.submit(Converge(self.tokens, before, wants))
        for _ in range(100):
            self.on(MS)
            done = [one for one in self.told if isinstance(one, ConvergeDone) and one.token == self.tokens]
            if done:
                return done[0]
        raise AssertionError("no convergence")

    def invoke(self, op, f, value, target, *, timeout=SECOND, process=0):
        plan = OpPlan(f=f, value=value, target=target)
        self.world.submit(InvokeOp(op, process, plan, timeout))
        return self

    def outcome(self, op):
        return next((one for one in self.told if isinstance(one, OpDone) and one.op == op), None)

    def got(self, name, kind=None):
        """What the cores of this node were given: events, of one kind."""
        return [event for _, event in self.target.got.get(name, []) if kind is None or type(event) is kind]

    def lines(self, name):
        """Names of the trace lines of a node, in order, with their data."""
        return [
            (line, data)
            for told in self.told
            if isinstance(told, Traces) and told.node == name
            for _, line, _, _, _, data, _ in told.lines
        ]

    def notes(self, name):
        return [
            line
            for told in self.told
            if isinstance(told, Traces) and told.node == name
            for _, line, _, _, source, _, _ in told.lines
            if source == "core"
        ]

    def news(self, kind):
        return [one.news for one in self.told if isinstance(one, HostSaid) and one.news.kind == kind]

    def polls(self, name):
        return [one for one in self.told if isinstance(one, Polled) and one.node == name]


def note(name):
    """A note by this name."""
    return Note(name, 1, "FOLLOWER", {})
