"""one-vote-per-term: a node gives its vote of one term to one candidate only, restarts included.

Sources: ``vote`` events of the shell (on the wire, after the disk), over all incarnations; and polled ``voted_for``
within one incarnation, where the promise binds a leader to its term. Out of scope: ``relabel`` events; polled votes
across restarts (a vote reported before it was stored and then lost with the process was never given).

Source: Raft paper, figure 2, "RequestVote RPC" and "Persistent state".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dethrone.checkers.base import Folded, finding, moment
from dethrone.checkers.facts import VOTES, Vote, in_group, vote, votes
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import changes
from dethrone.harness.core.events import Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import Columns, columns

Given = dict[str, Traced | Observed]
"""Candidate → the first event by which it has the vote."""


class Votes:
    """To whom each node gave its vote of each term: as witnessed, over all its lives; as polled, within each."""

    def __init__(self, promise: Promise, plan: Plan) -> None:
        self.by_polls = promise.leader_bound_to_term and "voted_for" in plan.observable
        self.witnessed: dict[tuple[str, str, int], Given] = {}
        """(group, node, term) → …"""
        self._polled: dict[tuple[str, str, int, int], Given] = {}
        """(group, node, term, incarnation) → …"""

    def feed(self, event: Any) -> Ns | None:
        """See ``dethrone.checkers.base.Fold``; of polls those that are atomic."""
        if type(event) is Traced:
            fact = vote(event)
            return None if fact is None else self.witness(fact)
        if type(event) is Observed and self.by_polls and event.atomic and event.term > 0 and event.voted_for:
            return self.poll(event, event.voted_for)
        return None

    def witness(self, fact: Vote) -> Ns | None:
        """A vote on the wire or on the disk."""
        here = self.witnessed.setdefault((fact.group, fact.voter, fact.term), {})
        return None if here.setdefault(fact.candidate, fact.event) is not fact.event else _until(here)

    def poll(self, event: Observed, candidate: str) -> Ns | None:
        """A poll whose vote belongs to its term."""
        here = self._polled.setdefault((event.group, event.node, event.term, event.incarnation), {})
        return None if here.setdefault(candidate, event) is not event else _until(here)

    def double(self) -> Iterator[tuple[str, str, int, Given]]:
        """(group, node, term, candidates) of votes given twice; by polls only where nothing else shows it."""
        shown = set()
        for (group, node, term), given in self.witnessed.items():
            if len(given) > 1:
                shown.add((node, term))
                yield group, node, term, given
        for (group, node, term, _), given in self._polled.items():
            if len(given) > 1 and (node, term) not in shown:
                yield group, node, term, given


def _until(given: Given) -> Ns | None:
    first = sorted(given.values(), key=lambda event: event.seq)[:2]
    return max(map(moment, first)) if len(first) > 1 else None


class OneVotePerTerm(Folded):
    name = "one-vote-per-term"
    kind = "safety"
    channels = ("witness",)
    views = (columns, VOTES)

    def fold(self, promise: Promise, plan: Plan) -> Votes:
        """To whom each node gave its vote of each term."""
        return Votes(promise, plan)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        given = self.fold(promise, plan)
        for fact in votes(history):
            given.witness(fact)
        if given.by_polls:
            table = columns(history)
            for row in table.at(polled_votes(table)):
                given.poll(row, row.voted_for or "")
        findings = [_two(history, promise, double) for double in given.double()]
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda found: found.certificate),
            judged=len(given.witnessed),
            nothing="no vote was witnessed",
            evidence={"votes": len(votes(history)), "node_terms": len(given.witnessed)},
        )


def polled_votes(table: Columns) -> list[int]:
    """The polls, as asked, in which a process names a candidate and did not in the one before. Vectorised."""
    obs = table.observed
    rows = np.flatnonzero((obs.voted_for >= 0) & (obs.term > 0) & obs.told_at_once)
    if not len(rows):
        return []
    order = obs.order
    kept = np.zeros(len(obs), dtype=np.bool_)
    kept[rows] = True
    rows = order[kept[order]]
    starts = changes(obs.group[rows], obs.node[rows], obs.incarnation[rows], obs.term[rows], obs.voted_for[rows])
    seqs: list[int] = obs.seq[rows[starts]].tolist()
    return seqs


def _two(history: History, promise: Promise, double: tuple[str, str, int, Given]) -> Finding:
    group, node, term, given = double
    (first, at), (second, later) = sorted(given.items(), key=lambda item: item[1].seq)[:2]
    return finding(
        history,
        promise,
        f"{node} voted for {first} and for {second} in term {term}{in_group(group)}"
        f"{', with a restart in between' if at.incarnation != later.incarnation else ''}.",
        (at.seq, later.seq),
        nodes=(node,),
        term=term,
        data={"candidates": sorted(given)},
        remembering=node,
    )


CHECKER = OneVotePerTerm()
