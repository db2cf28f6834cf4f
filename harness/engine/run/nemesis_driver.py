"""Carries a schedule out, as a pure state machine: moments, events and answers in, desired states and fault events out.

Guarantees: one convergence at a time; a fault begins only after the one before it is settled; ``installed`` only with
evidence from every host that it changes; every trigger of a step that was reached is reported as a hit, with the time
from the event to the effect in force, or as a miss; at the end of a step everything is healed and health is awaited
(bounded) before the quiet gap. Out of scope: what is recorded of a fault (``realised_faults``), hosts, probes, files,
and the meaning of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.hoststate import HostState, healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, Condition, Evidence, Fault, Occurrence, Requesting
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import (
    AfterFault,
    OnEvent,
    PlannedFault,
    RealisedFault,
    RealisedSchedule,
    RealisedTrigger,
    Schedule,
    Step,
    StepBegin,
)
from dethrone.harness.core.world import RequestDone
from dethrone.harness.engine.run.armed_triggers import ArmedTriggers, Hit, Key
from dethrone.harness.engine.run.cluster_view import changed
from dethrone.harness.engine.run.fault_requests import FaultRequests
from dethrone.harness.engine.run.realised_faults import Active, RealisedFaults, Settled, hit_record
from dethrone.harness.engine.run.waiting_faults import Waiting, begin_due, due

HEAL_TRIES = 4


class Wanted(msgspec.Struct, frozen=True):
    """A convergence that the driver asks for: the hosts that change, before and after."""

    before: Mapping[str, HostState]
    wants: Mapping[str, HostState]


class StepMark(msgspec.Struct, frozen=True):
    """A step of the schedule passed a point."""

    step: int
    phase: Literal["begin", "missed", "healed", "healthy", "not-healthy"]


class NemesisDriver:
    """One run of one schedule. Call ``step`` with each new moment; call ``settled`` when a convergence was answered.

    Call ``feed`` with each event of a type in ``hears``, in order, also while a convergence is under way.
    ``conditions``: of the schedule's triggers, by name. ``traced``: the system's nodes write traces.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        faults: Mapping[str, Fault],
        nodes: tuple[str, ...],
        rng: Rng,
        health_bound_ns: Ns,
        requests: FaultRequests,
        conditions: Mapping[str, Condition] | None = None,
        traced: bool = True,
    ) -> None:
        self._schedule = schedule
        self._faults = faults
        self._nodes = nodes
        self._rng = rng
        self._health_bound_ns = health_bound_ns
        self._requests = requests
        self._step = -1
        self._phase: Literal["awaited", "faults", "health", "gap", "done"] = "gap"
        self._phase_since: Ns = 0
        self._gap_until: Ns = 0
        self.triggers = self._triggers = ArmedTriggers(conditions or {}, traced=traced)
        self._pending: list[Waiting] = []
        self._dormant: list[PlannedFault] = []
        """Faults of the step that wait for another one to be in force."""
        self._step_hit: Hit | None = None
        self._unsaid = False
        """The step began, and no event reported it yet."""
        self._view: ClusterView | None = None
        self._hit: dict[str, tuple[str, ...]] = {}
        self._active: list[Active] = []
        self._state: Mapping[str, HostState] = healthy_cluster(nodes)
        self._waiting: tuple[Literal["begin", "end"], Active, Mapping[str, HostState]] | None = None
        self._heal_tries = 0
        self._realised = RealisedFaults()
        self._cancelled = False
        self._touched = True
        """Something came in since the last ``step``."""
        self._wake: Ns | None = None
        self._wake_known = False
        """``_wake`` holds: nothing has changed since it was worked out."""
        self.not_healed: str | None = None
        """Why a heal finally failed; the run must end then."""

    @property
    def step_index(self) -> int:
        """The step that is under way (−1: none yet)."""
        return self._step

    @property
    def active(self) -> tuple[RealisedFault, ...]:
        """Faults in force now."""
        return tuple(active.realised for active in (*self._active, *self._requests.pending))

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do and everything was healed."""
        return self._phase == "done" and self._waiting is None

    @property
    def awaits_health(self) -> bool:
        """Whether the next ``step`` depends on ``healthy``."""
        return self._phase == "health"

    @property
    def healthy_since(self) -> Ns:
        """When the wait for health began; only answers asked for later prove it."""
        return self._phase_since

    @property
    def hears(self) -> frozenset[type]:
        """The types of events to ``feed``; empty while no trigger is armed."""
        return self._triggers.hears

    def idle(self, now: Ns) -> bool:
        """Whether ``step`` would do nothing now, for every view: asked first, as a view costs more."""
        if self._waiting is not None or self._phase == "done":
            return True
        if self._touched or self._phase == "health" or self._requests.pending:
            return False
        due = self._wake if self._wake_known else self.wake_at()
        return due is not None and now < due

    def start(self, now: Ns) -> None:
        """The fault phase begins."""
        self._touch()
        self._phase = "gap"
        self._gap_until = now

    def extend(self, step: Step, conditions: Mapping[str, Condition], now: Ns) -> None:
        """One more step, after all others are over. Call it only when ``finished``, and not after ``cancel``."""
        self._touch()
        self._schedule = msgspec.structs.replace(self._schedule, steps=(*self._schedule.steps, step))
        self._triggers.know(conditions)
        self._phase = "gap"
        self._gap_until = now

    def cancel(self) -> None:
        """Begin nothing more; end what is in force now, then finish."""
        self._cancelled = True
        self._touch()
        self._pending.clear()
        self._dormant.clear()
        self._triggers.clear()
        for active in self._active:
            active.end_due = 0

    def lapse(self, host: str, why: str, *, of_version: bool = False) -> None:
        """On this host something of what is in force was found not to be: every fault that changes the host lapsed.

        ``of_version``: only those that change its version.
        """
        for active in self._active:
            own = self._faults[active.realised.kind].apply(
                healthy_cluster(self._nodes), active.realised.victims, active.realised.params
            )
            sentence = f"{host}: {why}"
            concerned = host in own and (own[host].version if of_version else not own[host].healthy)
            if concerned and sentence not in active.lapsed:
                active.lapsed.append(sentence)

    def answered(self, done: RequestDone) -> None:
        """The system answered a fault's request, or did not in time."""
        self._requests.answered(done)
        self._touch()

    def close(self, span: Span, *, healed: bool) -> list[Settled]:
        """The run ends: every host was converged to healthy (or not) outside the schedule; settle what was in force."""
        out = [self._realised.cut_short(active, span, healed=healed) for active in self._active]
        out += [one for _, settled in self._requests.give_up(span.hi, self._realised) for one in settled]
        self._active.clear()
        self._phase = "done"
        self._wake_known = False
        return out

    def realised(self) -> RealisedSchedule:
        """What actually happened so far."""
        return RealisedSchedule(seed=self._schedule.seed, faults=self._realised.all())

    def wake_at(self) -> Ns | None:
        """The next moment at which ``step`` has something to do by time alone."""
        if not self._wake_known:
            self._wake = self._next_moment()
            self._wake_known = True
        return self._wake

    def _next_moment(self) -> Ns | None:
        if self._waiting is not None or self._phase == "done":
            return None
        if self._phase == "gap":
            return self._gap_until
        moments = [waiting.due for waiting in self._pending]
        moments += [at for at in (self._triggers.deadline(), self._requests.deadline()) if at is not None]
        moments += [active.end_due for active in self._active if active.end_due is not None]
        if self._phase == "health":
            moments.append(self._phase_since + self._health_bound_ns)
        return min(moments) if moments else None

    def step(self, now: Ns, view: ClusterView, *, healthy: bool) -> tuple[list[StepMark | Settled], Wanted | None]:
        """What passed by this moment, and the convergence to carry out now, if any."""
        notes: list[StepMark | Settled] = []
        self._view = view
        self._touched = self._wake_known = False
        for _ in range(10 * (len(self._nodes) + len(self._schedule.steps) + 10)):
            if self._waiting is not None or self._phase == "done":
                return notes, None
            wanted, moved = self._advance(now, view, notes, healthy=healthy)
            if wanted is not None or not moved:
                return notes, wanted
        return notes, None

    def settled(self, evidence: Mapping[str, Evidence], span: Span) -> list[Settled]:
        """The convergence asked for last was answered by these hosts."""
        if self._waiting is None:
            raise ValueError("no convergence in progress")
        phase, active, after = self._waiting
        self._waiting = None
        self._touch()
        concerned = changed(self._state, after)
        missing = [host for host in concerned if host not in evidence]
        failed = [
            f"{host}: {evidence[host].why}" for host in concerned if host in evidence and not evidence[host].confirmed
        ]
        failed += [f"{host}: no answer" for host in missing]
        details = {host: found.detail for host, found in evidence.items()}
        if phase == "begin":
            return [self._begun(active, after, span, failed, details)]
        return self._ended(active, after, span, failed, details)

    def feed(self, event: Any, now: Ns, view: Callable[[], ClusterView]) -> None:
        """An event of a type in ``hears`` was written down; what it triggers is due at the next ``step``."""

        def seen() -> ClusterView:
            return msgspec.structs.replace(view(), hit=dict(self._hit))

        for hit in self._triggers.feed(event, now, seen):
            self._touch()
            purpose, number = hit.key
            if purpose == "step":
                self._step_hit = hit
                self._begin_step(now, view())
                continue
            planned = self._schedule.steps[self._step].faults[number] if purpose == "begin" else None
            if planned is not None:
                self._pending.append(Waiting(planned, due(hit, planned.delay_ns, now), hit))
                continue
            for active in self._active:
                if active.realised.fault == number:
                    active.ended_by = hit
                    active.end_due = min(now, active.end_due or now)

    def _touch(self) -> None:
        """New input: look again, and recompute if there is something to do."""
        self._touched = True
        self._wake_known = False

    # --- one transition ---------------------------------------------------------------------------------------

    def _advance(
        self, now: Ns, view: ClusterView, notes: list[StepMark | Settled], *, healthy: bool
    ) -> tuple[Wanted | None, bool]:
        if self._phase == "gap":
            if now < self._gap_until and not self._cancelled:
                return None, False
            self._next_step(now, view)
            return None, True
        if self._unsaid:
            self._unsaid = False
            notes.append(StepMark(self._step, "begin"))
        if self._phase == "health":
            late = now - self._phase_since >= self._health_bound_ns
            if not healthy and not late and not self._cancelled:
                return None, False
            notes.append(StepMark(self._step, "healthy" if healthy else "not-healthy"))
            self._phase = "gap"
            self._gap_until = now + self._schedule.steps[self._step].gap_ns
            return None, True
        for key, trigger in self._triggers.expire(now):
            self._missed(key, trigger, now, notes)
        for active, settled in self._requests.settle(now, self._realised):
            notes += settled
            if settled[0].outcome == "skipped":
                self._skip_waiting_for(active.planned, now, notes)
            else:
                self._in_force(active, settled[0].span.hi)
        struck = next((w for w in self._pending if w.hit is not None and w.due <= now), None)
        if struck is not None:  # what an event triggered has no time to lose
            self._pending.remove(struck)
            return self._begin(struck, now, view, notes), True
        ended = min((a for a in self._active if a.end_due is not None and a.end_due <= now), key=_end_due, default=None)
        if ended is not None:
            return self._want("end", ended, [a for a in self._active if a is not ended]), True
        ready = min((w for w in self._pending if w.due <= now), key=begin_due, default=None)
        if ready is not None:
            self._pending.remove(ready)
            return self._begin(ready, now, view, notes), True
        if self._phase == "awaited" and not self._cancelled:
            return None, False
        open_faults = self._pending or self._active or self._dormant or self._requests.pending
        if not open_faults and not self._triggers.holds("begin"):
            notes.append(StepMark(self._step, "healed"))
            self._triggers.clear()
            self._phase = "health"
            self._phase_since = now
            return None, False  # only answers asked for from now on prove health
        return None, False

    def _next_step(self, now: Ns, view: ClusterView) -> None:
        if self._cancelled or self._step + 1 >= len(self._schedule.steps):
            self._phase = "done"
            return
        self._step += 1
        self._step_hit = None
        self._phase_since = now
        when = self._schedule.steps[self._step].when
        if isinstance(when, OnEvent):
            self._phase = "awaited"
            self._triggers.arm(("step", self._step), when, now, view)
        else:
            self._begin_step(now, view)

    def _begin_step(self, now: Ns, view: ClusterView) -> None:
        """The step's time runs from now on: faults that wait for nothing else are due by their delay."""
        self._phase = "faults"
        self._unsaid = True
        self._phase_since = now
        for number, planned in enumerate(self._schedule.steps[self._step].faults):
            if planned.needs_fault:
                self._dormant.append(planned)
            elif isinstance(planned.when, OnEvent):
                self._triggers.arm(("begin", number), planned.when, now, view)
            else:
                self._pending.append(Waiting(planned, now + planned.delay_ns, None))

    def _wake_dormant(self, name: str, now: Ns) -> None:
        """The fault of this name is in force: what waited for it is due, or armed."""
        woken = [planned for planned in self._dormant if name and planned.needs_fault == name]
        for planned in woken:
            self._dormant.remove(planned)
            if isinstance(planned.when, AfterFault):
                self._pending.append(Waiting(planned, now + planned.delay_ns, None))
            elif isinstance(planned.when, OnEvent):
                number = self._schedule.steps[self._step].faults.index(planned)
                self._triggers.arm(("begin", number), planned.when, now, self._view)

    def _missed(self, key: Key, trigger: OnEvent, now: Ns, notes: list[StepMark | Settled]) -> None:
        """A trigger ran out of time: its fault, or every fault of its step, is skipped. An end has its hold anyway."""
        purpose, number = key
        why = f"the event {trigger.event!r} did not occur within {show_duration(trigger.within_ns)}"
        missed = RealisedTrigger(event=trigger.event, outcome="miss")
        if purpose == "begin":
            self._skip(self._schedule.steps[self._step].faults[number], now, notes, why=why, trigger=missed)
        elif purpose == "step":
            notes.append(StepMark(self._step, "missed"))
            self._phase = "faults"
            for planned in self._schedule.steps[self._step].faults:
                self._skip(planned, now, notes, why=f"its step was skipped: {why}", trigger=missed)
        else:
            self._realised.end_missed(number, missed, self._active)

    def _begin(self, ready: Waiting, now: Ns, view: ClusterView, notes: list[StepMark | Settled]) -> Wanted | None:
        planned, hit = ready.planned, ready.hit or self._step_hit
        trigger = hit_record(hit if ready.hit is not None or isinstance(planned.when, StepBegin) else None, None)
        kind = self._faults[planned.kind]
        occurrence: Occurrence | None = hit.occurrence if hit is not None else None
        seen = msgspec.structs.replace(view, occurrence=occurrence, hit=dict(self._hit))
        resolved = kind.resolve(planned, seen, self._rng.stream(f"fault-{len(self._realised)}"))
        if isinstance(resolved, str):
            self._skip(planned, now, notes, why=resolved, trigger=trigger)
            return None
        victims, params = resolved
        realised = self._realised.due(
            planned,
            step=self._step,
            victims=victims,
            roles={victim: view.roles.get(victim, "unknown") for victim in victims},
            params=params,
            trigger=trigger,
            zones=view.zones,
        )
        active = Active(realised, planned, hit if trigger is not None else None)
        if isinstance(kind, Requesting):
            self._requests.begin(active, kind, now, view)
            return None
        wanted = self._want("begin", active, [*self._active, active])
        if wanted is None:
            self._realised.withdraw()
            self._waiting = None
            why = "it changes nothing: other active faults have the same effect"
            self._skip(planned, now, notes, why=why, victims=victims, trigger=trigger)
        return wanted

    def _skip(
        self,
        planned: PlannedFault,
        now: Ns,
        notes: list[StepMark | Settled],
        *,
        why: str,
        victims: tuple[str, ...] = (),
        trigger: RealisedTrigger | None = None,
    ) -> None:
        notes.append(self._realised.skipped(planned, now, step=self._step, why=why, victims=victims, trigger=trigger))
        self._skip_waiting_for(planned, now, notes)

    def _skip_waiting_for(self, planned: PlannedFault, now: Ns, notes: list[StepMark | Settled]) -> None:
        for other in [one for one in self._dormant if planned.name and one.needs_fault == planned.name]:
            self._dormant.remove(other)
            missed = (
                RealisedTrigger(event=other.when.event, outcome="miss") if isinstance(other.when, OnEvent) else None
            )
            why = f"the fault {planned.name!r} that it waits for was skipped"
            self._skip(other, now, notes, why=why, trigger=missed)

    def _want(self, phase: Literal["begin", "end"], active: Active, rest: list[Active]) -> Wanted | None:
        after: Mapping[str, HostState] = healthy_cluster(self._nodes)
        for other in rest:
            after = self._faults[other.realised.kind].apply(after, other.realised.victims, other.realised.params)
        wants = changed(self._state, after)
        self._waiting = (phase, active, after)
        if not wants:
            if phase == "end":  # another fault still has the same effect: this one ends without any change
                wants = {host: after[host] for host in active.realised.victims if host in after}
            if not wants:
                return None
        return Wanted({host: self._state[host] for host in wants}, wants)

    def _begun(
        self, active: Active, after: Mapping[str, HostState], span: Span, failed: list[str], details: Mapping[str, Any]
    ) -> Settled:
        settled = self._realised.begun(active, span, failed, details)
        planned, realised = active.planned, active.realised
        active.end_due = 0 if self._cancelled else span.hi + planned.hold_ns
        self._active.append(active)
        self._state = after
        self._in_force(active, span.hi)
        if not self._cancelled and planned.until is not None:
            self._triggers.arm(("until", realised.fault), planned.until, span.hi, self._view)
        return settled

    def _in_force(self, active: Active, now: Ns) -> None:
        """What waited for this fault may begin."""
        name = active.planned.name
        if name:
            self._hit[name] = active.realised.victims
        if not self._cancelled:
            self._wake_dormant(name, now)

    def _ended(
        self, active: Active, after: Mapping[str, HostState], span: Span, failed: list[str], details: Mapping[str, Any]
    ) -> list[Settled]:
        if failed:
            self._heal_tries += 1
            if self._heal_tries < HEAL_TRIES:
                return []  # still active and due: the next step asks for the same convergence again
            self.not_healed = "; ".join(failed)
        self._heal_tries = 0
        self._active.remove(active)
        self._state = after
        self._triggers.disarm(("until", active.realised.fault))
        return [self._realised.ended(active, span, failed, details)]


def _end_due(active: Active) -> Ns:
    return active.end_due if active.end_due is not None else 0
