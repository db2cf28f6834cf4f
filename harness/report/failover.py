"""Failover figures: from a fault that hit the leader to the moment it was noticed, replaced, and written through.

Guarantees: times are censored at the next change of the fault state (or the end), and quantiles are Kaplan–Meier
estimates, so that a censored time never counts as a fast one. Memory grows with faults, elections and campaigns, not
with the history. Judging is out of scope: these are figures.

Source: Kaplan, Meier, "Nonparametric estimation from incomplete observations", JASA 1958.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent, Invoke, Observed, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import declared
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report.marks import MarkFold, NodeMark, leading
from dethrone.harness.report.words import moment

_ACKS_MAX = 100_000
"""Writes among which an election that is written down late still finds the first after it."""

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
    marks, fold = MarkFold(), FailoverFold()
    end: Ns = 0
    for event in history:
        for source, mark in marks.add(event):
            fold.mark(source, mark)
        fold.add(event)
        end = event.t
    return fold.rows(marks, end=end)


class FailoverFold:
    """Collects what the rows are made of, event by event."""

    def __init__(self) -> None:
        self._leading: set[str] = set()
        self._faults: list[FaultEvent] = []
        self._changes: list[Ns] = []
        self._times: dict[tuple[str, str], array[int]] = defaultdict(lambda: array("q"))
        """Kind and source of marks → their moments."""
        self._terms: dict[str, array[int]] = defaultdict(lambda: array("q"))
        """Source → the term of each campaign, as its hash: a term may be any number."""
        self._writes = _Writes()

    def mark(self, source: str, mark: NodeMark) -> None:
        """A mark of the history, and the source that it has by ``MarkFold``."""
        if mark.kind not in ("campaign", "pre-vote", "elected"):
            return
        self._times[mark.kind, source].append(mark.t)
        if mark.kind == "campaign":
            self._terms[source].append(hash(mark.term))
        elif mark.kind == "elected":
            self._writes.await_after(mark.t)

    def add(self, event: Any) -> None:
        """One event more."""
        if isinstance(event, Observed):
            if event.leads:
                self._leading.add(event.role)
        elif isinstance(event, Invoke | Return):
            self._writes.add(event)
        elif isinstance(event, FaultEvent):
            if event.outcome in ("installed", "healed", "indeterminate", "heal_failed"):
                self._changes.append(event.span.lo)
            takes_out = declared(event.kind).takes_out and event.params.get("way") != "new-only"
            if event.phase == "begin" and event.outcome == "installed" and takes_out:
                self._faults.append(event)

    def rows(self, marks: MarkFold, *, end: Ns) -> list[Failover]:
        """The rows of a history that ends at ``end``; ``marks`` says which marks count."""
        leads = {role.lower() for role in leading(self._leading)} | {"leader"}
        changes = sorted(self._changes)
        kept = {key: times for key, times in self._times.items() if marks.counts(key[1])}
        terms = [
            (t, term)
            for (kind, source), times in kept.items()
            if kind == "campaign"
            for t, term in zip(times, self._terms[source], strict=True)
        ]
        terms.sort()
        notices = sorted(t for (kind, _), times in kept.items() if kind != "elected" for t in times)
        elected = sorted(t for (kind, _), times in kept.items() if kind == "elected" for t in times)
        out = []
        for event in self._faults:
            leader = next((victim for victim in event.victims if event.roles.get(victim, "").lower() in leads), None)
            if leader is None:
                continue
            t0 = moment(event)
            later = bisect_right(changes, t0)
            until = changes[later] if later < len(changes) else end
            won, noticed = _first(elected, t0, until), _first(notices, t0, until)
            last = until if won is None else won
            tries = {
                term for _, term in terms[bisect_left(terms, t0, key=_time) : bisect_right(terms, last, key=_time)]
            }
            seen = [t for t in (noticed, won) if t is not None]
            out.append(
                Failover(
                    fault=event.fault,
                    kind=event.kind,
                    leader=leader,
                    t0=t0,
                    until=until,
                    detect=min(seen) - t0 if seen else None,
                    elected=None if won is None else won - t0,
                    first_write=self._writes.first(won, until, t0),
                    rounds=len(tries),
                    writes=self._writes.any,
                )
            )
        return out


def _time(campaign: tuple[Ns, int]) -> Ns:
    return campaign[0]


class _Writes:
    """The first write that was acknowledged after each election; before it the old leader may still have answered."""

    def __init__(self) -> None:
        self.any = False
        self._asked: set[int] = set()
        self._acks: list[Ns] = []
        """The last acknowledgements, for elections that are written down after them."""
        self._waiting: list[Ns] = []
        """Heap of elections that no acknowledgement followed so far."""
        self._first: dict[Ns, Ns] = {}

    def add(self, event: Invoke | Return) -> None:
        if isinstance(event, Invoke):
            if event.f in WRITES:
                self._asked.add(event.op)
        elif event.op in self._asked:
            self._asked.discard(event.op)
            if event.status == "ok":
                self._acknowledged(event.t)

    def _acknowledged(self, t: Ns) -> None:
        self.any = True
        self._acks.append(t)
        if len(self._acks) > 2 * _ACKS_MAX:
            del self._acks[:_ACKS_MAX]
        while self._waiting and self._waiting[0] <= t:
            self._first[heappop(self._waiting)] = t

    def await_after(self, election: Ns) -> None:
        index = bisect_left(self._acks, election)
        if index < len(self._acks):
            self._first[election] = self._acks[index]
        else:
            heappush(self._waiting, election)

    def first(self, won: Ns | None, until: Ns, t0: Ns) -> Ns | None:
        found = None if won is None else self._first.get(won)
        return found - t0 if found is not None and found <= until else None


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
