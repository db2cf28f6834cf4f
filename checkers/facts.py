"""Facts about elections that several checkers share, read off the trace events.

* an *election*: a node says, or was witnessed, to have become leader of a term (``elected``, source core or shell);
* a *vote*: witnessed on the wire or written to the disk (``vote``, source shell only). ``relabel`` is no vote.

Guarantees: malformed bodies are passed over, never guessed; what the shell witnessed outranks what the core says.
Out of scope: polls (``dethrone.harness.core.columns``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dethrone.checkers.polls import Polls
from dethrone.checkers.traces import named, reporters
from dethrone.harness.core.columns import changes
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.views import columns

ELECTED, VOTES = named("elected"), named("vote")


@dataclass(frozen=True, slots=True)
class Election:
    """One ``elected`` event. ``voters`` and ``members`` are None where it does not report them."""

    group: str
    node: str
    incarnation: int
    term: int
    voters: frozenset[str] | None
    members: frozenset[str] | None
    event: Traced


@dataclass(frozen=True, slots=True)
class Vote:
    """One witnessed vote: ``voter`` supported ``candidate`` in ``term``."""

    group: str
    voter: str
    incarnation: int
    term: int
    candidate: str
    event: Traced


def election(event: Traced) -> Election | None:
    """The election that this event reports, if it does."""
    if event.name != "elected" or event.term <= 0:
        return None
    data: Mapping[str, Any] = event.data
    return Election(
        event.group,
        event.node,
        event.incarnation,
        event.term,
        _names(data.get("voters")),
        _members(data),
        event,
    )


def vote(event: Traced) -> Vote | None:
    """The vote that this event reports, if it does."""
    if event.name != "vote" or event.source != "shell" or event.term <= 0:
        return None
    candidate = event.data.get("candidate")
    if not isinstance(candidate, str) or not candidate:
        return None
    return Vote(event.group, event.node, event.incarnation, event.term, candidate, event)


@per_history
def elections(history: History) -> list[Election]:
    """All elections, in file order."""
    return [fact for event in ELECTED(history) if (fact := election(event)) is not None]


@per_history
def votes(history: History) -> list[Vote]:
    """All votes, in file order."""
    return [fact for event in VOTES(history) if (fact := vote(event)) is not None]


@per_history
def answers(history: History) -> Polls:
    """All polls, by the moment of the answer."""
    table = columns(history)
    return Polls(table, np.arange(len(table.observed)))


@per_history
def leading(history: History) -> Polls:
    """Polls of nodes that said that they lead, by the moment of the answer."""
    table = columns(history)
    return Polls(table, np.flatnonzero(table.observed.leads))


@per_history
def leaders_polled(history: History) -> frozenset[tuple[str, int, str]]:
    """(group, term, node) of all that said that they lead."""
    table = columns(history)
    polls = table.observed
    rows = np.flatnonzero(polls.leads)
    rows = rows[np.argsort(polls.identities[rows], kind="stable")]
    firsts = rows[changes(polls.identities[rows], polls.term[rows])]
    return frozenset((row.group, row.term, row.node) for row in table.rows(firsts))


@per_history
def groups(history: History) -> tuple[str, ...]:
    """The consensus groups that were seen; at least one.

    Where polls name groups, what names none is of the process; where only traces do, polls speak of an unnamed one.
    """
    table = columns(history)
    polled = {table.words.words[code] for code in np.unique(table.observed.group).tolist()}
    seen = {group for group, _ in reporters(history)} | polled
    named = seen - {""}
    return tuple(sorted(seen if "" in polled else named)) or ("",)


def in_group(group: str) -> str:
    """How a sentence names the group; nothing where there is one only."""
    return f" of group {group}" if group else ""


def _names(value: Any) -> frozenset[str] | None:
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    return frozenset(item for item in value if isinstance(item, str))


def _members(data: Mapping[str, Any]) -> frozenset[str] | None:
    """The voters of the configuration in force, where the event reports them."""
    given = _names(data.get("members"))
    if given is None:
        config = data.get("config")
        given = _names(config.get("voters") if isinstance(config, Mapping) else config)
    return given or None
