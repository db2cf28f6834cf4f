"""one-vote-per-term: a node gives its vote of one term to one candidate only, restarts included.

Sources: ``vote`` events of the shell (on the wire, after the disk), over all incarnations; and polled ``voted_for``
within one incarnation, where the promise binds a leader to its term. Out of scope: ``relabel`` events; polled votes
across restarts (a vote reported before it was stored and then lost with the process was never given).

Source: Raft paper, figure 2, "RequestVote RPC" and "Persistent state".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dethrone.checkers.base import Base, Excuses, finding
from dethrone.checkers.facts import in_group, vote, votes
from dethrone.harness.core.columns import Columns, changes, columns
from dethrone.harness.core.events import FaultEvent, Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Channel, Promise
from dethrone.harness.core.verdict import Finding, Verdict


class OneVotePerTerm(Base):
    """See the module."""

    name = "one-vote-per-term"
    kind = "safety"
    needs: frozenset[Channel] = frozenset({"witness"})

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if (na := self.not_owed(promise) or self.not_observable(plan, "witness")) is not None:
            return na
        given: dict[tuple[str, str, int], dict[str, int]] = {}
        for fact in votes(history):
            given.setdefault((fact.group, fact.voter, fact.term), {}).setdefault(fact.candidate, fact.event.seq)
        findings = [_two(history, promise, key, candidates) for key, candidates in given.items() if len(candidates) > 1]
        if promise.leader_bound_to_term and "voted_for" in plan.observable:
            known = {(found.nodes, found.term) for found in findings}
            polled = [
                _two(history, promise, key, candidates) for key, candidates in polled_double_votes(columns(history))
            ]
            findings += [found for found in polled if (found.nodes, found.term) not in known]
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda found: found.certificate),
            judged=len(given),
            nothing="no vote was witnessed",
            evidence={"votes": len(votes(history)), "node_terms": len(given)},
        )

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Observed | Any], bool]:
        """True once a second candidate got a node's vote of one term."""
        given: dict[tuple[str, str, int], str] = {}
        watch = Excuses(promise)
        owed = promise.owes(self.name) and "witness" in plan.observable

        def feed(event: Observed | Any) -> bool:
            if not owed or watch.unsafe:
                return False
            if type(event) is Traced:
                fact = vote(event)
                if fact is None:
                    return False
                return given.setdefault((fact.group, fact.voter, fact.term), fact.candidate) != fact.candidate
            if type(event) is FaultEvent:
                watch.feed(event)
            return False

        return feed


def polled_double_votes(table: Columns) -> list[tuple[tuple[str, str, int], dict[str, int]]]:
    """(group, node, term) → candidate → ``seq``, where one incarnation named two candidates for one term.
    Vectorised.
    """
    obs = table.observed
    rows = np.flatnonzero((obs.voted_for >= 0) & (obs.term > 0) & obs.told_at_once)
    if not len(rows):
        return []
    order = obs.order
    kept = np.zeros(len(obs), dtype=np.bool_)
    kept[rows] = True
    rows = order[kept[order]]
    starts = changes(obs.group[rows], obs.node[rows], obs.incarnation[rows], obs.term[rows], obs.voted_for[rows])
    rows = rows[starts]
    told: dict[tuple[int, int, int, int], dict[int, int]] = {}
    for group, node, incarnation, term, candidate, seq in zip(
        obs.group[rows].tolist(),
        obs.node[rows].tolist(),
        obs.incarnation[rows].tolist(),
        obs.term[rows].tolist(),
        obs.voted_for[rows].tolist(),
        obs.seq[rows].tolist(),
        strict=True,
    ):
        told.setdefault((group, node, incarnation, term), {}).setdefault(candidate, seq)
    word = table.words.word
    return [
        ((word(group) or "", word(node) or "", term), {word(c) or "": seq for c, seq in candidates.items()})
        for (group, node, _, term), candidates in told.items()
        if len(candidates) > 1
    ]


def _two(history: History, promise: Promise, key: tuple[str, str, int], candidates: dict[str, int]) -> Finding:
    group, node, term = key
    (first, at), (second, later) = sorted(candidates.items(), key=lambda item: item[1])[:2]
    restarted = history.at(at).incarnation != history.at(later).incarnation
    return finding(
        history,
        promise,
        f"{node} voted for {first} and for {second} in term {term}{in_group(group)}"
        f"{', with a restart in between' if restarted else ''}.",
        (at, later),
        nodes=(node,),
        term=term,
        data={"candidates": sorted(candidates)},
    )


CHECKER = OneVotePerTerm()
