"""Failover figures: from a fault that hit the leader to the moment it was noticed, replaced, and written through.

Guarantees: pure; times are censored at the next change of the fault state (or the end), and quantiles are Kaplan–Meier
estimates, so that a censored time never counts as a fast one. Judging is out of scope: these are figures.

Source: Kaplan, Meier, "Nonparametric estimation from incomplete observations", JASA 1958.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent, Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import declared
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report.marks import leading_roles, node_marks
from dethrone.harness.report.words import moment

WRITES = frozenset({"append", "put", "cas", "write", "enqueue", "add"})


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """One fault on a leader. Durations are ns after ``t0`` (in force); None: not before ``until`` (censored)."""

    fault: int
    kind: str
    leader: str
    t0: Ns
    until: Ns
    detect: Ns | None
    elected: Ns | None
    first_write: Ns | None
    rounds: int
    writes: bool
    """Whether any write of the run was acknowledged; without one ``first_write`` says nothing."""


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of one figure: how many, how many of them censored; None: the censoring leaves that quantile open."""

    count: int
    censored: int
    median: Ns | None
    p90: Ns | None
    longest: Ns | None


def failovers(history: History) -> list[Failover]:
    """All faults in force whose victims include the leader of that moment, in order."""
    faults = history.of(FaultEvent)
    leads = {role.lower() for role in leading_roles(history)} | {"leader"}
    changes = sorted(
        event.span.lo for event in faults if event.outcome in ("installed", "healed", "indeterminate", "heal_failed")
    )
    end = history.events[-1].t
    marks = node_marks(history)
    campaigns = [(mark.t, mark.term) for mark in marks if mark.kind == "campaign"]
    notices = [mark.t for mark in marks if mark.kind in ("campaign", "pre-vote")]
    elected = [mark.t for mark in marks if mark.kind == "elected"]
    writes = _writes(history)
    out = []
    for event in faults:
        if event.phase != "begin" or event.outcome != "installed" or not declared(event.kind).takes_out:
            continue
        leader = next((victim for victim in event.victims if event.roles.get(victim, "").lower() in leads), None)
        if leader is None:
            continue
        t0 = moment(event)
        later = bisect_right(changes, t0)
        until = changes[later] if later < len(changes) else end
        won = _first(elected, t0, until)
        tries = [term for t, term in campaigns if t0 <= t <= (until if won is None else won)]
        noticed = _first(notices, t0, until)
        out.append(
            Failover(
                fault=event.fault,
                kind=event.kind,
                leader=leader,
                t0=t0,
                until=until,
                detect=None
                if noticed is None and won is None
                else min(t for t in (noticed, won) if t is not None) - t0,
                elected=None if won is None else won - t0,
                first_write=_first_write(writes, won, until, t0),
                rounds=len(set(tries)),
                writes=bool(writes),
            )
        )
    return out


def quantiles(times: Sequence[Ns | None], limits: Sequence[Ns]) -> Quantiles:
    """Quantiles of ``times``; a None was still open after the ``limits`` entry of the same index."""
    seen = [time for time in times if time is not None]
    points = sorted(
        [(time, 0) for time in seen] + [(limit, 1) for time, limit in zip(times, limits, strict=True) if time is None]
    )
    alive = Fraction(1)
    marks: dict[str, Ns | None] = {"median": None, "p90": None}
    bounds = {"median": Fraction(1, 2), "p90": Fraction(1, 10)}
    for index, (time, censored) in enumerate(points):
        if not censored:
            alive *= Fraction(len(points) - index - 1, len(points) - index)
        for name, bound in bounds.items():
            if marks[name] is None and alive <= bound:
                marks[name] = time
    return Quantiles(
        count=len(points),
        censored=len(points) - len(seen),
        median=marks["median"],
        p90=marks["p90"],
        longest=max(seen, default=None),
    )


def figures(rows: Sequence[Failover]) -> dict[str, list[Ns | None]]:
    """``detect``, ``elected`` and, if the run had writes at all, ``first_write`` → a time a fault."""
    out = {"detect": [row.detect for row in rows], "elected": [row.elected for row in rows]}
    if any(row.writes for row in rows):
        out["first_write"] = [row.first_write for row in rows]
    return out


def noisy_faults(judgement: Judgement | None) -> frozenset[int]:
    """The faults at which the checker ``failover`` charged noise: their times are not the system's alone."""
    verdicts = judgement.verdicts if judgement is not None else ()
    figures = next((verdict.metrics for verdict in verdicts if verdict.checker == "failover"), {})
    found = figures.get("noisy_faults", ())
    return frozenset(one for one in found if isinstance(one, int)) if isinstance(found, list | tuple) else frozenset()


def summary(rows: Sequence[Failover]) -> dict[str, Quantiles]:
    """The ``figures`` as quantiles."""
    limits = [row.until - row.t0 for row in rows]
    return {name: quantiles(times, limits) for name, times in figures(rows).items()}


def _first(times: list[Ns], lo: Ns, hi: Ns) -> Ns | None:
    index = bisect_left(times, lo)
    return times[index] if index < len(times) and times[index] <= hi else None


def _writes(history: History) -> list[tuple[Ns, Ns]]:
    """(acknowledged, asked) of each write that was acknowledged, by acknowledgement."""
    asked = {event.op: event.t for event in history.of(Invoke) if event.f in WRITES}
    return sorted(
        (event.t, asked[event.op]) for event in history.of(Return) if event.status == "ok" and event.op in asked
    )


def _first_write(writes: list[tuple[Ns, Ns]], won: Ns | None, until: Ns, t0: Ns) -> Ns | None:
    """The first acknowledgement after the new leader's election; before it the old one may still have answered."""
    if won is None:
        return None
    index = bisect_left(writes, (won, 0))
    return writes[index][0] - t0 if index < len(writes) and writes[index][0] <= until else None
