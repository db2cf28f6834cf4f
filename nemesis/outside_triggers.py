"""Triggers on what is seen of a node from outside, for systems that write no trace of ours.

    logged                   a node logs a line: ``where = {pattern = NAME}``, a pattern that the system or its
                             description names, or ``{regex = "…"}``; term: that of the pattern's group ``term``
    status-changed           a field of a node's answers changes: ``where = {field = "role", to = "leader"}``, or across
                             a number, ``{field = "commit", above = 100}``; candidate: the leader that is named now
    frame-sent               a node sends a frame: ``where = {to = "n2", port, bytes_min, contains or hex}``, each as
                             wanted; receiver: to whom
    metric-changed           a series on a node's page of metrics changes, or crosses a number:
                             ``where = {metric = "…", port = N, path, above or below}``

Guarantees: pure; a ``where`` that lacks what to look for, or is no pattern, is refused. Out of scope: looking
(``dethrone.clusters.agent``), and whether hosts can (``dethrone.harness.engine.run.watching``).
"""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Observed, Sighted
from dethrone.harness.core.interfaces import Occurrence
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule import OnEvent
from dethrone.harness.core.watches import (
    EDGE_FIELDS,
    FRAME,
    FRAME_FIELDS,
    LOG_FIELDS,
    LOGGED,
    METRIC,
    METRIC_FIELDS,
    STATUS,
    STATUS_FIELDS,
    check_edge,
    check_pattern,
    is_edge,
    metric_watch,
    watch_name,
    wire_watch,
)
from dethrone.nemesis import selectors
from dethrone.nemesis.triggers import Before, EventCondition


class SightingCondition(EventCondition, frozen=True, kw_only=True):
    """An agent reports what it looks for; the ``where`` of the trigger is what to look for. ``by``: of ``Sighted``."""

    by: str

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """See ``EventCondition``; also what nothing can be looked for with."""
        super().check(trigger, nodes=nodes)
        where = f"the trigger {self.name!r}"
        if self.name == METRIC:
            metric_watch(trigger.where, place=where)
            return
        if self.name == FRAME:
            to = wire_watch(trigger.where, place=where).to
            if to:
                selectors.check(f"node:{to}", nodes=nodes)
            return
        if len(trigger.where) != 1:
            raise ConfigError(f"{where} looks for one thing: {' or '.join(self.required)}, not both")
        for field, wanted in trigger.where.items():
            if not isinstance(wanted, str) or not wanted:
                raise ConfigError(f"{field} = {wanted!r} is no text", where=where)
        if "regex" in trigger.where:
            check_pattern(trigger.where["regex"], where=where)

    def match(self, event: Any, trigger: OnEvent, before: Before) -> Occurrence | None:
        """The occurrence, if the agent saw what this trigger looks for."""
        if event.by != self.by or event.name != watch_name(trigger.where):
            return None
        return self.read(event, before)


def _sighted(event: Sighted, name: str, *, receiver: str = "", term: int = 0) -> Occurrence:
    """What an agent saw of its node, once for each line, frame or figure."""
    return Occurrence(
        event=name,
        span=event.span,
        key=(event.node, event.n),
        roles={"actor": (event.node,), **({"receiver": (receiver,)} if receiver else {})},
        term=term,
        group=event.group,
    )


def _logged(event: Sighted, _: Before) -> Occurrence:
    term = str(event.data.get("groups", {}).get("term", ""))
    return _sighted(event, LOGGED, term=int(term) if term.isdecimal() and len(term) < 19 else 0)


def _sent(event: Sighted, _: Before) -> Occurrence:
    return _sighted(event, FRAME, receiver=str(event.data.get("to", "")))


CONDITION_FRAME = SightingCondition(
    name=FRAME,
    by="wire",
    line='a node sends a frame: where = {to = "n2", port = N, bytes_min = N, contains or hex = "…"}; receiver: to whom',
    types=(Sighted,),
    read=_sent,
    needs=frozenset({"frames"}),
    fields=frozenset(FRAME_FIELDS),
    plain={"actor": "random", "receiver": "random"},
)


def _moved(event: Sighted, _: Before) -> Occurrence:
    return _sighted(event, METRIC)


CONDITION_METRIC = SightingCondition(
    name=METRIC,
    by="metric",
    line='a figure of a node changes: where = {metric = "…", port = N, path = "/metrics", above or below = N}',
    types=(Sighted,),
    read=_moved,
    needs=frozenset({"pages"}),
    fields=frozenset(METRIC_FIELDS),
    required=("metric",),
    plain={"actor": "random"},
)
CONDITION_LOGGED = SightingCondition(
    name=LOGGED,
    by="log",
    line='a node logs a line: where = {pattern = a name of the system\'s} or {regex = "…"}',
    types=(Sighted,),
    read=_logged,
    needs=frozenset({"logs"}),
    fields=frozenset(LOG_FIELDS),
    required=LOG_FIELDS,
    plain={"actor": "random"},
)


class StatusCondition(EventCondition, frozen=True, kw_only=True):
    """A node answers differently than the last time."""

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """See ``EventCondition``; also fields that no answer has, and edges that cannot be."""
        super().check(trigger, nodes=nodes)
        field = trigger.where.get("field", "")
        if field not in STATUS_FIELDS:
            raise unknown_name("field of a status:", str(field), STATUS_FIELDS)
        check_edge(trigger.where, place=f"the trigger {self.name!r}")

    def match(self, event: Any, trigger: OnEvent, before: Before) -> Occurrence | None:
        """The occurrence, if the field changed so. It happened between the two questions' ends at the widest."""
        if not isinstance(before, Observed):
            return None
        field = str(trigger.where["field"])
        if not is_edge(status_field(before, field), status_field(event, field), trigger.where):
            return None
        named = event.leader if event.leader is not None and field == "leader" else None
        return Occurrence(
            event=STATUS,
            span=Span(before.span.lo, event.span.hi),
            key=(event.node, event.seq),
            roles={"actor": (event.node,), **({} if named is None else {"candidate": (named,)})},
            term=event.term,
            group=event.group,
        )


def status_field(observed: Observed, field: str) -> Any:
    """The value of one of ``STATUS_FIELDS``."""
    if field in {"log_term", "log_index"}:
        return None if observed.log_end is None else observed.log_end[field == "log_index"]
    return getattr(observed, field)


def _status_is_compared(_event: Observed, _before: Before) -> None:
    """``StatusCondition`` compares with the trigger's ``where``, which a reader does not see."""


CONDITION_STATUS = StatusCondition(
    name=STATUS,
    line='a field of a node\'s answers changes: where = {field = "role", to = "leader"}, {field = "commit", above = 9}',
    types=(Observed,),
    read=_status_is_compared,
    needs=frozenset({"observed"}),
    fields=frozenset({"field", *EDGE_FIELDS}),
    required=("field",),
    plain={"actor": "random", "candidate": "leader"},
)
