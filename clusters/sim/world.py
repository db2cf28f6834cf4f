"""The simulated world: events in their order behind the interface through which the director meets real hosts.

Guarantees: the same plan gives the same happenings in the same order, on any machine and Python (integers, named
streams of the seed, no clock, no set is ever iterated); a change of a host's state takes effect at a drawn moment
within the span of its evidence; changes are carried out one after another. Out of scope: what nodes, links and clients
do.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.sim.building import Build, Ears
from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.clients import CLIENT, Clients, Observer
from dethrone.clusters.sim.clock import EPOCH_NS
from dethrone.clusters.sim.links import LAST, Timeline
from dethrone.clusters.sim.network import Network
from dethrone.clusters.sim.node import SimNode
from dethrone.clusters.sim.settings import read
from dethrone.clusters.systems.target import TargetSystem
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.hoststate import DAMAGES, HostState, flows_to_reset
from dethrone.harness.core.interfaces import Evidence, HostNews, NodeSpec, Reading
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.world import (
    Action,
    Converge,
    ConvergeDone,
    Happening,
    HostSaid,
    InvokeOp,
    OpDone,
    Request,
    RequestDone,
    Simulable,
    StartNodes,
)

KILL_INSIDE = (1, 2)
"""How often a kill falls within the effects of a step, if one comes in time."""


REQUESTER = -1
"""The client that carries out what faults ask of the system; the others are numbered from 0."""


class _Order:
    """A convergence under way: the evidence so far and the hosts that are still to be heard of."""

    __slots__ = ("action", "begin", "evidence", "missing")

    def __init__(self, action: Converge, begin: Ns) -> None:
        self.action = action
        self.begin = begin
        self.evidence: dict[str, Evidence] = {}
        self.missing = len(action.wants)


class SimWorld:
    """See ``dethrone.harness.core.world.VirtualWorld``."""

    def __init__(self, system: Simulable, plan: Plan) -> None:
        settings = read(plan.backend_settings)
        rng = Rng(plan.seed).stream("simulator")
        self._rng = rng
        self._line = line = Timeline()
        self._inbox: list[Happening] = []
        self._told: deque[tuple[Ns, Happening]] = deque()
        """Reports of agents and of the observer, by the moment at which the harness gets them."""
        self._urgent = False
        self._waits = 0
        self.eager = False
        """Return from ``wait`` at every observation, too (else they come together with the next other event)."""
        target, typed = system.target(), system.typed(plan.knobs, profile=plan.profile)
        network = self._network = Network(
            line, rng, settings, rpc_timeout_ns=system.rpc_timeout_ns(typed), flows=target.transport == "tcp"
        )
        build = Build(
            target,
            knobs=typed,
            words=plan.knobs,
            members=plan.nodes,
            profile=plan.profile,
            variant=plan.variant,
            seed=plan.seed,
            settings=settings,
        )
        ears = Ears(traced=self._tell, started=self._started, answered=self._answered, ended=self._ended)
        self._nodes = {
            name: SimNode(name, build, line=line, network=network, rng=rng, ears=ears) for name in plan.nodes
        }
        network.join(self._nodes)
        delay = uniform(rng, "client-latency", *settings.client_latency)
        self._trace_delay = uniform(rng, "trace", *settings.trace)
        self._told_at: Ns = 0
        self._command = uniform(rng, "command", *settings.command)
        self._kill = uniform(rng, "kill", *settings.kill)
        self._clients = Clients(self._nodes, line, delay, self._op_done)
        self._observer = Observer(
            self._nodes,
            line,
            delay,
            self._hand_over,
            interval_ns=plan.observe_interval_ns,
            read=_reader(system, plan),
            interpret=_interpreter(system, plan),
            tells_log=system.tells_log,
            tells_vote=system.tells_vote,
        )
        self._orders: deque[_Order] = deque()
        self._wanted: dict[str, bool] = dict.fromkeys(plan.nodes, False)
        """Whether the node was ever started: only then converging starts it again."""

    # --- the interface --------------------------------------------------------------------------------------------

    def now(self) -> Ns:
        """Ns since the run began."""
        return self._line.now

    @property
    def happened(self) -> int:
        """Events of the simulation so far, about: those that were planned and are over."""
        return self._line.planned()

    def submit(self, action: Action) -> None:
        """Begin an action."""
        if isinstance(action, InvokeOp):
            self._clients.invoke(action)
        elif isinstance(action, Request):
            self._clients.invoke(InvokeOp(action.token, REQUESTER, action.plan, action.timeout_ns))
        elif isinstance(action, StartNodes):
            for node in self._nodes.values():
                self._wanted[node.name] = True
                self._line.at(self._line.now + self._command(), self._start, node, None)
            self._observer.start()
        else:
            self._orders.append(_Order(action, 0))
            if len(self._orders) == 1:
                self._begin_order()

    def wait(self, until: Ns) -> Sequence[Happening]:
        """What happens next; moves the clock to it, or to ``until`` if nothing does."""
        line = self._line
        agenda = line.agenda
        self._waits += 1
        insort(agenda, (max(line.now, until), LAST, self._waited, self._waits, None))
        while not self._urgent:
            line.now, _, call, one, two = agenda.pop(0)
            call(one, two)
        return self._take()

    def _waited(self, number: int, _: None) -> None:
        """The time of a wait is over; it may have ended sooner."""
        if number == self._waits:
            self._urgent = True

    def logs(self) -> Mapping[str, bytes]:
        """What crashed cores left."""
        return {node.name: bytes(node.log) for node in self._nodes.values() if node.log}

    def _take(self) -> list[Happening]:
        told, now = self._told, self._line.now
        later: list[tuple[Ns, Happening]] = []
        while told and told[-1][0] > now:
            later.append(told.pop())
        inbox = [happening for _, happening in told]
        told.clear()
        told.extend(reversed(later))
        if self._inbox:
            inbox += self._inbox
            self._inbox.clear()
        self._urgent = False
        return inbox

    # --- what nodes and clients report ----------------------------------------------------------------------------

    def _tell(self, happening: Happening) -> None:
        """An agent reports something, a little later."""
        self._hand_over(self._line.now + self._trace_delay(), happening)

    def _look(self, _one: None, _two: None) -> None:
        self._urgent = True

    def _say(self, happening: Happening, _: None) -> None:
        self._inbox.append(happening)
        self._urgent = True

    def _hand_over(self, at: Ns, happening: Happening) -> None:
        if at > self._told_at:
            self._told_at = at
        else:
            at = self._told_at
        self._told.append((at, happening))
        if self.eager:
            self._line.at(at, self._look, None, None)

    def _op_done(self, done: OpDone) -> None:
        asked = done.thread == REQUESTER
        self._inbox.append(RequestDone(done.op, done.at, done.outcome) if asked else done)
        self._urgent = True

    def _answered(self, name: str, number: int, reply: Any) -> None:
        self._clients.answered(self._nodes[name], number, reply)

    def _started(self, name: str) -> None:
        node = self._nodes[name]
        self._news(node, "started", {"pid": 0, "incarnation": node.incarnation, "asked": True})

    def _ended(self, name: str, code: int) -> None:
        node = self._nodes[name]
        self._clients.ended(node)
        asked = node.state.down is not None
        lines = (node.last_words,) if node.last_words else ()
        data = {"pid": 0, "incarnation": node.incarnation, "code": code, "asked": asked, "lines": lines}
        self._news(node, "exited", data)

    def _news(self, node: SimNode, kind: str, data: Mapping[str, Any]) -> None:
        now = self._line.now
        self._tell(HostSaid(HostNews(host=node.name, kind=kind, span=Span(now, now), data=data)))

    def _start(self, node: SimNode, _: None) -> None:
        if not node.running and node.state.down is None:
            node.start()

    # --- faults ---------------------------------------------------------------------------------------------------

    def _begin_order(self) -> None:
        order = self._orders[0]
        order.begin = self._line.now
        for host in sorted(order.action.wants):
            self._line.at(order.begin + self._command(), self._reach, order, self._nodes[host])
        if not order.missing:
            self._line.at(order.begin, self._finish_order, order, None)

    def _reach(self, order: _Order, node: SimNode) -> None:
        """The order arrives at a host."""
        want = order.action.wants[node.name].suffered
        before, node.state = node.state, want
        node.reachable = CLIENT not in want.cuts
        if (before.cuts, before.links, before.refuses) != (want.cuts, want.links, want.refuses):
            self._network.set_host(node, before, want, reset=order.action.reset)
        if before.clock != want.clock:
            node.set_clock()
        node.starve(want.cpu_percent)
        detail: dict[str, Any] = {}
        why = ""
        if want.down is not None:
            if node.running and node.alive and not node.frozen and want.down != "SIGTERM" and self._kills_inside():
                node.kill_within(want.down)
                self._line.at(self._line.now + self._kill(), self._ended_at_last, (order, node, before), node.life)
                return
            node.kill(want.down)
            why = self._damage(node, before, want, detail)
        elif not node.running and self._wanted[node.name]:
            node.start()
        if node.running and want.frozen:
            node.freeze()
        elif not want.frozen:
            node.thaw()
        self._reached(order, node, detail, why)

    def _kills_inside(self) -> bool:
        return self._rng.stream(f"kill-{self._line.order()}").chance(*KILL_INSIDE)

    def _ended_at_last(self, what: tuple[_Order, SimNode, HostState], life: int) -> None:
        """The time in which a kill could fall within a step is over."""
        order, node, before = what
        detail: dict[str, Any] = {}
        want = order.action.wants[node.name].suffered
        if node.life == life:
            node.kill(want.down or "SIGKILL")
        else:
            detail["within_a_step"] = True
        self._reached(order, node, detail, self._damage(node, before, want, detail))

    def _damage(self, node: SimNode, before: HostState, want: HostState, detail: dict[str, Any]) -> str:
        """Damage is done once, as soon as the process is down. Answers why it was not done, else ""."""
        trouble = want.disk
        if (
            trouble is None
            or trouble.kind not in ("wiped", *DAMAGES)
            or (before.disk == trouble and before.down is not None)
        ):
            return ""
        damaged = node.damage(trouble)
        if damaged is None and trouble.kind != "wiped":
            return f"no file {trouble.path!r} to damage" if trouble.path else "no file to damage"
        detail["damaged"] = damaged or trouble.kind
        return ""

    def _reached(self, order: _Order, node: SimNode, detail: dict[str, Any], why: str = "") -> None:
        want = order.action.wants[node.name]
        now = self._line.now
        for trouble in want.troubles or ():
            if trouble.means.healthy:
                why = why or f"simulated hosts cannot suffer {trouble.kind}: what it means is not said"
            else:
                detail[trouble.kind] = trouble.says
        if want.suffered.clock is not None:
            detail["skew_ns"] = node.clock.wall(now) - EPOCH_NS - now
        order.evidence[node.name] = Evidence(
            host=node.name, span=Span(order.begin, now), state=want, confirmed=not why, why=why, detail=detail
        )
        order.missing -= 1
        if not order.missing:
            self._line.at(now + self._command(), self._finish_order, order, None)

    def _finish_order(self, order: _Order, _: None) -> None:
        now = self._line.now
        action = order.action
        resets: dict[str, dict[str, object]] = {}
        for host in sorted(action.wants):
            healed = flows_to_reset(action.before[host], action.wants[host])
            if action.reset and healed:
                resets[host] = {"flows": "reset", "peers": healed}
        evidence = {host: order.evidence[host] for host in sorted(order.evidence)}
        self._say(ConvergeDone(action.token, Span(order.begin, now), evidence, resets), None)
        self._orders.popleft()
        if self._orders:
            self._begin_order()


def _reader(system: Simulable, plan: Plan) -> Callable[[str, bytes], Reading | None] | None:
    """How this system reads a status answer; None: by the common fields of one group alone, so no bytes are needed."""
    if (
        isinstance(system, TargetSystem)
        and type(system).reading is TargetSystem.reading
        and not system.several_groups(plan.knobs)
    ):
        return None
    return _by_bytes(system, plan)


def _by_bytes(system: Simulable, plan: Plan) -> Callable[[str, bytes], Reading | None]:
    """As of a real process."""
    members = dict.fromkeys(plan.nodes, "")
    specs = {
        name: NodeSpec(
            name=name,
            address="",
            members=members,
            knobs=plan.knobs,
            profile=plan.profile,
            variant=plan.variant,
            seed=plan.seed,
            data_dir="",
            log_dir="",
        )
        for name in plan.nodes
    }
    return lambda node, body: system.reading(specs[node], body)


def _interpreter(system: Simulable, plan: Plan) -> Callable[[Reading], Reading]:
    """What this system makes of the common fields."""
    if isinstance(system, TargetSystem):
        return lambda found: system.interpreted(found, plan.knobs)
    return lambda found: found
