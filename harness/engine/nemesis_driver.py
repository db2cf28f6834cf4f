"""Carries a schedule out, as a pure state machine: moments and answers in, desired states and fault events out.

Promises: one convergence at a time; a fault begins only after the one before it is settled; ``installed`` only with
evidence from every host that it changes; at the end of a step everything is healed and health is awaited (bounded)
before the quiet gap. Leaves out hosts, probes and files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from harness.core.clock import Ns, Span
from harness.core.hoststate import HostState, healthy_cluster
from harness.core.protocols import ClusterView, Evidence, Fault
from harness.core.rng import Rng
from harness.core.schedule import PlannedFault, RealisedFault, RealisedSchedule, Schedule
from harness.engine.view import changed

HEAL_TRIES = 4


class Wanted(msgspec.Struct, frozen=True):
    """A convergence that the driver asks for: the hosts that change, before and after."""

    before: Mapping[str, HostState]
    wants: Mapping[str, HostState]


class Settled(msgspec.Struct, frozen=True):
    """A fault began or ended, to be written as a FaultEvent."""

    realised: RealisedFault
    phase: Literal["begin", "end"]
    outcome: Literal["installed", "skipped", "indeterminate", "healed", "heal_failed"]
    span: Span
    why: str
    evidence: Mapping[str, Any]


class StepMark(msgspec.Struct, frozen=True):
    """A step of the schedule passed a point."""

    step: int
    phase: Literal["begin", "healed", "healthy", "not-healthy"]


class _Active:
    """A fault in force, or about to be."""

    def __init__(self, realised: RealisedFault, planned: PlannedFault, end_due: Ns | None) -> None:
        self.realised = realised
        self.planned = planned
        self.end_due = end_due


class NemesisDriver:
    """One run of one schedule. Call ``step`` with each new moment; call ``settled`` when a convergence was answered."""

    def __init__(
        self,
        schedule: Schedule,
        *,
        faults: Mapping[str, Fault],
        nodes: tuple[str, ...],
        rng: Rng,
        health_bound_ns: Ns,
    ) -> None:
        self._schedule = schedule
        self._faults = faults
        self._nodes = nodes
        self._rng = rng
        self._health_bound_ns = health_bound_ns
        self._step = -1
        self._phase: Literal["faults", "healing", "health", "gap", "done"] = "gap"
        self._phase_since: Ns = 0
        self._gap_until: Ns = 0
        self._pending: list[tuple[Ns, PlannedFault]] = []
        self._active: list[_Active] = []
        self._state: Mapping[str, HostState] = healthy_cluster(nodes)
        self._waiting: tuple[Literal["begin", "end"], _Active, Mapping[str, HostState]] | None = None
        self._heal_tries = 0
        self._realised: list[RealisedFault] = []
        self._cancelled = False
        self.not_healed: str | None = None
        """Why a heal finally failed; the run must end then."""

    @property
    def step_index(self) -> int:
        """The step that is under way (−1: none yet)."""
        return self._step

    @property
    def active(self) -> tuple[RealisedFault, ...]:
        """Faults in force now."""
        return tuple(active.realised for active in self._active)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do and everything was healed."""
        return self._phase == "done" and self._waiting is None

    @property
    def healthy_since(self) -> Ns:
        """When the wait for health began; only answers asked for later prove it."""
        return self._phase_since

    def start(self, now: Ns) -> None:
        """The fault phase begins."""
        self._phase = "gap"
        self._gap_until = now

    def cancel(self) -> None:
        """Begin nothing more; end what is in force now, then finish."""
        self._cancelled = True
        self._pending.clear()
        for active in self._active:
            active.end_due = 0

    def close(self, span: Span, *, healed: bool) -> list[Settled]:
        """The run ends: every host was converged to healthy (or not) outside the schedule; settle what was in force."""
        out = []
        for active in self._active:
            active.realised = msgspec.structs.replace(active.realised, end=span, healed=healed)
            self._replace(active.realised)
            outcome: Literal["healed", "heal_failed"] = "healed" if healed else "heal_failed"
            out.append(Settled(active.realised, "end", outcome, span, "the run ended", {}))
        self._active.clear()
        self._phase = "done"
        return out

    def realised(self) -> RealisedSchedule:
        """What really happened so far."""
        return RealisedSchedule(seed=self._schedule.seed, faults=tuple(self._realised))

    def wake_at(self) -> Ns | None:
        """The next moment at which ``step`` has something to do by time alone."""
        if self._waiting is not None or self._phase == "done":
            return None
        if self._phase == "gap":
            return self._gap_until
        moments = [due for due, _ in self._pending]
        moments += [active.end_due for active in self._active if active.end_due is not None]
        if self._phase == "health":
            moments.append(self._phase_since + self._health_bound_ns)
        return min(moments) if moments else None

    def step(self, now: Ns, view: ClusterView, *, healthy: bool) -> tuple[list[StepMark | Settled], Wanted | None]:
        """What passed by this moment, and the convergence to carry out now, if any."""
        notes: list[StepMark | Settled] = []
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
            raise ValueError("no convergence is under way")
        phase, active, after = self._waiting
        self._waiting = None
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

    # --- one transition ---------------------------------------------------------------------------------------

    def _advance(
        self, now: Ns, view: ClusterView, notes: list[StepMark | Settled], *, healthy: bool
    ) -> tuple[Wanted | None, bool]:
        if self._phase == "gap":
            if now < self._gap_until and not self._cancelled:
                return None, False
            self._next_step(now, notes)
            return None, True
        if self._phase == "health":
            late = now - self._phase_since >= self._health_bound_ns
            if not healthy and not late and not self._cancelled:
                return None, False
            notes.append(StepMark(self._step, "healthy" if healthy else "not-healthy"))
            self._phase = "gap"
            self._gap_until = now + self._schedule.steps[self._step].gap_ns
            return None, True
        ended = min((a for a in self._active if a.end_due is not None and a.end_due <= now), key=_due, default=None)
        if ended is not None:
            return self._want("end", ended, [a for a in self._active if a is not ended]), True
        if self._pending and self._pending[0][0] <= now:
            _, planned = self._pending.pop(0)
            return self._begin(planned, now, view, notes), True
        if not self._pending and not self._active:
            notes.append(StepMark(self._step, "healed"))
            self._phase = "health"
            self._phase_since = now
            return None, False  # only answers asked for from now on prove health
        return None, False

    def _next_step(self, now: Ns, notes: list[StepMark | Settled]) -> None:
        if self._cancelled or self._step + 1 >= len(self._schedule.steps):
            self._phase = "done"
            return
        self._step += 1
        step = self._schedule.steps[self._step]
        self._pending = sorted(((now + fault.delay_ns, fault) for fault in step.faults), key=lambda item: item[0])
        self._phase = "faults"
        self._phase_since = now
        notes.append(StepMark(self._step, "begin"))

    def _begin(
        self, planned: PlannedFault, now: Ns, view: ClusterView, notes: list[StepMark | Settled]
    ) -> Wanted | None:
        number = len(self._realised)
        kind = self._faults[planned.kind]
        resolved = kind.resolve(planned, view, self._rng.stream(f"fault-{number}"))
        if isinstance(resolved, str):
            self._skip(planned, (), now, resolved, notes)
            return None
        victims, params = resolved
        realised = RealisedFault(
            fault=number,
            step=self._step,
            kind=planned.kind,
            victims=victims,
            roles={victim: view.roles.get(victim, "unknown") for victim in victims},
            params=params,
            outcome="indeterminate",
            healed=False,
        )
        active = _Active(realised, planned, None)
        self._realised.append(realised)
        wanted = self._want("begin", active, [*self._active, active])
        if wanted is None:
            self._realised.pop()
            self._waiting = None
            self._skip(planned, victims, now, "it changes nothing: other faults have the same effect", notes)
        return wanted

    def _skip(
        self, planned: PlannedFault, victims: tuple[str, ...], now: Ns, why: str, notes: list[StepMark | Settled]
    ) -> None:
        realised = RealisedFault(
            fault=len(self._realised),
            step=self._step,
            kind=planned.kind,
            victims=victims,
            params=planned.params,
            outcome="skipped",
            healed=True,
            why=why,
        )
        self._realised.append(realised)
        notes.append(Settled(realised, "begin", "skipped", Span(now, now), why, {}))

    def _want(self, phase: Literal["begin", "end"], active: _Active, rest: list[_Active]) -> Wanted | None:
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
        self, active: _Active, after: Mapping[str, HostState], span: Span, failed: list[str], details: Mapping[str, Any]
    ) -> Settled:
        outcome: Literal["installed", "indeterminate"] = "indeterminate" if failed else "installed"
        why = "; ".join(failed)
        active.realised = msgspec.structs.replace(active.realised, begin=span, outcome=outcome, why=why)
        self._replace(active.realised)
        active.end_due = 0 if self._cancelled else span.hi + active.planned.hold_ns
        self._active.append(active)
        self._state = after
        return Settled(active.realised, "begin", outcome, span, why, details)

    def _ended(
        self, active: _Active, after: Mapping[str, HostState], span: Span, failed: list[str], details: Mapping[str, Any]
    ) -> list[Settled]:
        if failed:
            self._heal_tries += 1
            if self._heal_tries < HEAL_TRIES:
                return []  # still active and due: the next step asks for the same convergence again
            self.not_healed = "; ".join(failed)
        self._heal_tries = 0
        self._active.remove(active)
        self._state = after
        active.realised = msgspec.structs.replace(active.realised, end=span, healed=not failed)
        self._replace(active.realised)
        outcome: Literal["healed", "heal_failed"] = "heal_failed" if failed else "healed"
        return [Settled(active.realised, "end", outcome, span, "; ".join(failed), details)]

    def _replace(self, realised: RealisedFault) -> None:
        self._realised[realised.fault] = realised


def _due(active: _Active) -> Ns:
    return active.end_due if active.end_due is not None else 0
