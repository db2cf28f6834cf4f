"""What became of each planned fault: the realised schedule as it grows, and the reports of begins and ends. Pure.

Guarantees: faults are numbered in the order in which they were due; ``installed`` only if no host failed; a fault that
was not in force throughout is ``indeterminate``; a trigger is recorded as a hit, with the time from the event to the
effect in force, or as a miss. Out of scope: when a fault begins or ends (``nemesis_driver``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.interfaces.faults import declared
from dethrone.harness.core.schedule import PlannedFault, RealisedFault, RealisedTrigger
from dethrone.harness.engine.run.armed_triggers import Hit
from dethrone.harness.engine.run.version_proof import REPORTED

FAULT_EVIDENCE = ("name", "trigger", "engine", "zones", "versions", "answer", "killed")
"""What of ``Settled.evidence`` a history says with the fault; the rest is with the hosts."""


class Settled(msgspec.Struct, frozen=True):
    """A fault began or ended, to be written as a FaultEvent."""

    realised: RealisedFault
    phase: Literal["begin", "end"]
    outcome: Literal["installed", "skipped", "indeterminate", "healed", "heal_failed"]
    """At its end ``indeterminate``: it is healed now, and was not in force all the time until then."""
    span: Span
    why: str
    evidence: Mapping[str, Any]


class Active:
    """A fault in force, or about to be. ``ended_by``: the event that its end waited for, once it came.

    ``lapsed``: why it was not in force all the time, a sentence each.
    """

    __slots__ = ("end_due", "ended_by", "hit", "lapsed", "planned", "realised")

    def __init__(self, realised: RealisedFault, planned: PlannedFault, hit: Hit | None) -> None:
        self.realised = realised
        self.planned = planned
        self.hit = hit
        self.end_due: Ns | None = None
        self.ended_by: Hit | None = None
        self.lapsed: list[str] = []


class RealisedFaults:
    """All faults of one run that were due so far."""

    def __init__(self) -> None:
        self._faults: list[RealisedFault] = []

    def __len__(self) -> int:
        return len(self._faults)

    def all(self) -> tuple[RealisedFault, ...]:
        """In the order of their numbers."""
        return tuple(self._faults)

    def due(
        self,
        planned: PlannedFault,
        *,
        step: int,
        victims: tuple[str, ...],
        roles: Mapping[str, str],
        params: Mapping[str, Any],
        trigger: RealisedTrigger | None,
        zones: Mapping[str, str],
    ) -> RealisedFault:
        """The next fault: it is to begin, and nothing is known of its effect yet. ``zones``: node → its zone."""
        realised = RealisedFault(
            fault=len(self._faults),
            step=step,
            kind=planned.kind,
            victims=victims,
            roles=roles,
            params=params,
            outcome="indeterminate",
            healed=False,
            name=planned.name,
            trigger=trigger,
            zones=_whole_zones(victims, zones) or msgspec.UNSET,
        )
        self._faults.append(realised)
        return realised

    def withdraw(self) -> None:
        """The newest fault is not to begin after all; its number is free again."""
        self._faults.pop()

    def skipped(
        self,
        planned: PlannedFault,
        now: Ns,
        *,
        step: int,
        why: str,
        victims: tuple[str, ...],
        trigger: RealisedTrigger | None,
    ) -> Settled:
        """The next fault: it was due and did not happen."""
        realised = RealisedFault(
            fault=len(self._faults),
            step=step,
            kind=planned.kind,
            victims=victims,
            params=planned.params,
            outcome="skipped",
            healed=True,
            why=why,
            name=planned.name,
            trigger=trigger,
        )
        self._faults.append(realised)
        return Settled(realised, "begin", "skipped", Span(now, now), why, _evidence(realised.name, trigger))

    def begun(self, active: Active, span: Span, failed: list[str], details: Mapping[str, Any]) -> Settled:
        """Hosts answered to the begin of a fault. ``failed``: those that did not prove it, a sentence each."""
        outcome: Literal["installed", "indeterminate"] = "indeterminate" if failed else "installed"
        why = "; ".join(failed)
        hit = hit_record(active.hit, span)
        engine = _engine(details) if "links" in declared(active.planned.kind).touches else msgspec.UNSET
        active.realised = msgspec.structs.replace(
            active.realised, begin=span, outcome=outcome, why=why, trigger=hit, engine=engine
        )
        self._replace(active.realised)
        known = {"engine": engine, "zones": active.realised.zones, "killed": _killed(details)}
        evidence = {**_evidence(active.planned.name, hit), **details, **{key: it for key, it in known.items() if it}}
        return Settled(active.realised, "begin", outcome, span, why, evidence)

    def refused(self, active: Active, now: Ns, why: str) -> Settled:
        """The system refused what this fault asked of it: certainly nothing came of it."""
        realised = msgspec.structs.replace(active.realised, outcome="skipped", healed=True, why=why)
        self._replace(realised)
        evidence = _evidence(realised.name, realised.trigger)
        return Settled(realised, "begin", "skipped", Span(now, now), why, evidence)

    def end_missed(self, number: int, trigger: RealisedTrigger, active: list[Active]) -> None:
        """The event that was to end this fault did not occur in time; its hold ends it."""
        realised = msgspec.structs.replace(self._faults[number], until=trigger)
        self._replace(realised)
        for one in active:
            if one.realised.fault == number:
                one.realised = realised

    def ended(self, active: Active, span: Span, failed: list[str], details: Mapping[str, Any]) -> Settled:
        """Hosts answered to the end of a fault, and are not asked again."""
        until = hit_record(active.ended_by, span) or active.realised.until
        if until is None and active.planned.until is not None:
            until = RealisedTrigger(event=active.planned.until.event, outcome="miss")
        active.realised = msgspec.structs.replace(active.realised, until=until)
        outcome = self._close(active, span, healed=not failed)
        reported = {host: detail[REPORTED] for host, detail in details.items() if REPORTED in detail}
        versions = {"versions": reported} if reported else {}
        evidence = {**_evidence(active.planned.name, until), **details, **versions}
        return Settled(active.realised, "end", outcome, span, "; ".join([*failed, *active.lapsed]), evidence)

    def cut_short(self, active: Active, span: Span, *, healed: bool) -> Settled:
        """The run ended while this fault was in force."""
        outcome = self._close(active, span, healed=healed)
        return Settled(active.realised, "end", outcome, span, "; ".join(["the run ended", *active.lapsed]), {})

    def _close(self, active: Active, span: Span, *, healed: bool) -> Literal["healed", "heal_failed", "indeterminate"]:
        """Write down the end of a fault, and that it was not in force throughout if it lapsed."""
        realised = msgspec.structs.replace(active.realised, end=span, healed=healed)
        if active.lapsed:
            whys = [*filter(None, [realised.why]), *active.lapsed]
            realised = msgspec.structs.replace(realised, outcome="indeterminate", why="; ".join(whys))
        active.realised = realised
        self._replace(realised)
        if not healed:
            return "heal_failed"
        return "indeterminate" if active.lapsed else "healed"

    def _replace(self, realised: RealisedFault) -> None:
        self._faults[realised.fault] = realised


def hit_record(hit: Hit | None, effect: Span | None) -> RealisedTrigger | None:
    """A hit as it is recorded. ``effect``: command … confirmed effect of what it led to."""
    if hit is None:
        return None
    seen = hit.occurrence
    return RealisedTrigger(
        event=hit.trigger.event,
        outcome="hit",
        actor=seen.actor,
        term=seen.term,
        at=seen.span,
        seen_ns=hit.seen_ns,
        latency_ns=None if effect is None else max(0, effect.hi - seen.span.lo),
    )


def _engine(details: Mapping[str, Any]) -> str | msgspec.UnsetType:
    """By which means the hosts changed the quality of their links."""
    engines = {detail.get(part, {}).get("engine") for detail in details.values() for part in ("links", "messages")}
    return ", ".join(sorted(filter(None, engines))) or msgspec.UNSET


def _killed(details: Mapping[str, Any]) -> list[str]:
    """The hosts whose processes did not end when they were asked to, and were killed."""
    return sorted(host for host, detail in details.items() if detail.get("SIGTERM", {}).get("killed"))


def _whole_zones(victims: tuple[str, ...], zones: Mapping[str, str]) -> tuple[str, ...]:
    """The zones that the victims are, if they are whole zones."""
    hit = {zones.get(victim, "") for victim in victims}
    whole = {node for node, zone in zones.items() if zone in hit}
    return tuple(sorted(hit)) if victims and whole == set(victims) else ()


def _evidence(name: str, trigger: RealisedTrigger | None) -> dict[str, Any]:
    """What a fault event says besides its hosts: the fault's name, and what became of its trigger."""
    out: dict[str, Any] = {"name": name} if name else {}
    if trigger is not None:
        out["trigger"] = msgspec.to_builtins(trigger)
    return out
