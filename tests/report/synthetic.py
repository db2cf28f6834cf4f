"""Histories made up for the tests of reports: one that passes under faults, one with two leaders in one term."""

# ruff: noqa: E501 - a story reads better with one event a line
from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import events as ev
from dethrone.harness.core import store
from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.history import History
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.promise import NotPromised, Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, RealisedFault, RealisedSchedule, Schedule, Step
from dethrone.harness.core.verdict import Finding, Verdict, merge
from dethrone.harness.engine.run.judgement import Judgement

NODES = ("n1", "n2", "n3", "n4", "n5")


class Story:
    """Events in any order; ``events`` sorts them by their moment and numbers them."""

    def __init__(self, *, system: str = "raft", seed: int = 7, nodes: tuple[str, ...] = NODES) -> None:
        self.system, self.seed, self.nodes = system, seed, nodes
        self._events: list[tuple[int, int, type, dict[str, Any]]] = []
        self._trace: dict[tuple[str, int], int] = {}
        self._faults = 0

    def add(self, event_type: type, t: int, /, **fields: Any) -> None:
        self._events.append((t, len(self._events), event_type, fields))

    def traced(
        self, t: int, node: str, name: str, term: int, *, role: str, source: str = "shell", inc: int = 1, **data
    ):
        n = self._trace[node, inc] = self._trace.get((node, inc), 0) + 1
        span = Span(t - MS // 2, t)
        self.add(
            ev.Traced, t, span=span, node=node, incarnation=inc, n=n, name=name, term=term, role=role, source=source, data=data
        )  # fmt: skip

    def election(self, t: int, node: str, term: int, voters: tuple[str, ...], *, inc: int = 1) -> None:
        self.traced(t, node, "election_started", term, role="CANDIDATE", source="core", inc=inc)
        for i, voter in enumerate(voters):
            self.traced(
                t + (i + 1) * 2 * MS, voter, "vote", term,
                role="CANDIDATE" if voter == node else "FOLLOWER", candidate=node,
            )  # fmt: skip
        at = t + (len(voters) + 1) * 2 * MS
        self.traced(at, node, "elected", term, role="LEADER", inc=inc, voters=list(voters))

    def fault(self, begin: int, end: int, kind: str, victims, roles, *, step: int, states, params=None) -> None:
        number = self._faults
        self._faults += 1
        fields = {
            "fault": number,
            "step": step,
            "kind": kind,
            "victims": victims,
            "roles": roles,
            "params": params or {},
        }
        self.add(ev.Mark, begin - MS, name="step", data={"step": step, "phase": "begin"})
        self.add(ev.FaultEvent, begin, phase="begin", span=Span(begin - 9 * MS, begin), outcome="installed", **fields)
        for host, state in states.items():
            self.add(
                ev.Converged,
                begin,
                span=Span(begin - 8 * MS, begin),
                host=host,
                before=HEALTHY,
                after=state,
                confirmed=True,
            )
            self.add(
                ev.Converged, end, span=Span(end - 15 * MS, end), host=host, before=state, after=HEALTHY, confirmed=True
            )
        self.add(ev.FaultEvent, end, phase="end", span=Span(end - 16 * MS, end), outcome="healed", **fields)

    def process(self, t: int, node: str, phase: str, *, inc: int, asked: bool = True, code: int | None = None) -> None:
        span = Span(t - 2 * MS, t)
        self.add(ev.NodeProcess, t, span=span, node=node, incarnation=inc, phase=phase, asked=asked, code=code)

    def observe(self, roles, *, until: int, every: int = 100 * MS) -> None:
        """``roles``: node → [(from, role, term, leader, incarnation)]; role None: silent."""
        rng = Rng(3)
        for node, points in roles.items():
            for t in range(0, until, every):
                state = [point for point in points if point[0] <= t][-1:]
                if not state:
                    continue
                _, role, term, leader, inc = state[0]
                span = Span(t, t + MS + rng.below(3 * MS))
                if role is None:
                    self.add(ev.Silent, span.hi, span=Span(t, t + 90 * MS), node=node, error="timeout")
                else:
                    self.add(
                        ev.Observed, span.hi, span=span, node=node, incarnation=inc, role=role, leads=role == "LEADER",
                        term=term, leader=leader, log_end=(term, t // (10 * MS)), commit=t // (10 * MS),
                    )  # fmt: skip

    def ops(self, until: int, outages: list[tuple[int, int]], *, processes: int = 5, every: int = 60 * MS) -> None:
        rng = Rng(11)
        op = 0
        for process in range(processes):
            t = process * 7 * MS + SECOND
            while t < until:
                read = rng.chance(1, 3)
                self.add(
                    ev.Invoke, t, op=op, process=process, f="read" if read else "append", value=None if read else op,
                    target=self.nodes[process % len(self.nodes)],
                )  # fmt: skip
                blocked = next((hi for lo, hi in outages if lo <= t < hi), None)
                took = 2 * MS + rng.below(6 * MS) + (rng.below(60 * MS) if rng.chance(1, 40) else 0)
                if blocked is not None:
                    status = "info" if rng.chance(1, 3) else "fail"
                    took = 150 * MS + rng.below(100 * MS)
                else:
                    status = "ok"
                error = None if status == "ok" else "timeout" if status == "info" else "not leader"
                self.add(ev.Return, t + took, op=op, status=status, value=None if read else op, error=error, node="n1")
                op += 1
                t += took + every

    def events(self, *, end: int, reason: str = "complete", complete: bool = True) -> list[Any]:
        self.add(ev.End, end, reason=reason) if complete else None
        ordered = sorted(self._events, key=lambda item: (item[0], item[1]))
        out: list[Any] = [ev.Begin(seq=0, t=0, schema=ev.SCHEMA, system=self.system, nodes=self.nodes, seed=self.seed)]
        for t, _, kind, fields in ordered:
            closing = {"count": len(out), "digest": ""} if kind is ev.End else {}
            out.append(kind(seq=len(out), t=t, **closing, **fields))
        return out


def promise(system: str = "raft") -> Promise:
    return Promise(
        system=system, profile="raft", source="the specification, section 3", election_timeout_ns=300 * MS,
        heartbeat_ns=50 * MS, leader_bound_ns=3 * SECOND, later_gap_ns=2 * SECOND, step_down_ns=SECOND,
        tiers=("T1", "T2", "T3"), tolerates={"partition": None, "kill": None, "pause": None, "clock": None},
        exempt={"step-down-without-quorum": NotPromised(reason="check-quorum is off")},
    )  # fmt: skip


def plan(system: str = "raft", *, seed: int = 7, variant: str | None = None) -> Plan:
    return Plan(
        system=system, backend="docker", profile="raft", variant=variant, nodes=NODES, voters=NODES,
        knobs={"election_timeout": "150-300", "pre_vote": "true"}, seed=seed, time_limit_ns=60 * SECOND,
        workload=WorkloadPlan(name="log", processes=5, rate_per_s=100, op_timeout_ns=SECOND),
        schedule=Schedule(
            seed=seed, strategy="random", obligations=("leader-isolated", "leader-killed"),
            steps=(
                Step(faults=(PlannedFault(kind="partition", victims="minority with leader", hold_ns=5 * SECOND),), gap_ns=SECOND),
                Step(faults=(PlannedFault(kind="kill", victims="leader", hold_ns=5 * SECOND),), gap_ns=SECOND),
                Step(faults=(PlannedFault(kind="pause", victims="leader", hold_ns=5 * SECOND),), gap_ns=SECOND),
                Step(faults=(PlannedFault(kind="clock", victims="random 1", hold_ns=5 * SECOND, params={"offset_ns": 5 * SECOND}),), gap_ns=SECOND),
            ),
        ),
        promise=promise(system), observable=("traced", "witness", "observed", "ops"), observe_interval_ns=100 * MS,
        final_read_ns=5 * SECOND,
    )  # fmt: skip


def passing_events() -> list[Any]:
    """A minute of raft: the leader is cut off with one other, its successor killed, the next one frozen, a clock
    steps."""
    story = Story()
    s, end = SECOND, 60 * SECOND
    for node in NODES:
        story.process(50 * MS, node, "started", inc=1)
        story.process(150 * MS, node, "ready", inc=1)
    for name, t in (("warmup", 160 * MS), ("faults", 6 * s), ("heal", 50 * s), ("final", 55 * s), ("stop", 59 * s)):
        story.add(ev.Mark, t, name=name)
    story.election(300 * MS, "n1", 1, ("n1", "n2", "n3"))
    pair, rest = ("n1", "n2"), ("n3", "n4", "n5")
    cut = {a: HostState(cuts=rest) for a in pair} | {b: HostState(cuts=pair) for b in rest}
    links = [[a, b] for a in pair for b in rest] + [[b, a] for a in pair for b in rest]
    story.fault(
        8 * s, 13 * s, "partition", pair, {"n1": "leader", "n2": "follower"}, step=0, states=cut, params={"cuts": links}
    )
    story.election(8 * s + 380 * MS, "n3", 2, ("n3", "n4", "n5"))
    story.traced(8 * s + 900 * MS, "n1", "step_down", 1, role="FOLLOWER", source="core", why="no answer of a quorum")
    story.fault(20 * s, 25 * s, "kill", ("n3",), {"n3": "leader"}, step=1, states={"n3": HostState(down="SIGKILL")})
    story.process(20 * s, "n3", "exited", inc=1, code=-9)
    story.election(20 * s + 350 * MS, "n4", 3, ("n4", "n5", "n1"))
    story.process(25 * s, "n3", "started", inc=2)
    story.process(25 * s + 90 * MS, "n3", "ready", inc=2)
    story.fault(32 * s, 37 * s, "pause", ("n4",), {"n4": "leader"}, step=2, states={"n4": HostState(frozen=True)})
    story.election(32 * s + 290 * MS, "n2", 4, ("n2", "n5"))
    story.election(32 * s + 610 * MS, "n5", 5, ("n5", "n1", "n3"))
    skewed = HostState(clock=ClockSkew(offset_ns=5 * s))
    story.fault(
        44 * s, 49 * s, "clock", ("n2",), {"n2": "follower"}, step=3, states={"n2": skewed}, params={"offset_ns": 5 * s}
    )
    f, lead = "FOLLOWER", "LEADER"
    story.observe(
        {
            "n1": [(200 * MS, f, 0, None, 1), (310 * MS, lead, 1, "n1", 1), (8 * s + 900 * MS, f, 1, None, 1),
                   (13 * s + 100 * MS, f, 2, "n3", 1), (20 * s + 400 * MS, f, 3, "n4", 1), (32 * s + 650 * MS, f, 5, "n5", 1)],
            "n2": [(200 * MS, f, 0, None, 1), (310 * MS, f, 1, "n1", 1), (13 * s + 100 * MS, f, 2, "n3", 1),
                   (20 * s + 400 * MS, f, 3, "n4", 1), (32 * s + 290 * MS, "CANDIDATE", 4, None, 1), (32 * s + 650 * MS, f, 5, "n5", 1)],
            "n3": [(200 * MS, f, 0, None, 1), (310 * MS, f, 1, "n1", 1), (8 * s + 390 * MS, lead, 2, "n3", 1),
                   (20 * s, None, 0, None, 1), (25 * s + 90 * MS, f, 3, "n4", 2), (32 * s + 650 * MS, f, 5, "n5", 2)],
            "n4": [(200 * MS, f, 0, None, 1), (310 * MS, f, 1, "n1", 1), (8 * s + 390 * MS, f, 2, "n3", 1),
                   (20 * s + 360 * MS, lead, 3, "n4", 1), (32 * s, None, 0, None, 1), (37 * s + 100 * MS, f, 5, "n5", 1)],
            "n5": [(200 * MS, f, 0, None, 1), (310 * MS, f, 1, "n1", 1), (8 * s + 390 * MS, f, 2, "n3", 1),
                   (20 * s + 400 * MS, f, 3, "n4", 1), (32 * s + 620 * MS, lead, 5, "n5", 1)],
        },
        until=59 * s,
    )  # fmt: skip
    story.ops(58 * s, [(8 * s, 8 * s + 420 * MS), (20 * s, 20 * s + 400 * MS), (32 * s, 32 * s + 700 * MS)])
    story.add(ev.Noise, 41 * s, span=Span(41 * s - 80 * MS, 41 * s), host="n2", kind="stall", value_ns=80 * MS)
    story.add(ev.Noise, 59 * s, span=Span(0, 59 * s), host="n1", kind="summary", value_ns=0, detail={"stalls": 0})
    return story.events(end=end)


def failing_events(*, hostile: str = "") -> list[Any]:
    """Nacos: n3 votes twice in term 7, n2 and n4 are both elected in it."""
    story = Story(system="nacos", seed=42)
    s, end = SECOND, 19 * SECOND
    for node in NODES:
        story.process(50 * MS, node, "started", inc=1)
    story.add(ev.Mark, 160 * MS, name="warmup")
    story.add(ev.Mark, 5 * s, name="faults")
    story.election(s, "n1", 6, ("n1", "n2", "n3", "n4", "n5"))
    left, right = ("n1", "n2"), ("n3", "n4", "n5")
    cut = {a: HostState(cuts=right) for a in left} | {b: HostState(cuts=left) for b in right}
    story.fault(8 * s, 11 * s, "partition", left, {"n1": "leader"}, step=0, states=cut)
    story.fault(12 * s, 14 * s, "kill", ("n1",), {"n1": "leader"}, step=1, states={"n1": HostState(down="SIGKILL")})
    story.process(12 * s, "n1", "exited", inc=1, code=-9)
    story.process(14 * s, "n1", "started", inc=2)
    story.election(13 * s, "n2", 7, ("n2", "n3", "n5"))
    story.traced(13 * s + 200 * MS, "n4", "campaign", 7, role="CANDIDATE", source="core")
    story.traced(13 * s + 210 * MS, "n4", "vote", 7, role="CANDIDATE", candidate="n4")
    story.traced(13 * s + 215 * MS, "n3", "vote", 7, role="FOLLOWER", candidate="n4")
    story.traced(14 * s + 120 * MS, "n1", "vote", 7, role="FOLLOWER", candidate="n4", inc=2)
    story.traced(14 * s + 130 * MS, "n4", "elected", 7, role="LEADER", voters=["n4", "n3", "n1"])
    f, lead = "FOLLOWER", "LEADER"
    story.observe(
        {
            "n1": [(200 * MS, f, 0, None, 1), (s + 20 * MS, lead, 6, "n1", 1), (12 * s, None, 0, None, 1), (14 * s + 100 * MS, f, 7, "n4", 2)],
            "n2": [(200 * MS, f, 0, None, 1), (s + 20 * MS, f, 6, "n1", 1), (13 * s + 10 * MS, lead, 7, "n2", 1)],
            "n3": [(200 * MS, f, 0, None, 1), (s + 20 * MS, f, 6, "n1", 1), (13 * s + 10 * MS, f, 7, hostile or "n2", 1)],
            "n4": [(200 * MS, f, 0, None, 1), (s + 20 * MS, f, 6, "n1", 1), (13 * s + 200 * MS, "CANDIDATE", 7, None, 1), (14 * s + 130 * MS, lead, 7, "n4", 1)],
            "n5": [(200 * MS, f, 0, None, 1), (s + 20 * MS, f, 6, "n1", 1), (13 * s + 10 * MS, f, 7, "n2", 1)],
        },
        until=19 * s,
    )  # fmt: skip
    if hostile:
        story.add(ev.Trouble, 15 * s, kind="hostile", message=hostile)
    return story.events(end=end, reason="first-failure")


def verdict(name: str, kind: str, outcome: str, reason: str = "", findings=(), **evidence) -> Verdict:
    return Verdict(
        checker=name, version="1", kind=kind, outcome=outcome, reason=reason, findings=tuple(findings), evidence=evidence
    )  # fmt: skip


def passing_judgement() -> Judgement:
    verdicts = (
        verdict("one-leader-per-term", "safety", "pass", elections=6, terms=5, claims=2900),
        verdict("one-vote-per-term", "safety", "pass", votes=16),
        verdict("term-never-decreases", "safety", "pass", readings=2931),
        verdict("leader-has-majority", "safety", "pass", elections=6),
        verdict("log-matching", "safety", "pass", entries=3120),
        verdict("acknowledged-survives", "safety", "pass", acknowledged=2400),
        verdict("leader-when-owed", "liveness", "pass", windows=7, tested=5),
        verdict("convergence-after-heal", "liveness", "pass", heals=4),
        verdict("step-down-without-quorum", "liveness", "n/a", "not promised: check-quorum is off"),
        verdict("coverage", "coverage", "pass", obligations=2),
    )
    return Judgement(outcome=merge(verdicts), reason="every promised property held, with evidence", verdicts=verdicts)


def failing_judgement(history: History, *, hostile: str = "") -> Judgement:
    elected = [e.seq for e in history.of(ev.Traced) if e.name == "elected" and e.term == 7]
    votes = [e.seq for e in history.of(ev.Traced) if e.name == "vote" and e.node == "n3" and e.term == 7]
    leaders = Finding(
        sentence=f"n2 and n4 were both elected leader of term 7{hostile}",
        certificate=tuple(elected),
        nodes=("n2", "n4"),
        term=7,
    )
    double = Finding(sentence="n3 voted for n2 and for n4 in term 7", certificate=tuple(votes), nodes=("n3",), term=7)
    late = Finding(sentence="n1 lost a write", certificate=(3,), excused="its disk was wiped, which is not tolerated")
    verdicts = (
        verdict("one-leader-per-term", "safety", "fail", findings=[leaders], elections=3),
        verdict("one-vote-per-term", "safety", "fail", findings=[double], votes=14),
        verdict("term-never-decreases", "safety", "pass", findings=[late], readings=931),
        verdict("leader-when-owed", "liveness", "unknown", "no window was long enough"),
        verdict("log-matching", "safety", "n/a", "not observable: this system keeps no log"),
    )
    return Judgement(outcome="fail", reason=f"one-leader-per-term: {leaders.sentence}", verdicts=verdicts)


def write(directory: Path, events: list[Any], the_plan: Plan, judgement: Judgement | None) -> Path:
    """A run directory as the engine leaves it."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = HistoryWriter(directory / store.HISTORY, sync=False)
    body = [event for event in events if type(event) is not ev.End]
    writer.write(body)
    if len(body) < len(events):
        writer.end(t=events[-1].t, reason=events[-1].reason)
    writer.close()
    store.write_json(directory / store.PLAN, the_plan)
    store.write_json(directory / store.PLANNED, the_plan.schedule)
    store.write_json(directory / store.REALISED, realised(read_history(directory / store.HISTORY), the_plan.seed))
    store.write_json(
        directory / store.RUN, {"schema": 1, "run_id": "x", "versions": {"dethrone": "0.1.0"}, "figures": {}}
    )
    if judgement is not None:
        stored = {
            "schema": 1,
            "system": the_plan.system,
            "seed": the_plan.seed,
            "judgement": msgspec.to_builtins(judgement),
        }
        store.write_json(directory / store.VERDICT, stored)
    return directory


def realised(history: History, seed: int) -> RealisedSchedule:
    faults: dict[int, RealisedFault] = {}
    for event in history.of(ev.FaultEvent):
        if event.phase == "begin":
            faults[event.fault] = RealisedFault(
                fault=event.fault, step=event.step, kind=event.kind, victims=event.victims, roles=event.roles,
                params=event.params, begin=event.span, outcome=event.outcome, healed=False,
            )  # fmt: skip
        else:
            faults[event.fault] = msgspec.structs.replace(faults[event.fault], end=event.span, healed=True)
    return RealisedSchedule(seed=seed, faults=tuple(faults.values()))


def passing_run(directory: Path) -> Path:
    return write(directory, passing_events(), plan(), passing_judgement())


def failing_run(directory: Path, *, hostile: str = "") -> Path:
    events = failing_events(hostile=hostile)
    return write(directory, events, plan("nacos", seed=42), failing_judgement(History(events), hostile=hostile))
