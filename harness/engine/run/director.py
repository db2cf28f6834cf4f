"""The director: the whole course of a run as one pure step function.

Happenings in, events and actions out. Phases: start → warmup → faults → heal → quiet → final → stop. Guarantees: an
invoke is emitted together with its action, so that it is in the history before it is sent; every run passes the
``healing`` phase before it ends; everything has a bound. Files, threads and hosts are out of scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import MS, SECOND, Ns, Span
from dethrone.harness.core.deaths import bounded, crashed_early, not_its_own, printable
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import (
    AGENT_LOST,
    SCHEMA,
    TRACE_MALFORMED,
    AnyEvent,
    Begin,
    Converged,
    FatalLine,
    FaultEvent,
    Invoke,
    Mark,
    NodeDied,
    NodeProcess,
    Noise,
    Observed,
    Return,
    Silent,
    Traced,
    Trouble,
)
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import Evidence, HostNews, Malformed, Reading, System, Telling, TraceLine, Unmet
from dethrone.harness.core.limits import trace_trouble
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import RealisedSchedule, Step
from dethrone.harness.engine.run.cluster_view import ViewKeeper
from dethrone.harness.engine.run.continuation import Assess, Continuation, next_step, worth_keeping
from dethrone.harness.engine.run.listener import LiveView, NodeView
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver, StepMark
from dethrone.harness.engine.run.op_pacing import OpPump
from dethrone.harness.engine.run.planning import WARMUP_NS, Draft
from dethrone.harness.engine.run.realised_faults import Settled

Phase = Literal["start", "warmup", "faults", "heal", "quiet", "final", "stop"]
EndReason = Literal["complete", "first-failure", "interrupted", "trouble"]
START_BOUND_NS = 30 * SECOND
ANSWER_BOUND_NS = 90 * SECOND
"""Of nodes that still run and have not answered: Java servers on a loaded machine take long to do so."""
OVERRUN = 2
"""A schedule may take this many times its time limit (health is awaited between steps) before it is cut short."""
CONVERGE_BOUND_NS = 60 * SECOND
TICK_NS = 50 * MS
STALL_NS = 50 * MS
LINE_SHOWN = 200
ENDS = frozenset({"crashed", "shell_failed"})
"""Last words of our own node processes that say who failed."""
MALFORMED_MAX = 20
LAPSING = frozenset({"rules-lost", "dead-man"})
"""Noise by which an agent says that what was asked of its host is, or was, not in force."""
"""At most this number of malformed trace lines is shown; all are counted."""


class Director:
    """One run. ``step`` until ``done``."""

    def __init__(self, draft: Draft, *, watchers: Sequence[Callable[[AnyEvent], bool]] = ()) -> None:
        self.plan: Plan = draft.plan
        self._system: System = draft.system
        self._more = draft.more
        self.assess: Assess = _nothing_unmet
        """What the run would lack if it ended now."""
        self._kept: list[AnyEvent] = []
        """What that is judged on; empty in a run that ends with its schedule."""
        self._continuation: Continuation | None = None
        self._left: list[Step] = []
        self._workload = draft.workload
        self._watchers = list(watchers)
        rng = Rng(draft.plan.seed)
        self._workload_rng = rng.stream("workload")
        nodes = draft.plan.nodes
        self.keeper = ViewKeeper(nodes, voters=self.plan.voters, led=bool(self.plan.promise.tiers))
        self._pump = OpPump(processes=draft.plan.workload.processes, rate_per_s=draft.plan.workload.rate_per_s)
        self._nemesis = NemesisDriver(
            draft.plan.schedule,
            faults=draft.faults,
            nodes=nodes,
            rng=rng.stream("victims"),
            health_bound_ns=_health_bound(draft.plan),
            conditions=draft.conditions,
            traced="traced" in draft.plan.observable,
        )
        self._triggers = self._nemesis.triggers
        self.phase: Phase = "start"
        self._since: Ns = 0
        self._began_faults: Ns = 0
        self._seq = 0
        self._events: list[AnyEvent] = []
        self._actions: list[w.Action] = []
        self._token = 0
        self._converging: dict[int, tuple[str, w.Converge, Ns]] = {}
        self.end_reason: EndReason = "complete"
        self.trouble: list[str] = []
        self.done = False
        self._ready: dict[str, int] = {}
        """Node → the newest incarnation that answered."""
        self._trace_lines = draft.system.trace_lines if isinstance(draft.system, Telling) else None
        self._down: set[str] = set()
        """Nodes whose process ended, and whose new process has not been reported yet."""
        self._dead: set[str] = set()
        """Nodes whose last process ended although the harness had not asked for it."""
        self._ends: dict[tuple[str, int], str] = {}
        """(node, incarnation) → ``crashed`` (its core raised) or ``shell_failed`` (our shell around it did)."""
        self._lines: dict[tuple[str, int], int] = {}
        """(node, incarnation) → lines of its trace that do not number themselves."""
        self._fsync_max_ns: Ns = 0
        self._proved_until: dict[str, Ns] = {}
        """Until when each host's state was last proved, for what is found to have lapsed since."""
        self._machines: dict[str, str] = {}
        """Boot of a kernel → the word for that machine."""
        self._virtual = isinstance(draft.backend, w.VirtualBackend)
        self._heal_tries = 0
        self.counts = {
            "ok": 0,
            "fail": 0,
            "info": 0,
            "observed": 0,
            "traced": 0,
            "foreign_lines": 0,
            "malformed_lines": 0,
        }
        self._elections: set[tuple[str, int, str | None]] = set()
        self._found = False
        self._not_healed = False
        self.on_warm: Callable[[Plan], None] = _ignore
        self.tick_ns: Ns = TICK_NS
        """The longest time between two steps."""
        self.rest_ns: Ns = TICK_NS
        """The same while there is nothing to decide: only the pace at which events are written down."""

    # --- the interface ----------------------------------------------------------------------------------------

    def open(self, now: Ns) -> tuple[list[AnyEvent], list[w.Action]]:
        """The first events and actions."""
        plan = self.plan
        self._add(Begin, now, schema=SCHEMA, system=plan.system, nodes=plan.nodes, seed=plan.seed)
        self._add(Mark, now, name="start")
        if self._virtual:
            virtual = {"virtual": True}
            self._add(Noise, now, span=Span(now, now), host="", kind="sources", value_ns=0, detail=virtual)
        self._actions.append(w.StartNodes())
        self._since = now
        return self._take()

    def step(self, now: Ns, happenings: Sequence[w.Happening]) -> tuple[list[AnyEvent], list[w.Action]]:
        """Everything that follows from these happenings and this moment."""
        for happening in happenings:
            self._HANDLERS[type(happening)](self, now, happening)
        if not self.done:
            self._move(now)
            self._invoke(now)
        return self._take()

    def wake_at(self, now: Ns) -> Ns:
        """When to call ``step`` at the latest."""
        soonest = now + (self.rest_ns if self._rests(now) else self.tick_ns)
        if self.phase == "faults":
            due = self._nemesis.wake_at()
        elif self.phase == "warmup":
            due = self._since + WARMUP_NS
        elif self.phase == "quiet":
            due = self._since + self._quiet_ns()
        else:
            due = None
        if due is not None and due < soonest:
            soonest = due
        ops = self._pump.wake_at(now)
        if ops is not None and ops < soonest:
            soonest = ops
        return soonest if soonest > now else now  # noqa: FURB136 - asked at every step

    def _rests(self, now: Ns) -> bool:
        """Whether nothing but the clock can move this run on."""
        if self._converging:
            return False
        return self.phase in {"warmup", "quiet"} or (self.phase == "faults" and self._nemesis.idle(now))

    @property
    def attentive(self) -> bool:
        """Whether a trigger is armed: then nothing that is seen may wait for the next step."""
        return bool(self._triggers.hears)

    def realised(self) -> RealisedSchedule:
        """The schedule as it really was, so far."""
        return self._nemesis.realised()

    def live(self, now: Ns) -> LiveView:
        """A picture for live views."""
        view = self.keeper.view(now)
        counts = self.counts
        elapsed = max(1, now)
        return LiveView(
            elapsed_ns=now,
            limit_ns=self.plan.time_limit_ns,
            phase=self.phase,
            step=self._nemesis.step_index + 1,
            steps=len(self.plan.schedule.steps),
            nodes=tuple(self._node_view(node, view.roles[node], now) for node in self.plan.nodes),
            ops_ok=counts["ok"],
            ops_fail=counts["fail"],
            ops_info=counts["info"],
            ops_per_s=counts["ok"] * SECOND / elapsed,
            elections=len(self._elections),
            active_faults=tuple(f"{fault.kind}({','.join(fault.victims)})" for fault in self._nemesis.active),
        )

    @property
    def elections(self) -> int:
        """Distinct (term, leader) pairs seen."""
        return len(self._elections)

    # --- happenings -------------------------------------------------------------------------------------------

    def _polled(self, now: Ns, polled: w.Polled) -> None:
        reading = polled.reading
        if reading is None:
            self.keeper.silent(polled.node, now)
            self._add(Silent, now, span=polled.span, node=polled.node, error=polled.error)
            return
        node, span, incarnation = polled.node, polled.span, reading.incarnation
        if incarnation is None:
            if node in self._down:
                self._add(Silent, now, span=span, node=node, error="an answer from an unknown process")
                return
            incarnation = self.keeper.incarnation[node]
        self.counts["observed"] += 1
        self.keeper.answered(node, span, reading)
        if self._ready.get(node) != incarnation:
            self._ready[node] = incarnation
            self._add(NodeProcess, now, span=span, node=node, incarnation=incarnation, phase="ready", asked=True)
        self._observed(now, node, span, incarnation, reading)
        for other in reading.others:
            self._observed(now, node, span, incarnation, other)

    def _observed(self, now: Ns, node: str, span: Span, incarnation: int, one: Reading) -> None:
        if one.leads:
            self._elections.add((one.group, one.term, node))
        event = Observed(
            seq=self._seq,
            t=now,
            group=one.group,
            span=span,
            node=node,
            incarnation=incarnation,
            role=one.role,
            leads=one.leads,
            term=one.term,
            leader=one.leader,
            voted_for=one.voted_for,
            log_end=one.log_end,
            commit=one.commit,
            atomic=one.atomic,
        )
        if self._watchers or Observed in self._triggers.hears:
            self._append(event)
        else:  # it is first looked at when delivered
            if self._more is not None and one.leads:
                self._kept.append(event)
            self._seq += 1
            self._events.append(event)

    def _op_done(self, _now: Ns, done: w.OpDone) -> None:
        outcome = done.outcome
        self.counts[outcome.status] += 1
        event = self._add(
            Return,
            done.at,
            op=done.op,
            status=outcome.status,
            value=outcome.value,
            error=outcome.error,
            node=outcome.node,
        )
        self._pump.returned(event)

    def _host_said(self, now: Ns, said: w.HostSaid) -> None:
        news = said.news
        if news.kind == "trace":
            self._trace(now, news)
        elif news.kind == "started":
            incarnation = int(news.data["incarnation"])
            self.keeper.incarnation[news.host] = incarnation
            self._down.discard(news.host)
            self._process(now, news, "started", asked=bool(news.data.get("asked", True)), code=None)
        elif news.kind == "exited":
            asked = bool(news.data.get("asked"))
            self._down.add(news.host)
            self._dead.discard(news.host)
            self._process(now, news, "exited", asked=asked, code=news.data.get("code"))
        elif news.kind == "fatal":
            self._fatal(now, news)
        elif news.kind == "noise":
            self._noise(now, news)
        elif news.kind == "lost":
            why = str(news.data.get("why", "connection lost"))
            length, detail = news.span.hi - news.span.lo, {"back": False, "why": why}
            self._add(Noise, now, span=news.span, host=news.host, kind=AGENT_LOST, value_ns=length, detail=detail)
            self._broken(now, w.Broken(AGENT_LOST, f"{news.host}: {why}"))
        else:
            detail = dict(news.data)
            self._add(Noise, now, span=news.span, host=news.host, kind=news.kind, value_ns=0, detail=detail)

    def _noise(self, now: Ns, news: HostNews) -> None:
        detail = dict(news.data)
        kind, value = str(detail.pop("kind", "")), int(detail.pop("value_ns", 0))
        if kind == "fsync":
            self._fsync_max_ns = max(self._fsync_max_ns, value)
        elif kind == "sources":
            # Which boot it is names the machine, so it stays out of the history; a host that cannot say is alone.
            boot = str(detail.pop("boot", "")) or f"of {news.host} alone"
            detail["machine"] = self._machines.setdefault(boot, f"m{len(self._machines) + 1}")
        elif kind in LAPSING:
            self._nemesis.lapse(news.host, str(detail.get("why") or "its agent healed the host by itself"))
        self._add(Noise, now, span=news.span, host=news.host, kind=kind, value_ns=value, detail=detail)

    def _told(self, now: Ns, told: w.Traces) -> None:
        """What a node did, from a world in which no log file lies in between."""
        lines = told.lines
        self.counts["traced"] += len(lines)
        node, incarnation, span = told.node, told.incarnation, told.span
        heard = bool(self._watchers) or Traced in self._triggers.hears  # else they are first looked at when delivered
        seq, events = self._seq, self._events
        for n, name, term, role, source, data, group in lines:
            if name == "elected":
                self._elections.add((group, term, node))
            elif name in ENDS and source == "shell":
                self._ends[node, incarnation] = name
            event = Traced(
                seq=seq,
                t=now,
                group=group,
                span=span,
                node=node,
                incarnation=incarnation,
                n=n,
                name=name,
                term=term,
                role=role,
                source=source,
                data=data,
            )
            if heard:
                self._append(event)
                seq = self._seq
            else:
                events.append(event)
                seq += 1
        self._seq = seq

    def _process(
        self, now: Ns, news: HostNews, phase: Literal["started", "exited"], *, asked: bool, code: int | None
    ) -> None:
        self._add(
            NodeProcess,
            now,
            span=news.span,
            node=news.host,
            incarnation=int(news.data["incarnation"]),
            phase=phase,
            asked=asked,
            code=code,
        )
        if phase == "exited" and not asked:
            self._died(now, news, code)

    def _died(self, now: Ns, news: HostNews, code: int | None) -> None:
        """A node ended and no one asked for it. Before the first fault that ends the run."""
        incarnation, lines = int(news.data["incarnation"]), bounded(news.data.get("lines", ()))
        detail = dict(news.data.get("detail", {}))
        self._dead.add(news.host)
        self._add(
            NodeDied,
            now,
            span=news.span,
            node=news.host,
            incarnation=incarnation,
            code=code,
            lines=lines,
            detail=detail,
        )
        if self.phase not in {"start", "warmup"}:
            return
        said = self._ends.get((news.host, incarnation))
        ready = self._ready.get(news.host) == incarnation
        crashed = said == "crashed" or (said is None and crashed_early(code, lines, ready=ready))
        if crashed and not not_its_own(code, lines, detail):
            self.end_reason = "first-failure"
            self._go_heal(now)
        else:
            self._broken(now, w.Broken("node-did-not-start", f"{news.host} exited with code {code} before any fault"))

    def _fatal(self, now: Ns, news: HostNews) -> None:
        pattern, line = str(news.data.get("pattern", "")), printable(str(news.data.get("line", "")))
        incarnation = int(news.data.get("incarnation", 0))
        self._add(
            FatalLine,
            now,
            span=news.span,
            node=news.host,
            incarnation=incarnation,
            pattern=pattern,
            line=line,
        )

    def _trace(self, now: Ns, news: HostNews) -> None:
        for raw in news.data["lines"]:
            if not raw:
                continue
            held = self._lines_in(raw)
            self.counts["foreign_lines"] += not held
            for line in held:
                if isinstance(line, Malformed):
                    self._malformed(now, news, line)
                elif trouble := trace_trouble(line):
                    self._malformed(now, news, Malformed(_beginning(raw), trouble))
                else:
                    self._traced(now, news, line)

    def _lines_in(self, raw: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of output holds of the trace. An adapter that raises leaves a line that is not understood."""
        try:
            if self._trace_lines is not None:
                return self._trace_lines(raw)
            single = self._system.trace(raw)
        except Exception as error:  # noqa: BLE001 - a bug of an adapter must not cost the history
            return (Malformed(_beginning(raw), f"{type(error).__name__}: {error!s:.200}"),)
        return () if single is None else (single,)

    def _malformed(self, now: Ns, news: HostNews, line: Malformed) -> None:
        self.counts["malformed_lines"] += 1
        if self.counts["malformed_lines"] <= MALFORMED_MAX:
            detail = {"why": line.why, "line": line.line}
            self._add(Noise, now, span=news.span, host=news.host, kind=TRACE_MALFORMED, value_ns=0, detail=detail)

    def _traced(self, now: Ns, news: HostNews, line: TraceLine) -> None:
        lo_offset, hi_offset = news.data["offset"]  # history time − the host's monotonic clock, bounds
        incarnation, n, span = line.incarnation, line.n, news.span
        if not incarnation:
            incarnation = int(news.data["incarnation"])
        if not n:
            n = self._lines[news.host, incarnation] = self._lines.get((news.host, incarnation), 0) + 1
        if line.mono_ns is not None:
            span = Span(line.mono_ns + lo_offset, line.mono_ns + hi_offset)
        self.counts["traced"] += 1
        if line.name == "elected":
            self._elections.add((line.group, line.term, news.host))
        elif line.name in ENDS and line.source == "shell":
            self._ends[news.host, incarnation] = line.name
        self._add(
            Traced,
            now,
            group=line.group,
            span=span,
            node=news.host,
            incarnation=incarnation,
            n=n,
            name=line.name,
            term=line.term,
            role=line.role,
            source=line.source,
            data=line.data,
        )

    def _converged(self, now: Ns, done: w.ConvergeDone) -> None:
        purpose, asked, _ = self._converging.pop(done.token)
        for host in sorted(asked.wants):
            found = done.evidence.get(host)
            confirmed = found is not None and found.confirmed
            detail: dict[str, Any] = dict(found.detail) if found else {}
            if host in done.resets:
                detail["reset"] = done.resets[host]
            self.keeper.state[host] = asked.wants[host]
            self._lapsed(now, host, detail, found)
            self._proved_until[host] = found.span.hi if confirmed and found else now
            self._add(
                Converged,
                now,
                span=found.span if found else done.span,
                host=host,
                before=asked.before[host],
                after=asked.wants[host],
                confirmed=confirmed,
                why=found.why if found else "the host did not answer",
                evidence=detail,
            )
        if purpose == "nemesis":
            for settled in self._nemesis.settled(done.evidence, done.span):
                self._settled(now, settled)
            if self._nemesis.not_healed and self.phase == "faults":
                self._broken(now, w.Broken("not-healed", self._nemesis.not_healed))
            elif self.phase == "heal":
                self._heal_all(now)
            return
        failed = {host: e.why for host, e in done.evidence.items() if not e.confirmed and not self._only_dead(host, e)}
        missing = [host for host in asked.wants if host not in done.evidence]
        if (failed or missing) and self._heal_tries < 4:
            self._heal_tries += 1
            self._heal_all(now)
            return
        if failed or missing:
            self._not_healed = True
            self._trouble(now, "not-healed", f"hosts not healed: {failed or missing}")
        self._enter_after_heal(now)

    def _only_dead(self, host: str, found: Evidence) -> bool:
        """Whether nothing is wrong with this host but that its node dies by itself: a verdict, not harness trouble."""
        process = found.detail.get("process")
        return host in self._dead and isinstance(process, Mapping) and process.get("running") is False

    def _lapsed(self, now: Ns, host: str, detail: Mapping[str, Any], found: Evidence | None) -> None:
        """What was asked of a host was found not to be in force when it was to end."""
        before = detail.get("before")
        if found is None or not before or before.get("held", True):
            return
        self._nemesis.lapse(host, str(before["why"]))
        if not before.get("told"):  # else its agent said so itself, with the exact time
            since = min(self._proved_until.get(host, 0), found.span.lo)
            span = Span(since, max(since, found.span.lo))
            why = {"why": before["why"]}
            self._add(Noise, now, span=span, host=host, kind="rules-lost", value_ns=span.hi - span.lo, detail=why)

    def _stalled(self, now: Ns, stalled: w.Stalled) -> None:
        self._add(Noise, now, span=stalled.span, host="", kind="harness", value_ns=stalled.value_ns)

    def _stop(self, now: Ns, stop: w.Stop) -> None:
        if self.phase in {"heal", "stop"} and self.end_reason != "complete":
            return
        self.end_reason = "interrupted"
        self._add(Mark, now, name="interrupt", data={"signal": stop.signal})
        self._go_heal(now)

    def _broken(self, now: Ns, broken: w.Broken) -> None:
        first = self.end_reason != "trouble"
        self._trouble(now, broken.kind, broken.message)
        if not broken.ends:
            return
        self.end_reason = "trouble"
        if first and self.phase not in {"heal", "stop"}:
            self._go_heal(now)

    # --- phases -----------------------------------------------------------------------------------------------

    def _move(self, now: Ns) -> None:
        elapsed = now - self._since
        if self._found and self.phase in {"warmup", "faults", "quiet"} and self.end_reason == "complete":
            self.end_reason = "first-failure"
            self._go_heal(now)
        elif self.phase == "start":
            self._start_phase(now, elapsed)
        elif self.phase == "warmup" and elapsed >= WARMUP_NS:
            self._warm(now)
        elif self.phase == "faults":
            self._faults_phase(now)
        elif self.phase == "quiet" and elapsed >= self._quiet_ns():
            self._enter(now, "final")
            self._pump.use(
                self._workload.final(
                    self._workload_rng.stream("final"),
                    nodes=self.plan.nodes,
                    processes=self.plan.workload.processes,
                )
                if self.plan.workload.processes
                else None,
                unpaced=True,
            )
        elif self.phase == "final" and (self._pump.exhausted or elapsed >= self.plan.final_read_ns):
            self._finish(now)
        self._expire_converge(now)

    def _start_phase(self, now: Ns, elapsed: Ns) -> None:
        healthy = self.keeper.healthy(now)
        bound = max(START_BOUND_NS, 2 * self.plan.promise.leader_bound_ns)
        if not healthy and elapsed < bound:
            return
        if not healthy:
            absent = sorted(set(self.plan.nodes) - set(self.keeper.answering(now)))
            if absent and elapsed < max(bound, ANSWER_BOUND_NS):
                return
            if absent:
                self._broken(
                    now, w.Broken("node-did-not-start", f"{', '.join(absent)} did not answer within {elapsed} ns")
                )
                return
            self._add(Mark, now, name="step", data={"step": -1, "phase": "not-healthy"})
        self.keeper.rtt_max_ns = 0
        self._enter(now, "warmup")
        if self.plan.workload.processes:
            self._pump.use(
                self._workload.main(
                    self._workload_rng.stream("main"),
                    nodes=self.plan.nodes,
                    processes=self.plan.workload.processes,
                    rate_per_s=self.plan.workload.rate_per_s,
                )
            )

    def _warm(self, now: Ns) -> None:
        """Fix the bounds before the first fault: the promise's, plus 4 × (largest round trip + largest fsync)."""
        # Where the agents measured it: a system that answers slowly must not widen its own bounds.
        rtt = int(self.plan.calibration.get("trip_max_ns", self.keeper.rtt_max_ns))
        fsync = self._fsync_max_ns
        extra = 4 * (rtt + fsync)
        old = self.plan.promise
        promise = msgspec.structs.replace(
            old,
            leader_bound_ns=old.leader_bound_ns + extra,
            later_gap_ns=old.later_gap_ns + extra,
            step_down_ns=None if old.step_down_ns is None else old.step_down_ns + extra,
            converge_ns=None if old.converge_ns is None else old.converge_ns + extra,
        )
        self.plan = msgspec.structs.replace(
            self.plan, promise=promise, warmup={"rtt_max_ns": rtt, "fsync_max_ns": fsync, "allowance_ns": extra}
        )
        self.on_warm(self.plan)
        self._enter(now, "faults")
        self._began_faults = now
        self._nemesis.start(now)

    def _faults_phase(self, now: Ns) -> None:
        spent = now - self._began_faults + WARMUP_NS
        if spent >= OVERRUN * self.plan.time_limit_ns:
            self._nemesis.cancel()
        if not self._nemesis.idle(now):
            self._step_nemesis(now)
        if self._nemesis.finished and not self._continued(now, spent) and spent >= self.plan.time_limit_ns:
            self._go_heal(now)

    def _continued(self, now: Ns, spent: Ns) -> bool:
        """Whether the schedule is over, something is still unmet, and a step that may show it was added."""
        if self._more is None or spent >= OVERRUN * self.plan.time_limit_ns:
            return False
        unmet = self.assess(self._kept, self.plan, now)
        if unmet and self._continuation is None:
            self._continuation = self._more()
            self._left = list(self._continuation.steps)
        at = next_step(self._left, unmet) if unmet else None
        if at is None or self._continuation is None:
            self._more = None  # everything was shown, or nothing is left that could show it
            self._kept.clear()
            return False
        step = self._left.pop(at)
        schedule = self.plan.schedule
        self.plan = msgspec.structs.replace(
            self.plan, schedule=msgspec.structs.replace(schedule, steps=(*schedule.steps, step))
        )
        self._add(Mark, now, name="more", data={"unmet": [one.what for one in unmet]})
        self._nemesis.extend(step, self._continuation.conditions, now)
        self.on_warm(self.plan)
        return True

    def _step_nemesis(self, now: Ns) -> None:
        view = self.keeper.view(now)
        healthy = self.keeper.healthy(now, since=self._nemesis.healthy_since)
        notes, wanted = self._nemesis.step(now, view, healthy=healthy)
        for note in notes:
            if isinstance(note, StepMark):
                self._add(Mark, now, name="step", data={"step": note.step, "phase": note.phase})
            else:
                self._settled(now, note)
        if wanted is not None:
            self._submit_converge(now, "nemesis", w.Converge(self._next_token(), wanted.before, wanted.wants))

    def _go_heal(self, now: Ns) -> None:
        """Enter ``heal`` from any phase: every host converges to healthy, regardless of its believed state."""
        self._nemesis.cancel()
        self._pump_pause_if_ending()
        self._enter(now, "heal")
        self._heal_tries = 0
        if not self._converging:  # else: as soon as the one under way was answered
            self._heal_all(now)

    def _heal_all(self, now: Ns) -> None:
        before = {host: self.keeper.state[host] for host in self.plan.nodes}
        wants = dict.fromkeys(self.plan.nodes, HEALTHY)
        self._submit_converge(now, "heal", w.Converge(self._next_token(), before, wants))

    def _enter_after_heal(self, now: Ns) -> None:
        for settled in self._nemesis.close(Span(self._since, now), healed=not self._not_healed):
            self._settled(now, settled)
        if self.end_reason == "complete":
            self._enter(now, "quiet")
        else:
            self._finish(now)

    def _quiet_ns(self) -> Ns:
        promise = self.plan.promise
        return max(promise.leader_bound_ns * 5 // 4, (promise.converge_ns or 0) * 5 // 4)

    def _finish(self, now: Ns) -> None:
        self._pump.use(None)
        self._enter(now, "stop")
        self.done = True

    def _enter(self, now: Ns, phase: Phase) -> None:
        self.phase = phase
        self._since = now
        self._add(Mark, now, name=phase)

    def _pump_pause_if_ending(self) -> None:
        if self.end_reason != "complete":
            self._pump.use(None)

    # --- small parts ------------------------------------------------------------------------------------------

    def _invoke(self, now: Ns) -> None:
        if self.phase in {"start", "stop"}:
            return
        due = self._pump.wake_at(now)
        if due is None or due > now:
            return
        for op, process, thread, plan in self._pump.due(now, self.keeper.view(now)):
            self._add(Invoke, now, op=op, process=process, f=plan.f, value=plan.value, target=plan.target)
            self._actions.append(w.InvokeOp(op, thread, plan, self.plan.workload.op_timeout_ns))

    def _settled(self, now: Ns, settled: Settled) -> None:
        realised = settled.realised
        self._add(
            FaultEvent,
            now,
            fault=realised.fault,
            step=realised.step,
            kind=realised.kind,
            phase=settled.phase,
            span=settled.span,
            victims=realised.victims,
            roles=realised.roles,
            outcome=settled.outcome,
            why=settled.why,
            params=realised.params,
            evidence={key: settled.evidence[key] for key in ("name", "trigger") if key in settled.evidence},
        )

    def _submit_converge(self, now: Ns, purpose: str, action: w.Converge) -> None:
        self._converging[action.token] = (purpose, action, now)
        self._actions.append(action)

    def _expire_converge(self, now: Ns) -> None:
        if not self._converging:
            return
        for token, (_, action, since) in list(self._converging.items()):
            if now - since > CONVERGE_BOUND_NS:
                self._add(Trouble, now, kind="converge", message=f"no answer within {show_duration(CONVERGE_BOUND_NS)}")
                self._converged(now, w.ConvergeDone(token, Span(since, now), {}, {}))
                self.trouble.append(f"hosts {', '.join(action.wants)} did not converge in time")

    def _next_token(self) -> int:
        self._token += 1
        return self._token

    def _trouble(self, now: Ns, kind: str, message: str) -> None:
        self.trouble.append(f"{kind}: {message}")
        self._add(Trouble, now, kind=kind, message=message)

    def _node_view(self, node: str, role: str, now: Ns) -> NodeView:
        last = self.keeper.readings.get(node)
        state = self.keeper.state[node]
        faults = []
        if state.cuts:
            faults.append("cut from " + ",".join(state.cuts))
        if state.down:
            faults.append(f"down ({state.down})")
        if state.frozen:
            faults.append("paused")
        if state.clock:
            faults.append("clock")
        return NodeView(
            name=node,
            role=role,
            term=last[1].term if last else 0,
            leads=bool(last and last[1].leads),
            faults=tuple(faults),
            answers=node in self.keeper.answering(now),
            commit=last[1].commit if last else None,
        )

    def _add(self, event_type: type[Any], t: Ns, /, **fields: Any) -> Any:
        event = event_type(seq=self._seq, t=t, **fields)
        self._append(event)
        return event

    def _append(self, event: AnyEvent) -> None:
        """The next event, numbered ``_seq``; also for the two kinds that there are most of."""
        self._seq += 1
        self._events.append(event)
        if self._more is not None and worth_keeping(event):
            self._kept.append(event)
        if self._watchers and self.phase in {"start", "warmup", "faults", "quiet"} and self.end_reason == "complete":
            self._watch(event)  # from the first event on: what happens before the warm-up is half of some proofs
        hears = self._triggers.hears
        if hears and type(event) in hears:
            self._nemesis.feed(event, event.t, lambda: self.keeper.view(event.t))

    def _watch(self, event: AnyEvent) -> None:
        if any([watcher(event) for watcher in self._watchers]):  # noqa: C419 - each watcher must see each event
            self._found = True

    def _take(self) -> tuple[list[AnyEvent], list[w.Action]]:
        events, actions = self._events, self._actions
        self._events, self._actions = [], []
        return events, actions

    _HANDLERS: Mapping[type, Callable[[Director, Ns, Any], None]] = {}


Director._HANDLERS = {  # noqa: SLF001 - the table of the class' own methods
    w.Polled: Director._polled,  # noqa: SLF001
    w.OpDone: Director._op_done,  # noqa: SLF001
    w.HostSaid: Director._host_said,  # noqa: SLF001
    w.Traces: Director._told,  # noqa: SLF001
    w.ConvergeDone: Director._converged,  # noqa: SLF001
    w.Stalled: Director._stalled,  # noqa: SLF001
    w.Stop: Director._stop,  # noqa: SLF001
    w.Broken: Director._broken,  # noqa: SLF001
}


def _health_bound(plan: Plan) -> Ns:
    """The schedule's own, else twice the time in which a leader is owed."""
    if plan.schedule.health_bound_ns is not None:
        return plan.schedule.health_bound_ns
    return max(2 * plan.promise.leader_bound_ns, plan.promise.converge_ns or 0)


def _beginning(raw: bytes) -> str:
    return raw[:LINE_SHOWN].decode("utf-8", "replace")


def _nothing_unmet(_events: Sequence[AnyEvent], _plan: Plan, _now: Ns) -> Sequence[Unmet]:
    """No checker, so nothing is missing."""
    return ()


def _ignore(_plan: Plan) -> None:
    """No caller wants it."""
