"""What all checkers share: when a property is not judged, when findings are excused, how a verdict comes about.

Guarantees: never ``pass`` for an incomplete or damaged history or for a property that was not exercised; a finding that
realised faults took out of the promise is shown and does not fail; a run that is watched as it goes and a stored one
are judged by the same fold over their events (``Folded``). Out of scope: every property itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from dethrone.checkers.excuses import Excuses, excuses, in_force
from dethrone.checkers.members import returned
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, View
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Kind, Verdict, exempted

VERSION = "1"
FINDINGS_MAX = 20
"""Findings listed in a verdict; the evidence counts them all."""
WRITELESS = frozenset({"election"})
"""Workloads that write nothing: what needs written data cannot be observed under them."""
WRITES = frozenset({"append", "put", "cas", "write", "add", "enqueue", "publish", "propose", "txn"})
"""Op names that change something."""


class Base:
    """The constant part of a checker, and how it says its verdict."""

    name = ""
    version = VERSION
    kind: Kind = "safety"

    channels: ClassVar[tuple[str, ...]] = ()
    """A system that offers none of these shows nothing of the property; (): every system does."""
    views: ClassVar[tuple[View[Any], ...]] = ()
    """What it reads that takes a pass over the history, so that one pass makes the views of all checkers."""

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        return self.not_judged(promise, plan) or self.examine(history, promise, plan)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict on what is owed and can be observed."""
        raise NotImplementedError

    def na(self, reason: str) -> Verdict:
        """``n/a`` with its reason."""
        return Verdict(checker=self.name, version=self.version, kind=self.kind, outcome="n/a", reason=reason)

    def not_judged(self, promise: Promise, plan: Plan) -> Verdict | None:
        """``n/a`` where the promise exempts this property, or the system offers none of its channels."""
        if (na := self.not_owed(promise)) is not None:
            return na
        if not self.channels or any(channel in plan.observable for channel in self.channels):
            return None
        return self.na(f"not observable: {plan.system} offers no {' or '.join(self.channels)} channel")

    def not_owed(self, promise: Promise) -> Verdict | None:
        """``n/a`` where the promise exempts this property."""
        return exempted(promise, name=self.name, version=self.version, kind=self.kind)

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


def breaks_nothing(history: History, plan: Plan) -> bool:
    """Whether no fault was planned, and none is recorded."""
    return not plan.schedule.steps and not history.of(FaultEvent)


class Fold(Protocol):
    """All that a property needs to know of the events so far."""

    def feed(self, event: Any) -> Ns | None:
        """Take one event. If it makes a violation certain: the latest moment at which one of its proofs happened."""


class Folded(Base):
    """A checker that can watch a run as it goes: its verdict is read off the fold that a watcher feeds.

    ``examine`` may feed the fold only with those events that can make a difference, which it finds by columns.
    """

    def fold(self, promise: Promise, plan: Plan) -> Fold:
        """The fold, before the first event."""
        raise NotImplementedError

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Any], bool]:
        """A function that answers True to the event with which a violation is certain that no fault excuses.

        Once a node was removed from the members nothing is, until the whole history shows what it may have forgotten.
        """
        if self.not_judged(promise, plan) is not None:
            return lambda _: False
        feed, faults = self.fold(promise, plan).feed, Excuses(promise)
        removed = False

        def see(event: Any) -> bool:
            nonlocal removed
            if type(event) is FaultEvent:
                faults.feed(event)
                removed = removed or (in_force(event) and declared(event.kind).removes)
                return False
            until = feed(event)
            return until is not None and not removed and faults.safety(until) is None

        return see


def finding(
    history: History,
    promise: Promise,
    sentence: str,
    certificate: Iterable[int],
    *,
    nodes: Iterable[str] = (),
    term: int | None = None,
    data: Mapping[str, Any] | None = None,
    timed: bool = False,
    remembering: str = "",
) -> Finding:
    """A safety finding; excused if a fault beyond the promise came before its last event.

    ``timed``: the property rests on clocks (``Excuses.timing``). ``remembering``: it says that this node forgot
    something of its own: excused, too, if it was removed from the members in between.
    """
    seqs = tuple(sorted(set(certificate)))
    moments = [moment(history.at(seq)) for seq in seqs]
    until = max(moments, default=0)
    found = excuses(history, promise)
    excused = found.timing(until) if timed else found.safety(until)
    if excused is None and remembering and returned(history, remembering, min(moments, default=0), until):
        excused = f"{remembering} was removed from the members meanwhile, and came back as a new one"
    return Finding(
        sentence=sentence,
        certificate=seqs,
        nodes=tuple(sorted(set(nodes))),
        term=term,
        excused=excused,
        data=dict(data or {}),
    )
