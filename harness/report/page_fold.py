"""The events of a history, one after another, as the rows that a page draws.

Guarantees: one pass; nothing is held but what is still open, the faults, the proofs, and what ``side_files`` and
``overview`` bound. Some things only the end of a history decides: which marks count (``marks``), and which roles lead.
Until then a mark carries its source, and a role that only a trace shows is the complement (``~``) of its class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, SECOND, US, Ns
from dethrone.harness.core.events import (
    Begin,
    Converged,
    End,
    FaultEvent,
    Invoke,
    Mark,
    NodeProcess,
    Noise,
    Observed,
    Return,
    Traced,
)
from dethrone.harness.core.interfaces import FaultTraits, declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Finding
from dethrone.harness.report.failover import Failover, FailoverFold
from dethrone.harness.report.lanes import RoleFold, RoleSpan, TroubleFold, TroubleSpan
from dethrone.harness.report.marks import MarkFold, NodeMark, leading
from dethrone.harness.report.noise_figures import NoiseFold
from dethrone.harness.report.overview import Overview
from dethrone.harness.report.side_files import Details
from dethrone.harness.report.trigger_words import trigger_line
from dethrone.harness.report.words import at, begun_line, moment, node_of, sentence

ROLES = ("follower", "candidate", "leader", "other")
MARK_KINDS = ("pre-vote", "campaign", "vote", "elected", "step-down", "started", "exited", "proof")
STATUSES = ("ok", "fail", "info", "open")
LEADS = ROLES.index("leader")

_ADVANCE_NS: Ns = 5 * SECOND
"""How often the lanes of a long run give out what is over."""


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """What a page is drawn from. ``end``: of the last event; ``closing``: the ``end`` record, if there is one."""

    data: dict[str, Any]
    begin: Begin
    end: Ns
    closing: End | None
    count: int
    faults: Sequence[dict[str, Any]]
    failovers: Sequence[Failover]
    noise: NoiseFold
    long: bool = False
    """Whether the details are in side files."""


def us(t: Ns) -> int:
    """Whole µs."""
    return t // US


def role_class(role: str, *, leads: bool) -> int:
    """Index into ``ROLES``."""
    word = role.lower()
    if leads:
        return LEADS
    if "candid" in word or word in ("prospective", "contending", "voted", "pre_candidate"):
        return 1
    return 0 if "follow" in word or word in ("slave", "learner", "observer", "unattached") else 3


class PageFold:
    """The page of a history so far. ``proving``: event → findings (with their ids) that it proves."""

    begin: Begin

    def __init__(
        self,
        nodes: Sequence[str],
        plan: Plan | None,
        details: Details,
        proving: Mapping[int, Sequence[tuple[str, Finding]]],
    ) -> None:
        self.nodes, self.details = tuple(nodes), details
        self.count = 0
        self.now: Ns = 0
        self.closing: End | None = None
        self.faults: dict[int, dict[str, Any]] = {}
        self.phases: list[list[Any]] = []
        self.noise = NoiseFold()
        self.marks = MarkFold()
        self.failovers = FailoverFold()
        self.overview = Overview(len(self.nodes))
        self.lane = {node: index for index, node in enumerate(self.nodes)}
        self.roles = RoleFold(self.nodes, self._role, poll_ns=plan.observe_interval_ns if plan else 100 * MS)
        self._troubles = TroubleFold(self._trouble)
        self.sources: set[str] = set()
        """Of the marks."""
        self._leading: set[str] = set()
        self._open: dict[int, Invoke] = {}
        self._proving = proving
        self._proofs: list[dict[str, Any]] = []
        self._spans = 0
        self._advance: Ns = 0

    def add(self, event: Any) -> None:
        """One event more. ReportError: its details cannot be written."""
        self.count += 1
        self.now = event.t
        if event.seq in self._proving:
            self._proofs.append(self._proof(event))
        if isinstance(event, Traced | Observed | NodeProcess):
            self.roles.add(event)
            for source, mark in self.marks.add(event):
                self.failovers.mark(source, mark)
                self._mark(source, mark, event)
        if type(event) is not Traced:  # most events are, and each check costs
            self.failovers.add(event)
            self._sort(event)
        if self.details.long and event.t >= self._advance:
            self.roles.advance(event.t)
            self._troubles.advance(event.t)
            self._advance = event.t + _ADVANCE_NS

    def _sort(self, event: Any) -> None:
        match event:
            case Observed():
                if event.leads:
                    self._leading.add(event.role)
            case Invoke():
                self._open[event.op] = event
            case Return():
                asked, status = self._open.pop(event.op, None), STATUSES.index(event.status)
                self.overview.operation(event.t, status, 0 if asked is None else event.t - asked.t)
                if asked is not None:
                    self._operation(asked, event.t, status)
            case NodeProcess() | Converged():
                self._troubles.add(event)
            case FaultEvent():
                self._fault(event)
            case Noise():
                self.noise.add(event)
            case Mark():
                if event.name not in {"step", "more"}:
                    self.phases.append([us(event.t), event.name])
            case Begin():
                self.begin = event
            case End():
                self.closing = event

    def finish(self) -> None:
        """There is no more. ReportError: the last details cannot be written."""
        self.roles.finish(self.now)
        self._troubles.finish(self.now)
        for asked in self._open.values():
            self._operation(asked, self.now, STATUSES.index("open"))
        for row in self.faults.values():
            if row["span"][2] is None:
                self.details.add("faults", row["fault"], row, row["span"][0] * US, self.now)
        self.details.finish()

    def decided(self, role: int, word: str) -> int:
        """Index into ``ROLES`` of a role of this class and word, by all that was added."""
        if role >= 0:
            return role
        return LEADS if word in self.leading() else ~role

    def leading(self) -> frozenset[str]:
        """The role words that lead."""
        return leading(self._leading)

    def proofs(self) -> list[dict[str, Any]]:
        """The events that prove findings, by moment, each with the findings (card ids) that it proves."""
        return sorted(self._proofs, key=lambda row: (row["t"], row["seq"]))

    # --- rows -------------------------------------------------------------------------------------------------------

    def _role(self, node: str, span: RoleSpan) -> None:
        """``[lane, lo, hi, role class, term, incarnation, role word]``; sorted by lane; the key's last says whether it
        lasted: one that did not is drawn only of a leader."""
        lane = self.lane[node]
        role = role_class(span.role, leads=bool(span.leads))
        role = ~role if span.leads is None else role
        row = [lane, us(span.lo), us(span.hi), role]
        self._spans += 1
        key = (lane, self._spans, span.hi > span.lo)
        self.details.add("roles", key, [*row, span.term, span.incarnation, span.role], span.lo, span.hi)
        self.overview.role(lane, role, span)

    def _trouble(self, node: str, span: TroubleSpan) -> None:
        """``[lane, lo, hi, kind, text, sure]``."""
        if (lane := self.lane.get(node)) is None:
            return
        row = [lane, us(span.lo), us(span.hi), span.kind, span.text, span.confirmed]
        self.details.add("troubles", (lane, span.lo, span.kind), row, span.lo, span.hi)
        self.overview.trouble(lane, span)

    def _mark(self, source: str, mark: NodeMark, event: Any) -> None:
        """``[t, lane, kind, term, seq, text, lane of the other or -1, source]``."""
        if (lane := self.lane.get(mark.node)) is None:
            return
        row = [us(mark.t), lane, MARK_KINDS.index(mark.kind), mark.term, mark.seq, sentence(event)]
        row += [self.lane.get(mark.other or "", -1), source]
        self.sources.add(source)
        self.details.add("marks", (mark.t, mark.seq), row, mark.t, mark.t)
        if mark.kind == "elected":
            self.overview.election(source, mark.t, (mark.t, mark.seq), row)

    def _operation(self, asked: Invoke, until: Ns, status: int) -> None:
        """``[asked, answered, status, client, f]``."""
        row = [us(asked.t), us(until), status, asked.process, asked.f]
        self.details.add("ops", asked.seq, row, asked.t, until)

    def _fault(self, event: FaultEvent) -> None:
        """A fault's ``span``: begin asked, in force, end asked, healed, None where it did not come to that."""
        if event.phase == "begin":
            self.faults[event.fault] = {
                "fault": event.fault,
                "step": event.step,
                "kind": event.kind,
                "color": _color(declared(event.kind)),
                "victims": list(event.victims),
                "name": event.evidence.get("name", ""),
                "text": begun_line(event),
                "trigger": trigger_line(event.evidence),
                "outcome": event.outcome,
                "why": event.why,
                "span": [us(event.span.lo), us(event.span.hi), None, None],
            }
        elif (row := self.faults.get(event.fault)) is not None:
            ended = row["span"][2] is not None
            row["span"][2:] = [us(event.span.lo), us(event.span.hi)]
            row["healed"] = event.outcome
            row["why"] = row["why"] or event.why
            if not ended:
                self.details.add("faults", event.fault, row, row["span"][0] * US, event.span.hi)

    def _proof(self, event: Any) -> dict[str, Any]:
        proved = self._proving[event.seq]
        asked = self._open.get(event.op) if isinstance(event, Return) else None
        return {
            "seq": event.seq,
            "t": us(moment(event)),
            "at": at(moment(event)),
            "lane": self.lane.get(node_of(event) or "", -1),
            "text": sentence(event, asked=asked),
            "of": [key for key, _ in proved],
            "excused": all(finding.excused is not None for _, finding in proved),
        }


def _color(kind: FaultTraits) -> str:
    """The name of a kind's colour: as its victims' lanes are coloured."""
    if kind.cuts:
        return "cut"
    if kind.takes_out:
        return "down" if kind.ends_process else "frozen"
    return "clock" if kind.harms == "clock" else "other"
