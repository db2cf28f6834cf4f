"""The events of a history that a reader of an election wants to see: votes, elections, process starts and exits.

Guarantees: pure; taken from what the shell witnessed if there is a witness, else from the protocol's own words; sorted
by time. ``lanes`` draws intervals, ``words`` writes sentences.
"""

from __future__ import annotations

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


def leading_roles(history: History) -> frozenset[str]:
    """The role words that mean "leads", as this system's adapter said in its observations."""
    seen = {event.role for event in history.of(Observed) if event.leads}
    return frozenset(seen) or frozenset({"LEADER", "Leader", "leader", "MASTER"})


@per_history
def node_marks(history: History) -> list[NodeMark]:
    """All marks, by moment."""
    traced = history.of(Traced)
    witnessed = {event.name for event in traced if event.source == "shell"}
    # the witness says it better than the core, where both speak
    marks = [
        mark
        for event in traced
        if (event.source == "shell" or event.name not in witnessed) and (mark := mark_of(event)) is not None
    ]
    if not any(event.name == "elected" for event in traced):
        marks += _elections_seen(history)
    for event in history.of(NodeProcess):
        if event.phase != "ready":
            kind: MarkKind = "started" if event.phase == "started" else "exited"
            marks.append(
                NodeMark(seq=event.seq, t=moment(event), node=event.node, kind=kind, term=0, group=event.group)
            )
    marks.sort(key=lambda mark: (mark.t, mark.seq))
    return marks


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


def _elections_seen(history: History) -> list[NodeMark]:
    """Without any trace: a node's first answer as the leader of a term stands in for its election."""
    out: list[NodeMark] = []
    seen: set[tuple[str, str, int]] = set()
    for event in history.of(Observed):
        key = (event.group, event.node, event.term)
        if event.leads and key not in seen:
            seen.add(key)
            out.append(
                NodeMark(
                    seq=event.seq,
                    t=moment(event),
                    node=event.node,
                    kind="elected",
                    term=event.term,
                    group=event.group,
                )
            )
    return out


def _name(value: Any) -> str | None:
    return None if value is None else str(value)
