"""Triggers on what is seen of a node from outside, for systems that write no trace of ours.

    logged                   a node logs a line: ``where = {pattern = NAME}``, a pattern that the system or its
                             description names, or ``{regex = "…"}``; term: that of the pattern's group ``term``

Guarantees: pure; a ``where`` that lacks what to look for, or is no pattern, is refused. Out of scope: looking
(``dethrone.clusters.agent``), and whether hosts can (``dethrone.harness.engine.run.watching``).
"""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Invoke, Sighted
from dethrone.harness.core.interfaces import Occurrence
from dethrone.harness.core.schedule import OnEvent
from dethrone.harness.core.watches import LOG_FIELDS, LOGGED, check_pattern, watch_name
from dethrone.nemesis.triggers import EventCondition


class SightingCondition(EventCondition, frozen=True, kw_only=True):
    """An agent reports what it looks for; the ``where`` of the trigger is what to look for."""

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """See ``EventCondition``; also what nothing can be looked for with."""
        super().check(trigger, nodes=nodes)
        where = f"the trigger {self.name!r}"
        if len(trigger.where) != 1:
            raise ConfigError(f"{where} looks for one thing: {' or '.join(self.required)}, not both")
        for field, wanted in trigger.where.items():
            if not isinstance(wanted, str) or not wanted:
                raise ConfigError(f"{field} = {wanted!r} is no text", where=where)
        if "regex" in trigger.where:
            check_pattern(trigger.where["regex"], where=where)

    def match(self, event: Any, trigger: OnEvent, asked: Invoke | None) -> Occurrence | None:
        """The occurrence, if the agent saw what this trigger looks for."""
        return self.read(event, asked) if event.name == watch_name(trigger.where) else None


def _logged(event: Sighted, _: Invoke | None) -> Occurrence:
    term = str(event.data.get("groups", {}).get("term", ""))
    return Occurrence(
        event=LOGGED,
        span=event.span,
        key=(event.node, event.n),
        roles={"actor": (event.node,)},
        term=int(term) if term.isdecimal() and len(term) < 19 else 0,
        group=event.group,
    )


CONDITION_LOGGED = SightingCondition(
    name=LOGGED,
    line='a node logs a line: where = {pattern = a name of the system\'s} or {regex = "…"}',
    types=(Sighted,),
    read=_logged,
    needs=frozenset({"logs"}),
    fields=frozenset(LOG_FIELDS),
    required=LOG_FIELDS,
    plain={"actor": "random"},
)
