"""What all checkers share: when a property is not judged, when findings are excused, how a verdict comes about.

Promises: never ``pass`` for an incomplete or damaged history or for a property that was not exercised; a finding that
realised faults took out of the promise is shown and does not fail. Leaves out every property itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from harness.core.clock import Ns
from harness.core.events import FaultEvent
from harness.core.plan import Plan
from harness.core.promise import Promise
from harness.core.verdict import Finding, Verdict

if TYPE_CHECKING:
    from harness.core.history import History

VERSION = "1"
FINDINGS_MAX = 20
"""Findings listed in a verdict; the evidence tells how many there were."""
WRITELESS = frozenset({"election"})
"""Workloads that write nothing: what needs written data cannot be observed under them."""
WRITES = frozenset({"append", "put", "cas", "write", "add", "enqueue", "publish", "propose", "txn"})
"""Op names that change something."""

Kind = Literal["safety", "liveness", "coverage", "metric"]


class Base:
    """The constant part of a checker, and how it says its verdict."""

    name = ""
    version = VERSION
    kind: Kind = "safety"

    def na(self, reason: str) -> Verdict:
        """``n/a`` with its reason."""
        return Verdict(checker=self.name, version=self.version, kind=self.kind, outcome="n/a", reason=reason)

    def not_owed(self, promise: Promise) -> Verdict | None:
        """``n/a`` where the promise exempts this property."""
        exempt = promise.exempt.get(self.name)
        return None if exempt is None else self.na(f"{exempt.kind}: {exempt.reason}")

    def not_observable(self, plan: Plan, *any_of: str) -> Verdict | None:
        """``n/a`` where the system offers none of these channels."""
        if any(channel in plan.observable for channel in any_of):
            return None
        return self.na(f"not observable: {plan.system} offers no {' or '.join(any_of)} channel")

    def conclude(
        self,
        history: History,
        *,
        findings: Sequence[Finding],
        judged: int,
        nothing: str,
        evidence: Mapping[str, Any],
        metrics: Mapping[str, Any] | None = None,
        doubts: Sequence[str] = (),
        noise: Sequence[str] = (),
    ) -> Verdict:
        """The verdict: findings fail; then damage, doubts and too little exercise are ``unknown``; then ``pass``.

        ``judged``: how often the property was really tested; ``nothing``: what to say if that is 0. ``noise``: doubts
        that noise of the hosts alone explains. The evidence of an ``unknown`` says ``unknown_by``: ``noise`` where
        there is no other doubt, so that a run on a quieter machine may settle it; else ``evidence``.
        """
        failing = [finding for finding in findings if finding.excused is None]
        excused = [finding for finding in findings if finding.excused is not None]
        told: dict[str, Any] = {**evidence, "judged": judged}
        if findings:
            told["findings"] = len(failing)
            told["excused"] = len(excused)
        outcome: Literal["pass", "unknown", "fail"]
        if failing:
            outcome, reason = "fail", failing[0].sentence
        elif not history.complete:
            outcome, reason = "unknown", incomplete(history)
        elif doubts or noise:
            outcome, reason = "unknown", "; ".join(dict.fromkeys((*doubts, *noise)))
        elif judged == 0:
            outcome, reason = "unknown", f"not exercised: {nothing}"
        else:
            outcome = "pass"
            reason = f"{len(excused)} finding(s) excused: {excused[0].excused}" if excused else ""
        if outcome == "unknown":
            told["unknown_by"] = "noise" if noise and not doubts and history.complete else "evidence"
        return Verdict(
            checker=self.name,
            version=self.version,
            kind=self.kind,
            outcome=outcome,
            reason=reason,
            findings=tuple((failing + excused)[:FINDINGS_MAX]),
            evidence=told,
            metrics=dict(metrics or {}),
        )


def incomplete(history: History) -> str:
    """Why a history cannot be passed."""
    return f"the history is not complete: {history.damage or 'it has no end record'}"


def writes_expected(plan: Plan) -> bool:
    """Whether this run's clients write."""
    return plan.workload.name not in WRITELESS and plan.workload.processes > 0


def votes_needed(promise: Promise, voters: int) -> int:
    """Votes that elect among that many voters."""
    return promise.quorum if promise.quorum is not None else voters // 2 + 1


def moment(event: Any) -> Ns:
    """The latest moment at which this event can have happened."""
    span = getattr(event, "span", None)
    return int(event.t if span is None else span.hi)


def in_force(event: FaultEvent) -> bool:
    """Whether this is the begin of a fault that was, or may have been, in force."""
    return event.phase == "begin" and event.outcome in ("installed", "indeterminate")


def breaks_nothing(history: History, plan: Plan) -> bool:
    """Whether no fault was planned, and none is recorded."""
    return not plan.schedule.steps and not history.of(FaultEvent)


class Excuses:
    """Which realised faults went beyond the promise, and from when to when."""

    def __init__(self, history: History, promise: Promise) -> None:
        self._foreign: list[tuple[Ns, str]] = []
        """(from, why): a kind that the promise does not tolerate; it excuses everything after it."""
        self._crowds: list[tuple[Ns, Ns | None, str]] = []
        """(from, to, why): more victims at once than tolerated; excuses safety for good, liveness while it lasts."""
        active: dict[str, dict[int, frozenset[str]]] = defaultdict(dict)
        crowd: dict[str, tuple[Ns, str]] = {}
        for event in sorted(history.of(FaultEvent), key=lambda item: (item.span.lo, item.seq)):
            if in_force(event):
                if promise.bears(event.kind, event.params) is None:
                    self._foreign.append(
                        (event.span.lo, f"{event.kind} on {', '.join(event.victims)} is not among the tolerated faults")
                    )
                    continue
                active[event.kind][event.fault] = frozenset(event.victims)
            elif event.phase == "end" and event.outcome == "healed":
                active[event.kind].pop(event.fault, None)
            most = promise.tolerates.get(promise.bears(event.kind, event.params) or "")
            hit = frozenset[str]().union(*active[event.kind].values())
            if most is not None and len(hit) > most:
                why = f"{event.kind} on {len(hit)} nodes at once ({', '.join(sorted(hit))}); tolerated: {most}"
                crowd.setdefault(event.kind, (event.span.lo, why))
            elif event.kind in crowd:
                since, why = crowd.pop(event.kind)
                self._crowds.append((since, event.span.hi, why))
        self._crowds += [(since, None, why) for since, why in crowd.values()]

    def safety(self, until: Ns) -> str | None:
        """Why something that happened up to ``until`` is excused, if it is."""
        for since, why in self._foreign:
            if since <= until:
                return why
        for since, _, why in self._crowds:
            if since <= until:
                return why
        return None

    def liveness(self, lo: Ns, hi: Ns) -> str | None:
        """Why a lack of progress within [lo, hi] is excused, if it is."""
        for since, why in self._foreign:
            if since <= hi:
                return why
        for since, to, why in self._crowds:
            if since <= hi and (to is None or to >= lo):
                return why
        return None


def excuses(history: History, promise: Promise) -> Excuses:
    """The excuses of this history under this promise (cached)."""
    key = "checkers.base.excuses"
    found: tuple[Promise, Excuses] | None = history.cache.get(key)
    if found is None or found[0] != promise:
        found = (promise, Excuses(history, promise))
        history.cache[key] = found
    return found[1]


def finding(
    history: History,
    promise: Promise,
    sentence: str,
    certificate: Iterable[int],
    *,
    nodes: Iterable[str] = (),
    term: int | None = None,
    data: Mapping[str, Any] | None = None,
) -> Finding:
    """A safety finding; excused if a fault beyond the promise came before its last event."""
    seqs = tuple(sorted(set(certificate)))
    until = max((moment(history.at(seq)) for seq in seqs), default=0)
    return Finding(
        sentence=sentence,
        certificate=seqs,
        nodes=tuple(sorted(set(nodes))),
        term=term,
        excused=excuses(history, promise).safety(until),
        data=dict(data or {}),
    )


def seconds(span_ns: Ns) -> str:
    """Nanoseconds as people read them."""
    return f"{span_ns / 1e9:.3f} s" if abs(span_ns) >= 1_000_000_000 else f"{span_ns / 1e6:.1f} ms"


class FaultWatch:
    """For watchers: turns True for ever once a fault beyond the promise begins (findings after it are excused)."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._active: dict[str, dict[int, frozenset[str]]] = defaultdict(dict)
        self.excused = False

    def feed(self, event: FaultEvent) -> None:
        """Take one fault event into account."""
        if in_force(event):
            key = self._promise.bears(event.kind, event.params)
            if key is None:
                self.excused = True
                return
            self._active[event.kind][event.fault] = frozenset(event.victims)
            most = self._promise.tolerates[key]
            hit = frozenset[str]().union(*self._active[event.kind].values())
            self.excused = self.excused or (most is not None and len(hit) > most)
        elif event.phase == "end" and event.outcome == "healed":
            self._active[event.kind].pop(event.fault, None)
