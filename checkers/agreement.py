"""agreement: one instance never has two decisions, and what is decided was proposed.

Instances are numbered decisions (Paxos, or each entry of a log kept by it). A value is decided where

* a client learns it: the answer of ``propose`` [instance, value] or ``learn`` instance, unless it is null (not known);
* a node says so in its trace: ``decided``, ``learned`` or ``chosen`` with ``instance`` and ``value``;
* a majority of acceptors was witnessed to accept it under one number: ``accepted`` of the shell with ``instance``,
  ``id`` and ``value``. That is a decision, whether any learner noticed or not.

Judged: no two decisions of an instance differ, over all nodes, times and restarts; a client's value (``kind`` absent or
``value``) was proposed for that very instance, by an operation invoked before, which did not certainly fail. Passing
needs an instance whose decision was reported twice. Out of scope: progress; commands and epochs as to who proposed them
(they come from nodes); systems and workloads without decisions by instance (``n/a``).

Source: Lamport, "Paxos Made Simple", 2001, section 2.1 (the safety requirements).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeGuard

import msgspec

from dethrone.checkers.base import Folded, finding, moment, votes_needed
from dethrone.checkers.facts import in_group
from dethrone.harness.core.chunks import Chunk
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Invoke, Return, Traced
from dethrone.harness.core.history import History, View
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict

WORKLOAD = "agreement"
"""The workload whose clients propose: under it, having seen nothing is a lack of evidence."""
SAID = frozenset({"decided", "learned", "chosen"})
"""Trace events that report a decision."""
NAMES = SAID | {"accepted"}
CERTIFICATE_MAX = 8

Place = tuple[str, int]
"""(group, instance)."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Decision:
    """One report of a decision. ``node`` "" where a majority of acceptors shows it; ``seqs`` are the events."""

    key: bytes
    value: Any
    node: str
    incarnation: int
    how: str
    seqs: tuple[int, ...]
    at: Ns
    """The latest moment at which one of them happened."""
    given: bool
    """It is a client's value, which a client must have proposed."""


class _Decisive:
    def __init__(self) -> None:
        self._found: list[Any] = []
        self._open: set[int] = set()
        """Operations that concern instances and have not returned."""

    def take(self, chunk: Chunk) -> None:
        """The next part."""
        found: list[Any] = list(chunk.traced(NAMES))
        asked = chunk.asked_to(("learn", "propose"))
        self._open.update(event.op for event in asked)
        if self._open:
            found += asked
            for event in chunk.of(Return):
                if event.op in self._open:
                    self._open.discard(event.op)
                    found.append(event)
        self._found += sorted(found, key=attrgetter("seq"))

    def done(self) -> Sequence[Any]:
        """All parts."""
        return self._found


DECISIVE: View[Sequence[Any]] = View(_Decisive)
"""What is judged: trace events and operations about instances, in file order."""


@dataclass(slots=True)
class Proposal:
    """A client's proposal; ``status`` "" until it returned."""

    seq: int
    status: str = ""
    returned: int = -1
    at: Ns = 0
    """When it returned."""


@dataclass(slots=True)
class _Instance:
    decisions: list[Decision] = field(default_factory=list)
    proposals: dict[bytes, list[Proposal]] = field(default_factory=dict)
    accepted: dict[tuple[int, bytes], dict[str, Traced]] = field(default_factory=dict)
    """(number, value) → acceptor → the event that shows it."""


class Ledger:
    """What was proposed and decided, event by event, in file order. Malformed bodies are passed over."""

    def __init__(self, quorum: int) -> None:
        self.instances: dict[Place, _Instance] = {}
        self.proposals = 0
        self._quorum = quorum
        self._asked: dict[int, tuple[Invoke, int, Proposal | None]] = {}

    def feed(self, event: Any) -> Ns | None:
        """See ``dethrone.checkers.base.Fold``."""
        place = self.take(event)
        if place is None:
            return None
        pair, strange = self.conflict(place), self.foreign(place)
        untils = [max(one.at for one in pair)] if pair is not None else []
        if strange is not None:
            one, _, proposal = strange
            untils.append(one.at if proposal is None else max(one.at, proposal.at))
        return min(untils, default=None)

    def take(self, event: Any) -> Place | None:
        """Take one event; the instance of which it reported a decision, if it did."""
        kind = type(event)
        if kind is Traced:
            return self._traced(event)
        if kind is Invoke:
            self._invoked(event)
        elif kind is Return:
            return self._returned(event)
        return None

    def _at(self, place: Place) -> _Instance:
        found = self.instances.get(place)
        if found is None:
            found = self.instances[place] = _Instance()
        return found

    def _invoked(self, event: Invoke) -> None:
        if event.f == "learn" and _is_number(event.value):
            self._asked.setdefault(event.op, (event, event.value, None))
        elif event.f == "propose" and isinstance(event.value, list | tuple) and len(event.value) == 2:
            instance, value = event.value
            if not _is_number(instance):
                return
            proposal = Proposal(event.seq)
            self._at((event.group, instance)).proposals.setdefault(_encode(value), []).append(proposal)
            self.proposals += 1
            self._asked.setdefault(event.op, (event, instance, proposal))

    def _returned(self, event: Return) -> Place | None:
        asked = self._asked.pop(event.op, None)
        if asked is None:
            return None
        invoke, instance, proposal = asked
        if proposal is not None:
            proposal.status, proposal.returned, proposal.at = event.status, event.seq, event.t
        if event.status != "ok" or event.value is None:
            return None
        place = (invoke.group, instance)
        node = event.node or invoke.target
        seqs = (invoke.seq, event.seq)
        given = not _made_by_nodes(event)
        told = Decision(_encode(event.value), event.value, node, 0, f"{node} answered", seqs, event.t, given)
        self._at(place).decisions.append(told)
        return place

    def _traced(self, event: Traced) -> Place | None:
        said = event.name in SAID
        if not said and (event.name != "accepted" or event.source != "shell"):
            return None
        data = event.data
        instance, value = data.get("instance"), data.get("value")
        if not _is_number(instance) or value is None:
            return None
        place = (event.group, instance)
        key = _encode(value)
        given = data.get("kind", "value") == "value"
        here = self._at(place)
        if said:
            how = f"{event.node} {event.name}"
            here.decisions.append(
                Decision(key, value, event.node, event.incarnation, how, (event.seq,), moment(event), given)
            )
            return place
        number = data.get("id")
        if not _is_number(number):
            return None
        who = here.accepted.setdefault((number, key), {})
        if event.node in who:
            return None
        who[event.node] = event
        if len(who) != self._quorum:
            return None
        how = f"{', '.join(sorted(who))} accepted under number {number}"
        seqs = tuple(sorted(one.seq for one in who.values()))
        here.decisions.append(Decision(key, value, "", 0, how, seqs, max(map(moment, who.values())), given))
        return place

    def conflict(self, place: Place) -> tuple[Decision, Decision] | None:
        """Two different decisions of the instance: the pair with the fewest events."""
        decisions = self.instances[place].decisions
        first = decisions[0]
        others = [one for one in decisions if one.key != first.key]
        if not others:
            return None
        same = [one for one in decisions if one.key == first.key]
        return min(same, key=lambda one: len(one.seqs)), min(others, key=lambda one: len(one.seqs))

    def foreign(self, place: Place) -> tuple[Decision, str, Proposal | None] | None:
        """A decided value that cannot have been proposed there, why not, and the proposal that shows it."""
        here = self.instances[place]
        for one in here.decisions:
            if not one.given:
                continue
            proposals = [item for item in here.proposals.get(one.key, ()) if item.seq < max(one.seqs)]
            if not proposals:
                return one, "but it had not been proposed", None
            if all(item.status == "fail" and item.returned < max(one.seqs) for item in proposals):
                return one, "but its proposal failed", proposals[0]
        return None


class Agreement(Folded):
    name = "agreement"
    kind = "safety"
    channels = ("ops", "traced", "witness")
    views = (DECISIVE,)

    def fold(self, promise: Promise, plan: Plan) -> Ledger:
        """What was proposed and decided."""
        return Ledger(votes_needed(promise, len(plan.voters)))

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        ledger = self.fold(promise, plan)
        for event in DECISIVE(history):
            ledger.take(event)
        decided = {place: here for place, here in ledger.instances.items() if here.decisions}
        if not decided and not ledger.proposals and plan.workload.name != WORKLOAD:
            return self.na("not observable: no node proposes or decides values by instance")
        findings: list[Finding] = []
        for place in sorted(decided):
            pair = ledger.conflict(place)
            if pair is not None:
                findings.append(_two(history, promise, place, *pair))
            strange = ledger.foreign(place)
            if strange is not None:
                findings.append(_strange(history, promise, place, strange))
        tellers = {place: len({(one.how, one.seqs) for one in here.decisions}) for place, here in decided.items()}
        twice = sum(count > 1 for count in tellers.values())
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda one: one.certificate),
            judged=twice,
            nothing="no decision was reported twice" if decided else "nothing was decided",
            evidence={
                "proposals": ledger.proposals,
                "instances_decided": len(decided),
                "instances_contended": sum(len(here.proposals) > 1 for here in decided.values()),
                "decisions_told": sum(tellers.values()),
                "told_by_several_nodes": sum(
                    len({one.node for one in here.decisions if one.node}) > 1 for here in decided.values()
                ),
                "told_by_several_lives": sum(_several_lives(here) for here in decided.values()),
                "accepted_by_majority": sum(any(not one.node for one in here.decisions) for here in decided.values()),
            },
        )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _made_by_nodes(event: Return) -> bool:
    """A command of a log, which a node made out of a client's operation, as it is shown to clients."""
    value = event.value
    return isinstance(value, dict) and value.get("type") == "command" and "origin" in value


def _several_lives(here: _Instance) -> bool:
    lives: dict[str, set[int]] = {}
    for one in here.decisions:
        if one.incarnation:
            lives.setdefault(one.node, set()).add(one.incarnation)
    return any(len(seen) > 1 for seen in lives.values())


def _two(history: History, promise: Promise, place: Place, one: Decision, other: Decision) -> Finding:
    group, instance = place
    again = " after a restart" if one.node == other.node and 0 < one.incarnation < other.incarnation else ""
    return finding(
        history,
        promise,
        f"Instance {instance}{in_group(group)} has two decisions: {one.value!r:.60} ({one.how}) and"
        f" {other.value!r:.60} ({other.how}{again}).",
        [*one.seqs, *other.seqs][:CERTIFICATE_MAX],
        nodes=[name for name in (one.node, other.node) if name],
        term=abs(instance),
        data={"instance": instance, "values": [one.value, other.value]},
    )


def _strange(
    history: History, promise: Promise, place: Place, strange: tuple[Decision, str, Proposal | None]
) -> Finding:
    group, instance = place
    one, why, proposal = strange
    seqs = () if proposal is None else (proposal.seq, proposal.returned)
    return finding(
        history,
        promise,
        f"{one.value!r:.60} was decided in instance {instance}{in_group(group)} ({one.how}), {why} there.",
        [*seqs, *one.seqs][:CERTIFICATE_MAX],
        nodes=[one.node] if one.node else [],
        term=abs(instance),
        data={"instance": instance, "value": one.value},
    )


CHECKER = Agreement()
