"""The director: the whole course of a run as one pure step function.

Happenings in, events and actions out. Phases: start → warmup → faults → heal → quiet → final → stop. Guarantees: every
run passes the ``healing`` phase before it ends; everything has a bound (``phase_bounds``). Its parts keep their own
state: what is written before an effect (``write_before_effect``), client operations (``client_operations``), the
schedule (``nemesis_driver``), the hosts' convergence (``host_convergence``), and what nodes and hosts report
(``node_record``, ``trace_record``, ``host_noise``). Files, threads and hosts are out of scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import MS, Ns, Span
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import AGENT_LOST, SCHEMA, AnyEvent, Begin, FaultEvent, Mark, Noise, Trouble
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import Evidence, HostNews, Unmet, Watcher
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import RealisedSchedule, Step
from dethrone.harness.engine.run.client_operations import ClientOperations
from dethrone.harness.engine.run.cluster_view import ViewKeeper
from dethrone.harness.engine.run.continuation import Assess, Continuation, next_step
from dethrone.harness.engine.run.fault_requests import FaultRequests
from dethrone.harness.engine.run.host_convergence import HostConvergence
from dethrone.harness.engine.run.host_noise import HostNoise
from dethrone.harness.engine.run.listener import LiveView
from dethrone.harness.engine.run.live_picture import live_picture
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver, StepMark
from dethrone.harness.engine.run.node_record import NodeRecord
from dethrone.harness.engine.run.phase_bounds import (
    CONVERGE_BOUND_NS,
    OVERRUN,
    answer_bound,
    health_bound,
    quiet_time,
    start_bound,
    with_allowance,
)
from dethrone.harness.engine.run.planning import WARMUP_NS, Draft
from dethrone.harness.engine.run.realised_faults import FAULT_EVIDENCE, Settled
from dethrone.harness.engine.run.trace_record import TraceRecord
from dethrone.harness.engine.run.version_proof import VersionProof
from dethrone.harness.engine.run.write_before_effect import Outbox

Phase = Literal["start", "warmup", "faults", "heal", "quiet", "final", "stop"]
EndReason = Literal["complete", "first-failure", "interrupted", "trouble"]
WATCHED: frozenset[Phase] = frozenset({"start", "warmup", "faults", "quiet"})
"""Phases that a finding of a watcher ends."""
HEAL_TRIES = 4
TICK_NS = 50 * MS


class Director:
    """One run. ``step`` until ``done``."""

    def __init__(self, draft: Draft, *, watchers: Sequence[Watcher] = ()) -> None:
        self.plan: Plan = draft.plan
        self._more = draft.more
        self.assess: Assess = _nothing_unmet
        """What the run would lack if it ended now."""
        self._continuation: Continuation | None = None
        self._left: list[Step] = []
        rng = Rng(draft.plan.seed)
        nodes = draft.plan.nodes
        self.keeper = ViewKeeper(
            nodes,
            voters=self.plan.voters,
            led=bool(self.plan.promise.tiers),
            zones=self.plan.zones or {},
            versions=self.plan.versions or (),
            version_limits=self.plan.version_limits or None,
        )
        self._requests = FaultRequests(
            self.keeper.readings,
            timeout_ns=self.plan.workload.op_timeout_ns,
            bound_ns=self.plan.promise.leader_bound_ns,
        )
        self._nemesis = NemesisDriver(
            draft.plan.schedule,
            faults=draft.faults,
            nodes=nodes,
            rng=rng.stream("victims"),
            health_bound_ns=health_bound(draft.plan),
            requests=self._requests,
            conditions=draft.conditions,
            traced="traced" in draft.plan.observable,
        )
        self._outbox = outbox = Outbox(
            self._nemesis,
            view=self.keeper.view,
            watchers=watchers,
            watching=lambda: self.phase in WATCHED and self.end_reason == "complete",
            keeps=draft.more is not None,
        )
        self._operations = ClientOperations(draft.workload, draft.plan, rng.stream("workload"), outbox)
        self._hosts = HostConvergence(self.keeper, self._nemesis, outbox)
        self._nodes = NodeRecord(self.keeper, outbox)
        self._traces = TraceRecord(draft.system, outbox)
        self._versions = VersionProof(self.keeper)
        self._noise = HostNoise(self._nemesis, outbox)
        self.phase: Phase = "start"
        self._since: Ns = 0
        self._began_faults: Ns = 0
        self.end_reason: EndReason = "complete"
        self.trouble: list[str] = []
        self.done = False
        self._virtual = isinstance(draft.backend, w.VirtualBackend)
        self._heal_tries = 0
        self._not_healed = False
        self._handlers: Mapping[type, Callable[[Ns, Any], None]] = {
            w.Polled: self._nodes.polled,
            w.OpDone: self._operations.returned,
            w.HostSaid: self._host_said,
            w.Traces: self._traces.simulated,
            w.ConvergeDone: self._answered,
            w.RequestDone: self._request_done,
            w.Stalled: self._stalled,
            w.Stop: self._stop,
            w.Broken: self._broken,
        }
        self.on_warm: Callable[[Plan], None] = _ignore
        self.tick_ns: Ns = TICK_NS
        """The longest time between two steps."""
        self.rest_ns: Ns = TICK_NS
        """The same while there is nothing to decide: only the pace at which events are written down."""

    # --- the interface ----------------------------------------------------------------------------------------

    def open(self, now: Ns) -> tuple[list[AnyEvent], list[w.Action]]:
        """The first events and actions."""
        plan = self.plan
        self._write(Begin, now, schema=SCHEMA, system=plan.system, nodes=plan.nodes, seed=plan.seed)
        build = {"version": plan.system_version, "tags": dict(plan.tags)}
        self._write(Mark, now, name="start", data={key: value for key, value in build.items() if value})
        if self._virtual:
            virtual = {"virtual": True}
            self._write(Noise, now, span=Span(now, now), host="", kind="sources", value_ns=0, detail=virtual)
        self._outbox.act(w.StartNodes())
        self._since = now
        return self._outbox.take()

    def step(self, now: Ns, happenings: Sequence[w.Happening]) -> tuple[list[AnyEvent], list[w.Action]]:
        """Everything that follows from these happenings and this moment."""
        handlers = self._handlers
        for happening in happenings:
            handlers[type(happening)](now, happening)
        if not self.done:
            self._move(now)
            self._invoke(now)
        return self._outbox.take()

    def wake_at(self, now: Ns) -> Ns:
        """When to call ``step`` at the latest."""
        soonest = now + (self.rest_ns if self._rests(now) else self.tick_ns)
        if self.phase == "faults":
            due = self._nemesis.wake_at()
        elif self.phase == "warmup":
            due = self._since + WARMUP_NS
        elif self.phase == "quiet":
            due = self._since + quiet_time(self.plan)
        else:
            due = None
        if due is not None and due < soonest:
            soonest = due
        ops = self._operations.wake_at(now)
        if ops is not None and ops < soonest:
            soonest = ops
        return soonest if soonest > now else now  # noqa: FURB136 - asked at every step

    def _rests(self, now: Ns) -> bool:
        """Whether nothing but the clock can move this run on."""
        if self._hosts.under_way:
            return False
        return self.phase in {"warmup", "quiet"} or (self.phase == "faults" and self._nemesis.idle(now))

    @property
    def attentive(self) -> bool:
        """Whether a trigger is armed: then nothing that is seen may wait for the next step."""
        return bool(self._nemesis.hears)

    def realised(self) -> RealisedSchedule:
        """The schedule as it really was, so far."""
        return self._nemesis.realised()

    def live(self, now: Ns) -> LiveView:
        """A picture for live views."""
        return live_picture(
            now,
            plan=self.plan,
            phase=self.phase,
            keeper=self.keeper,
            nemesis=self._nemesis,
            counts=self._operations.counts,
            elections=self.elections,
        )

    @property
    def elections(self) -> int:
        """Distinct (term, leader) pairs seen."""
        return len(self._nodes.elections | self._traces.elections)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many operations, answers and trace lines there were, by their outcome."""
        return {**self._operations.counts, "observed": self._nodes.observed, **self._traces.counts}

    # --- happenings -------------------------------------------------------------------------------------------

    def _host_said(self, now: Ns, said: w.HostSaid) -> None:
        news = said.news
        if news.kind == "trace":
            self._traces.printed(now, news)
        elif news.kind == "started":
            self._nodes.started(now, news)
        elif news.kind == "exited":
            if self._nodes.exited(now, news) and self.phase in {"start", "warmup"}:
                self._died_early(now, news)
        elif news.kind == "fatal":
            self._nodes.fatal(now, news)
        elif news.kind == "sighted":
            self._nodes.sighted(now, news)
        elif news.kind == "noise":
            self._noise.measured(now, news)
        elif news.kind == "lost":
            why = self._noise.lost(now, news)
            self._broken(now, w.Broken(AGENT_LOST, f"{news.host}: {why}"))
        else:
            self._noise.other(now, news)

    def _died_early(self, now: Ns, news: HostNews) -> None:
        """A node ended before the first fault, and no one asked for it. That ends the run."""
        if self._nodes.crashed(news, self._traces.last_words(news.host, int(news.data["incarnation"]))):
            self.end_reason = "first-failure"
            self._go_heal(now)
        else:
            code = news.data.get("code")
            self._broken(now, w.Broken("node-did-not-start", f"{news.host} exited with code {code} before any fault"))

    def _answered(self, now: Ns, done: w.ConvergeDone) -> None:
        if not self._versions.holds(now, self._hosts.asked(done.token), done):
            self._converged(now, done)

    def _converged(self, now: Ns, done: w.ConvergeDone) -> None:
        purpose, asked = self._hosts.answered(now, done)
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
        if (failed or missing) and self._heal_tries < HEAL_TRIES:
            self._heal_tries += 1
            self._heal_all(now)
            return
        if failed or missing:
            self._not_healed = True
            self._trouble(now, "not-healed", f"hosts not healed: {failed or missing}")
        self._enter_after_heal(now)

    def _request_done(self, _now: Ns, done: w.RequestDone) -> None:
        self._nemesis.answered(done)

    def _only_dead(self, host: str, found: Evidence) -> bool:
        """Whether nothing is wrong with this host but that its node dies by itself: a verdict, not harness trouble."""
        process = found.detail.get("process")
        return host in self._nodes.dead and isinstance(process, Mapping) and process.get("running") is False

    def _stalled(self, now: Ns, stalled: w.Stalled) -> None:
        self._write(Noise, now, span=stalled.span, host="", kind="harness", value_ns=stalled.value_ns)

    def _stop(self, now: Ns, stop: w.Stop) -> None:
        if self.phase in {"heal", "stop"} and self.end_reason != "complete":
            return
        self.end_reason = "interrupted"
        self._write(Mark, now, name="interrupt", data={"signal": stop.signal})
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
        proved = self._versions.complete(now, self._nodes.dead)
        if proved is not None:
            self._converged(now, proved)
        elapsed = now - self._since
        if self._outbox.found and self.phase in {"warmup", "faults", "quiet"} and self.end_reason == "complete":
            self.end_reason = "first-failure"
            self._go_heal(now)
        elif self.phase == "start":
            self._start_phase(now, elapsed)
        elif self.phase == "warmup" and elapsed >= WARMUP_NS:
            self._warm(now)
        elif self.phase == "faults":
            self._faults_phase(now)
        elif self.phase == "quiet" and elapsed >= quiet_time(self.plan):
            self._enter(now, "final")
            self._operations.conclude()
        elif self.phase == "final" and (self._operations.exhausted or elapsed >= self.plan.final_read_ns):
            self._finish(now)
        self._expire_converge(now)

    def _start_phase(self, now: Ns, elapsed: Ns) -> None:
        healthy = self.keeper.healthy(now)
        if not healthy and elapsed < start_bound(self.plan):
            return
        if not healthy:
            absent = sorted(set(self.plan.nodes) - set(self.keeper.answering(now)))
            apart = self.keeper.apart()
            if (absent or apart) and elapsed < answer_bound(self.plan):
                return
            if absent:
                why = f"{', '.join(absent)} did not answer within {show_duration(elapsed)}"
                self._broken(now, w.Broken("node-did-not-start", why))
                return
            if apart:
                why = f"{apart}: quorums of a group are counted among all nodes that vote"
                self._broken(now, w.Broken("groups-differ", why))
                return
            self._write(Mark, now, name="step", data={"step": -1, "phase": "not-healthy"})
        self.keeper.rtt_max_ns = 0
        self._enter(now, "warmup")
        self._operations.begin()

    def _warm(self, now: Ns) -> None:
        """Fix the bounds before the first fault."""
        self.plan = with_allowance(self.plan, rtt_max_ns=self.keeper.rtt_max_ns, fsync_max_ns=self._noise.fsync_max_ns)
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
        unmet = self.assess(self._outbox.kept, self.plan, now)
        if unmet and self._continuation is None:
            self._continuation = self._more()
            self._left = list(self._continuation.steps)
        at = next_step(self._left, unmet) if unmet else None
        if at is None or self._continuation is None:
            self._more = None  # everything was shown, or nothing is left that could show it
            self._outbox.keep_no_more()
            return False
        step = self._left.pop(at)
        schedule = self.plan.schedule
        self.plan = msgspec.structs.replace(
            self.plan, schedule=msgspec.structs.replace(schedule, steps=(*schedule.steps, step))
        )
        self._write(Mark, now, name="more", data={"unmet": [one.what for one in unmet]})
        self._nemesis.extend(step, self._continuation.conditions, now)
        self.on_warm(self.plan)
        return True

    def _step_nemesis(self, now: Ns) -> None:
        view = self.keeper.view(now)
        healthy = self._nemesis.awaits_health and self.keeper.healthy(now, since=self._nemesis.healthy_since)
        notes, wanted = self._nemesis.step(now, view, healthy=healthy)
        for note in notes:
            if isinstance(note, StepMark):
                self._write(Mark, now, name="step", data={"step": note.step, "phase": note.phase})
            else:
                self._settled(now, note)
        for request in self._requests.to_send():
            self._outbox.act(request)
        if wanted is not None:
            self._hosts.ask(now, "nemesis", wanted.before, wanted.wants)

    def _go_heal(self, now: Ns) -> None:
        """Enter ``heal`` from any phase: every host converges to healthy, regardless of its believed state."""
        self._nemesis.cancel()
        if self.end_reason != "complete":
            self._operations.pause()
        self._enter(now, "heal")
        self._heal_tries = 0
        if not self._hosts.under_way:  # else: as soon as the one under way was answered
            self._heal_all(now)

    def _heal_all(self, now: Ns) -> None:
        before = {host: self.keeper.state[host] for host in self.plan.nodes}
        self._hosts.ask(now, "heal", before, dict.fromkeys(self.plan.nodes, HEALTHY))

    def _enter_after_heal(self, now: Ns) -> None:
        for settled in self._nemesis.close(Span(self._since, now), healed=not self._not_healed):
            self._settled(now, settled)
        if self.end_reason == "complete":
            self._enter(now, "quiet")
        else:
            self._finish(now)

    def _finish(self, now: Ns) -> None:
        self._operations.pause()
        self._enter(now, "stop")
        self.done = True

    def _enter(self, now: Ns, phase: Phase) -> None:
        self.phase = phase
        self._since = now
        self._write(Mark, now, name=phase)

    # --- small parts ------------------------------------------------------------------------------------------

    def _invoke(self, now: Ns) -> None:
        if self.phase in {"start", "stop"}:
            return
        due = self._operations.wake_at(now)
        if due is None or due > now:
            return
        self._operations.invoke(now, self.keeper.view(now))

    def _settled(self, now: Ns, settled: Settled) -> None:
        realised = settled.realised
        self._write(
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
            evidence={key: settled.evidence[key] for key in FAULT_EVIDENCE if key in settled.evidence},
        )

    def _expire_converge(self, now: Ns) -> None:
        if not self._hosts.under_way or self._versions.under_way:
            return
        for asked, unanswered in self._hosts.overdue(now):
            message = f"no answer within {show_duration(CONVERGE_BOUND_NS)}"
            self._write(Trouble, now, kind="converge", message=message)
            self._converged(now, unanswered)
            self.trouble.append(f"hosts {', '.join(asked.wants)} did not converge in time")

    def _trouble(self, now: Ns, kind: str, message: str) -> None:
        self.trouble.append(f"{kind}: {message}")
        self._write(Trouble, now, kind=kind, message=message)

    def _write(self, event_type: type[Any], t: Ns, /, **fields: Any) -> None:
        self._outbox.write(event_type, t, **fields)


def _nothing_unmet(_events: Sequence[AnyEvent], _plan: Plan, _now: Ns) -> Sequence[Unmet]:
    """No checker, so nothing is missing."""
    return ()


def _ignore(_plan: Plan) -> None:
    """No caller wants it."""
