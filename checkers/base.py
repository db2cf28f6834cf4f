"""What all checkers share: when a property is not judged, when findings are excused, how a verdict comes about.

Guarantees: never ``pass`` for an incomplete or damaged history or for a property that was not exercised; a finding that
realised faults took out of the promise is shown and does not fail; a run that is watched as it goes and a stored one
are judged by the same fold over their events (``Folded``). Out of scope: every property itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise, borne_as
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


def in_force(event: FaultEvent) -> bool:
    """Whether this is the begin of a fault that was, or may have been, in force."""
    return event.phase == "begin" and event.outcome in ("installed", "indeterminate")


def healed(event: FaultEvent) -> bool:
    """Whether this is the end of a fault after which it certainly is not in force, wherever it was until then."""
    return event.phase == "end" and event.outcome in ("healed", "indeterminate")


def breaks_nothing(history: History, plan: Plan) -> bool:
    """Whether no fault was planned, and none is recorded."""
    return not plan.schedule.steps and not history.of(FaultEvent)


class _Beyond:
    """Which faults, fed in order, went beyond one map of tolerated faults, and from when to when."""

    def __init__(self, tolerated: Mapping[str, int | None]) -> None:
        self._tolerated = tolerated
        self.foreign: list[tuple[Ns, str, str]] = []
        """(from, kind, why): a kind that is not tolerated; it excuses everything after it."""
        self._crowds: list[tuple[Ns, Ns | None, str]] = []
        """(from, to, why): more victims at once than tolerated."""
        self._open: dict[str, tuple[Ns, str]] = {}
        self._active: dict[str, dict[int, frozenset[str]]] = defaultdict(dict)

    def feed(self, event: FaultEvent) -> None:
        """Take one fault event into account."""
        kind, key = event.kind, borne_as(self._tolerated, event.kind, event.params)
        if in_force(event):
            if key is None:
                why = f"{kind} on {', '.join(event.victims)} is not among the tolerated faults"
                self.foreign.append((event.span.lo, kind, why))
                return
            self._active[kind][event.fault] = frozenset(event.victims)
        elif healed(event):
            self._active[kind].pop(event.fault, None)
        most = self._tolerated.get(key or "")
        hit = frozenset[str]().union(*self._active[kind].values())
        if most is not None and len(hit) > most:
            why = f"{kind} on {len(hit)} nodes at once ({', '.join(sorted(hit))}); tolerated: {most}"
            self._open.setdefault(kind, (event.span.lo, why))
        elif kind in self._open:
            since, why = self._open.pop(kind)
            self._crowds.append((since, event.span.hi, why))

    @property
    def crowds(self) -> list[tuple[Ns, Ns | None, str]]:
        """Those that are over, then those that last."""
        return [*self._crowds, *((since, None, why) for since, why in self._open.values())]


class Excuses:
    """Which realised faults went beyond the promise, and from when to when; fault events are fed in order.

    Safety is excused for good by what ``Promise.tolerated_for_safety`` does not bear, for what was lost stays lost;
    liveness by what ``Promise.tolerates`` does not bear, crowds only while they last.
    """

    def __init__(self, promise: Promise, events: Iterable[FaultEvent] = ()) -> None:
        self._safety = _Beyond(promise.tolerated_for_safety)
        self._liveness = _Beyond(promise.tolerates)
        for event in events:
            self.feed(event)

    def feed(self, event: FaultEvent) -> None:
        """Take one fault event into account."""
        self._safety.feed(event)
        self._liveness.feed(event)

    def safety(self, until: Ns) -> str | None:
        """Why something that happened up to ``until`` is excused, if it is."""
        beyond = [(since, why) for since, _, why in (*self._safety.foreign, *self._safety.crowds)]
        return next((why for since, why in beyond if since <= until), None)

    def timing(self, until: Ns) -> str | None:
        """As ``safety``, of what rests on clocks: they may also run apart by a fault under which only safety holds."""
        apart = ((since, why) for since, kind, why in self._liveness.foreign if declared(kind).harms == "clock")
        return self.safety(until) or next((why for since, why in apart if since <= until), None)

    def liveness(self, lo: Ns, hi: Ns) -> str | None:
        """Why a lack of progress within [lo, hi] is excused, if it is."""
        for since, _, why in self._liveness.foreign:
            if since <= hi:
                return why
        for since, to, why in self._liveness.crowds:
            if since <= hi and (to is None or to >= lo):
                return why
        return None

    def anything(self, lo: Ns, hi: Ns) -> str | None:
        """Why a fault of the system within [lo, hi] is excused, if it is."""
        return self.liveness(lo, hi) or self.safety(hi)


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
        """A function that answers True to the event with which a violation is certain that no fault excuses."""
        if self.not_judged(promise, plan) is not None:
            return lambda _: False
        feed, faults = self.fold(promise, plan).feed, Excuses(promise)

        def see(event: Any) -> bool:
            if type(event) is FaultEvent:
                faults.feed(event)
                return False
            until = feed(event)
            return until is not None and faults.safety(until) is None

        return see


@per_history
def excuses(history: History, promise: Promise) -> Excuses:
    """The excuses of this history under this promise."""
    return Excuses(promise, sorted(history.of(FaultEvent), key=lambda item: (item.span.lo, item.seq)))


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
) -> Finding:
    """A safety finding; excused if a fault beyond the promise came before its last event.

    ``timed``: the property rests on clocks (``Excuses.timing``).
    """
    seqs = tuple(sorted(set(certificate)))
    until = max((moment(history.at(seq)) for seq in seqs), default=0)
    found = excuses(history, promise)
    return Finding(
        sentence=sentence,
        certificate=seqs,
        nodes=tuple(sorted(set(nodes))),
        term=term,
        excused=found.timing(until) if timed else found.safety(until),
        data=dict(data or {}),
    )
