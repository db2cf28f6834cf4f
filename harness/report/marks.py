"""The events of a history that a reader of an election wants to see: votes, elections, process starts and exits.

Guarantees: pure; taken from what the shell witnessed if there is a witness, else from the protocol's own words. Only
the end of a history decides that: until then a mark has a source. ``lanes`` draws intervals, ``words`` writes
sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import NodeProcess, Observed, Traced
from dethrone.harness.core.history import History, per_history
from dethrone.harness.report.words import moment

MarkKind = Literal["pre-vote", "campaign", "vote", "elected", "step-down", "started", "exited"]

CAMPAIGNS = frozenset({"election_started", "campaign"})
PRE_VOTES = frozenset({"pre_vote_started", "prevote_started"})
"""A node asks whether it would be elected; it changes no term and wins nothing."""
STEP_DOWNS = frozenset({"step_down"})


class NodeMark(msgspec.Struct, frozen=True, kw_only=True):
    """One such event. ``other``: the candidate of a vote. ``voters``: those of an election, where known."""

    seq: int
    t: Ns
    node: str
    kind: MarkKind
    term: int
    group: str = ""
    other: str | None = None
    voters: tuple[str, ...] = ()


_LEADERS = frozenset({"LEADER", "Leader", "leader", "MASTER"})


def leading(seen: AbstractSet[str]) -> frozenset[str]:
    """The role words that mean "leads". ``seen``: those of answers in which a node led, as its adapter said."""
    return frozenset(seen) or _LEADERS


CERTAIN = ""
"""The source of marks that count in any case."""
OBSERVED = "observed"
"""The source of elections that only answers of nodes show. Any other source is the name of a core's own event."""


class MarkFold:
    """Finds the marks of a history, event by event."""

    def __init__(self) -> None:
        self._witnessed: set[str] = set()
        self._elections_traced = False
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, event: Any) -> Iterator[tuple[str, NodeMark]]:
        """The marks of this event, each with its source."""
        kind = type(event)
        if kind is Traced:
            if (mark := mark_of(event)) is None:
                return
            if event.source == "shell":
                self._witnessed.add(event.name)
            if event.name == "elected":
                self._elections_traced = True
                self._seen.clear()
            yield (CERTAIN if event.source == "shell" else event.name), mark
        elif kind is NodeProcess:
            if event.phase != "ready":
                yield CERTAIN, _mark(event, "started" if event.phase == "started" else "exited", term=0)
        elif kind is Observed and event.leads and not self._elections_traced:
            # without any trace, a node's first answer as the leader of a term stands in for its election
            key = (event.group, event.node, event.term)
            if key not in self._seen:
                self._seen.add(key)
                yield OBSERVED, _mark(event, "elected", term=event.term)

    def counts(self, source: str) -> bool:
        """Whether marks of this source count, by all that was added: the witness says it better than the core."""
        if source == OBSERVED:
            return not self._elections_traced
        return source not in self._witnessed


@per_history
def node_marks(history: History) -> list[NodeMark]:
    """All marks, by moment."""
    fold = MarkFold()
    found = [one for event in history for one in fold.add(event)]
    return sorted((mark for source, mark in found if fold.counts(source)), key=lambda mark: (mark.t, mark.seq))


def mark_of(event: Traced) -> NodeMark | None:
    """The mark of one trace event; None if it is none."""
    name, data = event.name, event.data
    kind: MarkKind
    if name == "vote":
        kind = "vote"
    elif name == "elected":
        kind = "elected"
    elif name in CAMPAIGNS:
        kind = "campaign"
    elif name in PRE_VOTES:
        kind = "pre-vote"
    elif name in STEP_DOWNS:
        kind = "step-down"
    else:
        return None
    term = data.get("term", event.term)
    return NodeMark(
        seq=event.seq,
        t=moment(event),
        node=event.node,
        kind=kind,
        term=term if isinstance(term, int) else event.term,
        group=event.group,
        other=_name(data.get("candidate")) if kind == "vote" else None,
        voters=tuple(str(voter) for voter in data.get("voters") or ()) if kind == "elected" else (),
    )


def _mark(event: Observed | NodeProcess, kind: MarkKind, *, term: int) -> NodeMark:
    return NodeMark(seq=event.seq, t=moment(event), node=event.node, kind=kind, term=term, group=event.group)


def _name(value: Any) -> str | None:
    return None if value is None else str(value)
