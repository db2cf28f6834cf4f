"""The tests' world with a history: what its nodes did, were asked, and suffered, as checkers read it.

Times are those of the world, spans are single moments. Operations are driven as the engine drives them: by `OpPump`,
through redirections, with a time-out after which the outcome is unknown.
"""

from __future__ import annotations

import hashlib

import msgspec

from dethrone.clusters.systems.operations import outcome_of, request_for, unanswered
from dethrone.clusters.systems.raft import SYSTEM
from dethrone.clusters.targets.client_api import NotLeader
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.events import (
    SCHEMA,
    Begin,
    Converged,
    End,
    Invoke,
    Mark,
    NodeProcess,
    Observed,
    Return,
    Traced,
)
from dethrone.harness.core.history import parse_history
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState, LinkQuality
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.machine import Note, Reply, Request
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.engine.run.op_pacing import OpPump
from tests.clusters.raft.spec import World

ENCODER = msgspec.json.Encoder()
POLL = 80 * MS
TICK = 5 * MS
OP_TIMEOUT = 1 * SECOND
HOPS_MAX = 3


class Recorded(World):
    """See the module. ``polls``: nodes are asked for their status as the harness does it."""

    def __init__(self, names="ABC", *, polls=True, spare="", **more):
        self.events = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=(*names, *spare), seed=1)]
        self.lines: dict[tuple[str, int], int] = {}
        self.states: dict[str, HostState] = {}
        self.pump = None
        self.waiting: dict[int, tuple[int, object, str, int]] = {}
        """Request → (op, what was planned, the node asked, hops)."""
        self.returned: set[int] = set()
        self.values: dict[int, object] = {}
        self.by_hand = 1_000_000
        self.settings = {key: str(value) for key, value in more.items() if key not in _WORLD}
        self.profile = more.get("profile", "raft")
        super().__init__(names, spare=spare, **more)
        if polls:
            self.at(self.now + POLL, self._poll)

    def add(self, kind, **fields):
        self.events.append(kind(seq=len(self.events), t=self.now, **fields))

    @property
    def moment(self):
        return Span(self.now, self.now)

    # --- faults -------------------------------------------------------------------------------------------------

    def start(self, name, **how):
        life = self.boxes[name].life + 1
        self.add(NodeProcess, span=self.moment, node=name, incarnation=life, phase="started", asked=True)
        super().start(name, **how)
        self.add(NodeProcess, span=self.moment, node=name, incarnation=life, phase="ready", asked=True)
        self._settle()

    def kill(self, name, **how):
        box = self.boxes[name]
        if box.alive:
            self.add(
                NodeProcess,
                span=self.moment,
                node=name,
                incarnation=box.life,
                phase="exited",
                asked=True,
                code=-9,
            )
        super().kill(name, **how)
        self._settle()

    def sever(self, x, *others):
        super().sever(x, *others)
        self._settle()

    def heal(self):
        super().heal()
        self._settle()

    def pause(self, name):
        super().pause(name)
        self._settle()

    def resume(self, name):
        super().resume(name)
        self._settle()

    def lose(self, percent):
        """From now on every link loses so many messages."""
        self.loss = percent
        self._settle()

    def step_wall(self, ms, *names):
        super().step_wall(ms, *names)
        self._settle()

    def _settle(self):
        """Say what changed about the hosts."""
        for name, box in self.boxes.items():
            others = [other for other in self.boxes if other != name]
            state = HostState(
                cuts=tuple(sorted(src for src, dst in self.cut if dst == name)),
                links=tuple(LinkQuality(src, loss_percent=self.loss) for src in others) if self.loss else (),
                down=None if box.alive or not box.life else "SIGKILL",
                frozen=box.paused and box.alive,
                clock=ClockSkew(offset_ns=box.wall) if box.wall else None,
            )
            before = self.states.get(name, HEALTHY)
            if state != before:
                self.states[name] = state
                self.add(Converged, span=self.moment, host=name, before=before, after=state, confirmed=True)

    # --- nodes --------------------------------------------------------------------------------------------------

    def _witnessed(self, box, events):
        super()._witnessed(box, events)
        for event in events:
            self._traced(box, event.name, event.term, event.data, source="shell")

    def show(self, box, effect):
        super().show(box, effect)
        if type(effect) is Note:
            self._traced(box, effect.name, effect.term, effect.data, source="core")
        elif type(effect) is Reply and effect.id in self.waiting:
            self._answered(box.name, effect.id, effect.body)

    def _traced(self, box, name, term, data, *, source):
        key = (box.name, box.life)
        self.lines[key] = self.lines.get(key, 0) + 1
        self.add(
            Traced,
            span=self.moment,
            node=box.name,
            incarnation=box.life,
            n=self.lines[key],
            name=name,
            term=term,
            role="",
            source=source,
            data=data,
        )

    def _poll(self):
        for name, box in self.boxes.items():
            if box.alive and not box.paused:
                status = box.status()
                self.add(
                    Observed,
                    span=self.moment,
                    node=name,
                    incarnation=box.life,
                    role=status.role,
                    leads=status.role == "LEADER",
                    term=status.term,
                    leader=status.leader,
                    voted_for=status.voted_for,
                    log_end=(status.log_end.term, status.log_end.index),
                    commit=status.commit,
                )
        self.at(self.now + POLL, self._poll)

    # --- operations ---------------------------------------------------------------------------------------------

    def drive(self, workload="log", *, phase="main", processes=4, rate=40):
        """From now on clients do what that workload wants."""
        made = registry.load(registry.WORKLOADS, workload)
        rng, nodes = Rng(self.seed).stream(f"workload/{phase}"), tuple(self.boxes)
        if self.pump is None:
            self.workload = workload
            self.pump = OpPump(processes=processes, rate_per_s=rate)
            self.at(self.now, self._tick)
        if phase == "main":
            self.pump.use(made.main(rng, nodes=nodes, processes=processes, rate_per_s=rate))
        else:
            self.add(Mark, name="final", data={})
            self.pump.use(made.final(rng, nodes=nodes, processes=processes), unpaced=True)

    def finish(self, ms=5000):
        """The final phase, as far as it gets."""
        self.drive(self.workload, phase="final")
        self.run(ms, until=lambda: self.pump.exhausted)

    def do(self, f, value, node, *, process=0, ms=500):
        """One operation by hand, asked of that node now; call what it gives for the value, None if that was not ok."""
        planned = OpPlan(f=f, value=value, target=node)
        op = self.by_hand = self.by_hand + 1
        self.add(Invoke, op=op, process=process, f=f, value=value, target=node)
        self._ask(op, planned, node, HOPS_MAX)
        return lambda: self.run(ms, until=lambda: op in self.returned) and self.values[op]

    def view(self):
        roles = {name: box.node.role for name, box in self.boxes.items()}
        state = {name: self.states.get(name, HEALTHY) for name in self.boxes}
        terms = {name: box.node.term for name, box in self.boxes.items()}
        return ClusterView(nodes=tuple(self.boxes), leader=self.leader(), roles=roles, terms=terms, state=state)

    def _tick(self):
        for op, process, _, planned in self.pump.due(self.now, self.view()):
            self.add(Invoke, op=op, process=process, f=planned.f, value=planned.value, target=planned.target)
            self._ask(op, planned, planned.target, 0)
            self.at(self.now + OP_TIMEOUT, self._late, op, planned)
        self.at(self.now + TICK, self._tick)

    def _ask(self, op, planned, node, hops):
        box = self.boxes[node]
        if not box.alive:
            self._return(op, "fail", None, "refused", node)
            return
        self.requests += 1
        self.waiting[self.requests] = (op, planned, node, hops)
        number = self.requests
        self.at(self.now + MS, self.arrive, box, Request(number, request_for(planned.f, planned.value)))

    def _answered(self, node, number, body):
        op, planned, _, hops = self.waiting.pop(number)
        if op in self.returned:
            return
        hint = body.leader if isinstance(body, NotLeader) else None
        if hint in self.boxes and hint != node and hops < HOPS_MAX:
            self._ask(op, planned, hint, hops + 1)
            return
        outcome = outcome_of(planned.f, body, node=node)
        self._return(op, outcome.status, outcome.value, outcome.error, node)

    def _late(self, op, planned):
        if op not in self.returned:
            outcome = unanswered(planned.f, "timeout")
            self._return(op, outcome.status, None, "timeout", None)

    def _return(self, op, status, value, error, node):
        self.returned.add(op)
        self.values[op] = value if status == "ok" else None
        self.add(Return, op=op, status=status, value=value, error=error, node=node)
        if self.pump is not None:
            self.pump.returned(self.events[-1])

    # --- judging ------------------------------------------------------------------------------------------------

    def history(self):
        lines = b"".join(ENCODER.encode(event) + b"\n" for event in self.events)
        digest = hashlib.blake2b(lines, digest_size=16).hexdigest()
        end = End(seq=len(self.events), t=self.now, count=len(self.events), digest=digest, reason="complete")
        return parse_history(lines + ENCODER.encode(end) + b"\n")

    def plan(self):
        names = tuple(self.boxes)
        knobs = SYSTEM.knobs(self.settings, profile=self.profile, variant=None)
        return Plan(
            system="raft",
            backend="sim",
            profile=self.profile,
            variant=None,
            nodes=names,
            voters=names,
            knobs=knobs,
            seed=1,
            time_limit_ns=60 * SECOND,
            workload=WorkloadPlan(
                name=getattr(self, "workload", "election"), processes=4, rate_per_s=40, op_timeout_ns=OP_TIMEOUT
            ),
            schedule=Schedule(seed=1, strategy="none", steps=()),
            promise=SYSTEM.promise(knobs, profile=self.profile, voters=len(names)),
            observable=SYSTEM.observable(),
            observe_interval_ns=POLL,
            final_read_ns=5 * SECOND,
        )

    def verdict(self, name):
        """What that checker says of everything so far."""
        plan = self.plan()
        return registry.load(registry.CHECKERS, name).check(self.history(), plan.promise, plan)


_WORLD = {"seed", "profile", "variant", "delay", "sync"}
