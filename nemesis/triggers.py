"""Triggers: what a fault can wait for, as pure functions from events of the history to occurrences.

    elected                  a node leads a term; candidate, voter: who voted for it besides itself
    vote-granted             a node gave its vote (a promise, an epoch) to another; voter = actor, candidate
    campaign-sent            a node asks for votes; candidate = actor
    pre-voting               a node asks for pre-votes; candidate = actor
    pre-vote-granted         a node granted a pre-vote; voter = actor, candidate
    stepped-down             a leader leads no more
    write-acked              a client got the acknowledgement of its write; actor: the node that sent it
    appended, committed      a node's log grew (in Paxos: it accepted); what a node reports as committed grew
    persisted                a node's term and vote are on disk
    configuration-appended   a node uses a new configuration
    term-reached             a node is in a term; needs ``where = {term = N}`` or ``{term_min = N}``
    leader-seen              a node follows a leader
    ready, exited            a node process answers for the first time; ended
    fault-begun, healed      a fault of the schedule is in force; is healed (``where = {kind, fault}``)
    traced                   any line of a trace by its name: needs ``where = {name = "…"}``

``where`` compares fields: ``term``, ``term_min``, ``source`` (``core``: the node's own words, ``shell``: witnessed on
its wire and disk) and any field of the event's data. A happening that both sources report counts once, as of the first.

Guarantees: pure; protocols name their events in their own way, the names here mean the same in all of them. Out of
scope: counting, bounds and when a trigger is armed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Event, FaultEvent, Invoke, NodeProcess, Observed, Return, Traced
from dethrone.harness.core.interfaces import ClusterView, Occurrence
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule import ANYBODY, OnEvent
from dethrone.nemesis import selectors

READS = frozenset({"read", "get", "learn", "holder"})
"""Operations whose acknowledgement is no write's."""

_BY = ("leader", "follower", "node", "hit-by", "spared-by", "all")
_TRACE_WHERE = frozenset({"term", "term_min", "source"})
_LEADING = frozenset({"LEADER", "Leader", "leader"})

Before = Invoke | Observed | None
"""What an event follows: see ``Condition.match``."""
Reader = Callable[[Any, Any], Occurrence | None]


class EventCondition(msgspec.Struct, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Condition``. ``traces``: names of trace lines to look at; None: all.

    ``fields``: what ``where`` may hold; None: any. ``plain``: role → the selector that says the nearest thing without
    an event, for schedules whose triggers are replaced by times.
    """

    name: str
    line: str
    types: tuple[type[Event], ...]
    read: Reader
    traces: frozenset[str] | None = None
    needs: frozenset[str] = frozenset({"traced"})
    fields: frozenset[str] | None = None
    required: tuple[str, ...] = ()
    plain: Mapping[str, str]

    def summary(self) -> str:
        """One line for ``list triggers``."""
        return self.line

    def roles(self) -> tuple[str, ...]:
        """The actor first."""
        return tuple(self.plain)

    def channels(self) -> frozenset[str]:
        """One of them shows it."""
        return self.needs

    def hears(self) -> tuple[type[Event], ...]:
        """Types of events that may show it."""
        return self.types

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """Raise ConfigError for a ``where`` or ``by`` that makes no sense here."""
        if self.fields is not None:
            for field in trigger.where:
                if field not in self.fields:
                    raise unknown_name(f"field of the trigger {self.name!r}:", field, self.fields)
        if self.required and not any(field in trigger.where for field in self.required):
            raise ConfigError(
                f"the trigger {self.name!r} needs a where with {' or '.join(self.required)}",
                next_step=f"write where = {{ {self.required[0]} = … }}",
            )
        if trigger.by == ANYBODY:
            return
        kind = selectors.check(trigger.by, nodes=nodes).kind
        if kind not in _BY:
            raise ConfigError(
                f"{trigger.by!r} does not say by whom {self.name!r} must have been done",
                cause="the node that acts is compared with it; no node is selected",
                next_step=f"known: {ANYBODY}, {', '.join(_BY)}",
            )

    def match(self, event: Any, trigger: OnEvent, before: Before) -> Occurrence | None:
        """The occurrence that the event shows; None if it is another, or lacks a field of ``where``."""
        if self.traces is not None and type(event) is Traced and event.name not in self.traces:
            return None
        found = self.read(event, before)
        if found is None or not trigger.where:
            return found
        data = _data(event)
        for field, wanted in trigger.where.items():
            if field == "term":
                if found.term != wanted:
                    return None
            elif field == "term_min":
                if found.term < wanted:
                    return None
            elif data.get(field) != wanted:
                return None
        return found

    def concerns(self, trigger: OnEvent, occurrence: Occurrence, view: ClusterView) -> bool:
        """Whether one of its actors is among those whom ``by`` means."""
        selector = selectors.parse(trigger.by)
        actors = set(occurrence.roles["actor"])
        if selector.kind == "leader":
            return view.leader in actors
        if selector.kind == "follower":
            return bool(actors - {view.leader})
        known = [name for name in selector.names if name in view.hit] if selector.kind != "node" else selector.names
        if len(known) < len(selector.names):
            return False
        wanted: set[str] = set(view.nodes) if selector.kind == "all" else set(known)
        if selector.kind in {"hit-by", "spared-by"}:
            wanted = {node for name in known for node in view.hit[name]}
        return bool(actors - wanted) if selector.kind == "spared-by" else bool(actors & wanted)


def _data(event: Any) -> Mapping[str, Any]:
    """The fields that ``where`` can speak of, besides the term."""
    if type(event) is Traced:
        return {**event.data, "source": event.source, "name": event.name}
    if type(event) is FaultEvent:
        return {"kind": event.kind, "fault": event.evidence.get("name", "")}
    if type(event) is NodeProcess:
        return {"asked": event.asked}
    return {}


# --- readers ----------------------------------------------------------------------------------------------------


def _seen(event: Any, name: str, key: tuple[Any, ...] | None = None, /, **others: str) -> Occurrence:
    """An occurrence at the event's node; reported twice in one term it is the same, unless ``key`` says otherwise."""
    roles = {"actor": (event.node,), **{role: (node,) for role, node in others.items() if node}}
    own = (event.node, event.incarnation, *((event.term,) if key is None else key))
    return Occurrence(event=name, span=event.span, key=own, roles=roles, term=event.term, group=event.group)


def _elected(event: Traced | Observed, _: Before) -> Occurrence | None:
    if type(event) is Observed:  # a system without traces: the first node seen to lead a term
        if not event.leads or not event.term:
            return None
        return msgspec.structs.replace(_seen(event, "elected"), key=(event.node, event.term))
    found = _seen(event, "elected")
    voters = event.data.get("voters") if isinstance(event, Traced) else None
    if isinstance(voters, list | tuple):
        others = tuple(str(voter) for voter in voters if voter != event.node)
        found = msgspec.structs.replace(found, roles={**found.roles, "voter": others})
    return found


def _granted(event: Traced) -> str | None:
    """The candidate that got this node's vote by this line; None: no candidate."""
    data = event.data
    candidate = data.get("candidate")
    if not isinstance(candidate, str) or candidate == event.node:
        return None
    if event.source == "shell":
        return candidate
    yes = data.get("granted") is True or data.get("action") == "grant" or data.get("code") == "ACCEPT"
    return candidate if yes else None


def _vote_granted(event: Traced, _: Before) -> Occurrence | None:
    candidate = _granted(event)
    if candidate is None:
        return None
    number = event.data.get("id") if event.name == "promised" else None
    key = (event.term, candidate, number)
    return _seen(event, "vote-granted", key, voter=event.node, candidate=candidate)


def _campaign(event: Traced, _: Before) -> Occurrence | None:
    if event.source == "shell" and event.data.get("candidate") != event.node:
        return None
    return _seen(event, "campaign-sent", candidate=event.node)


def _pre_voting(event: Traced, _: Before) -> Occurrence | None:
    return _seen(event, "pre-voting", (event.term, event.data.get("round", event.n)), candidate=event.node)


def _pre_vote_granted(event: Traced, _: Before) -> Occurrence | None:
    data = event.data
    if data.get("granted") is not True and data.get("row") != 5:
        return None
    return _seen(event, "pre-vote-granted", (event.n,), voter=event.node, candidate=str(data.get("candidate") or ""))


def _stepped_down(event: Traced, _: Before) -> Occurrence | None:
    if event.name != "step_down":
        data = event.data
        if (data.get("from") or data.get("was")) not in _LEADING or data.get("to") in _LEADING:
            return None
    elif event.data.get("from") is not None and event.data["from"] not in _LEADING:
        return None
    return _seen(event, "stepped-down", (event.span.lo,))  # several lines of one moment show it


def _write_acked(event: Return, asked: Invoke | None) -> Occurrence | None:
    if event.status != "ok" or asked is None or asked.f in READS:
        return None
    return Occurrence(
        event="write-acked",
        span=Span(event.t, event.t),
        key=(event.op,),
        roles={"actor": (event.node or asked.target,)},
        group=event.group,
    )


def _each(name: str) -> Reader:
    """Every line is one occurrence."""
    return lambda event, _: _seen(event, name, (event.n,))


def _appended(event: Traced, _: Before) -> Occurrence | None:
    """Every line; an acceptance is reported by both sources."""
    if event.name == "accepted" and event.source != "shell":
        return None
    return _seen(event, "appended", (event.n,))


def _configuration(event: Traced, _: Before) -> Occurrence | None:
    data = event.data
    if event.name == "config" and data.get("what") not in {"appended", "adopted"}:
        return None
    return _seen(event, "configuration-appended", (data.get("index", event.n),))


def _term_reached(event: Traced, _: Before) -> Occurrence | None:
    return _seen(event, "term-reached")


def _leader_seen(event: Traced, _: Before) -> Occurrence | None:
    leader = event.data.get("leader")
    return None if leader is None else _seen(event, "leader-seen", (event.term, str(leader)))


# --- the table --------------------------------------------------------------------------------------------------


def _shown(
    name: str,
    line: str,
    read: Reader,
    *,
    traces: tuple[str, ...] = (),
    types: tuple[type[Event], ...] = (Traced,),
    needs: frozenset[str] = frozenset({"traced"}),
    fields: frozenset[str] | None = None,
    required: tuple[str, ...] = (),
    **plain: str,
) -> EventCondition:
    """A condition that events of these types show, and of traces those of these names; the rest are its roles."""
    return EventCondition(
        name=name,
        line=line,
        types=types,
        read=read,
        traces=frozenset(traces) or None,
        needs=needs,
        fields=fields,
        required=required,
        plain=plain,
    )


def _process(name: str, line: str) -> EventCondition:
    def read(event: NodeProcess, _: Before) -> Occurrence | None:
        if event.phase != name:
            return None
        key = (event.node, event.incarnation)
        return Occurrence(event=name, span=event.span, key=key, roles={"actor": (event.node,)}, group=event.group)

    asked = frozenset({"asked"})
    return _shown(name, line, read, types=(NodeProcess,), needs=frozenset(), fields=asked, actor="random")


def _fault(name: str, line: str, outcome: str) -> EventCondition:
    def read(event: FaultEvent, _: Before) -> Occurrence | None:
        if event.outcome != outcome:
            return None
        return Occurrence(event=name, span=event.span, key=(event.fault,), roles={"actor": event.victims})

    known = frozenset({"kind", "fault"})
    return _shown(name, line, read, types=(FaultEvent,), needs=frozenset(), fields=known, actor="random")


ELECTED = _shown(
    "elected",
    "a node leads a term; voter: who voted for it besides itself",
    _elected,
    traces=("elected", "become_leader", "leader_elected"),
    types=(Traced, Observed),
    needs=frozenset({"traced", "observed"}),
    actor="leader",
    voter="follower",
)
VOTE_GRANTED = _shown(
    "vote-granted",
    "a node gave its vote to another; voter: the node itself",
    _vote_granted,
    traces=("vote", "vote_decision", "promised", "granted"),
    actor="follower",
    voter="follower",
    candidate="leader",
)
CAMPAIGN_SENT = _shown(
    "campaign-sent",
    "a node asks for votes",
    _campaign,
    traces=("vote", "campaign", "election_started", "elect_self", "vote_request_sent"),
    actor="random",
    candidate="random",
)
PRE_VOTING = _shown(
    "pre-voting",
    "a node asks for pre-votes",
    _pre_voting,
    traces=("prevote_started", "prevote_sent"),
    actor="follower",
    candidate="follower",
)
PRE_VOTE_GRANTED = _shown(
    "pre-vote-granted",
    "a node granted a pre-vote; voter: the node itself",
    _pre_vote_granted,
    traces=("prevote_decision",),
    actor="follower",
    voter="follower",
    candidate="follower",
)
STEPPED_DOWN = _shown(
    "stepped-down",
    "a leader leads no more",
    _stepped_down,
    traces=("step_down", "role_change", "transition"),
    actor="random",
)
WRITE_ACKED = _shown(
    "write-acked",
    "a client got the acknowledgement of its write; the actor sent it",
    _write_acked,
    types=(Return,),
    needs=frozenset({"ops"}),
    fields=frozenset(),
    actor="leader",
)
APPENDED = _shown(
    "appended", "a node's log grew", _appended, traces=("log_append", "append", "accepted"), actor="random"
)
COMMITTED = _shown("committed", "a node's commit rose", _each("committed"), traces=("commit", "chosen"), actor="random")
PERSISTED = _shown(
    "persisted", "a node's term and vote are on disk", _each("persisted"), traces=("persisted",), actor="random"
)
CONFIGURATION_APPENDED = _shown(
    "configuration-appended",
    "a node uses a new configuration",
    _configuration,
    traces=("config", "isr_change"),
    actor="leader",
)
TERM_REACHED = _shown(
    "term-reached",
    "a node is in a term: where = {term = N} or {term_min = N}",
    _term_reached,
    fields=_TRACE_WHERE,
    required=("term", "term_min"),
    actor="random",
)
LEADER_SEEN = _shown(
    "leader-seen", "a node follows a leader", _leader_seen, traces=("leader_seen", "leader_set"), actor="follower"
)
READY = _process("ready", "a node process answers for the first time")
EXITED = _process("exited", "a node process ended")
FAULT_BEGUN = _fault("fault-begun", "a fault of the schedule is in force; the actors are its victims", "installed")
HEALED = _fault("healed", "a fault of the schedule is healed; the actors are its victims", "healed")
TRACED = _shown(
    "traced", 'any trace line by its name: where = {name = "…"}', _each("traced"), required=("name",), actor="random"
)
