"""one-leader-per-term: no two nodes are elected, or claim at any two moments to lead, in one term of a group.

Sources: ``elected`` events of shell and core; polls whose role and term belong together, where the promise binds a
leader to its term (then also two nodes that name different leaders for one term). Clock-free: the certificate is two
events, at any time. Out of scope: polls of systems whose ``leader`` field may contradict their role, and term 0.

Source: Raft paper, figure 3, "Election Safety".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dethrone.checkers.base import Folded, finding, moment
from dethrone.checkers.facts import ELECTED, election, elections, in_group
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import changes
from dethrone.harness.core.events import Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import Columns, columns

Key = tuple[str, int]
"""(group, term)."""


class Leaders:
    """Who is said to lead which term, by elections and by polls; and the first event of each that says so."""

    def __init__(self, promise: Promise) -> None:
        self._by_polls = promise.leader_bound_to_term
        self.elected: dict[Key, dict[str, Traced]] = {}
        self.polled: dict[Key, dict[str, Observed]] = {}

    def feed(self, event: Any) -> Ns | None:
        """See ``dethrone.checkers.base.Fold``; of polls those that are atomic."""
        if type(event) is Traced:
            fact = election(event)
            return None if fact is None else self.elect((fact.group, fact.term), fact.node, event)
        if type(event) is not Observed or not self._by_polls or not event.atomic or event.term <= 0:
            return None
        key = (event.group, event.term)
        led = self.poll(key, event.node, event) if event.leads else None
        named = self.poll(key, event.leader, event) if event.leader else None
        return named if led is None else led

    def elect(self, key: Key, who: str, event: Traced) -> Ns | None:
        """This node was elected."""
        here = self.elected.setdefault(key, {})
        return None if here.setdefault(who, event) is not event else self._until(key)

    def poll(self, key: Key, who: str, event: Observed) -> Ns | None:
        """A poll whose role and leader belong to its term says that this node leads."""
        here = self.polled.setdefault(key, {})
        return None if here.setdefault(who, event) is not event else self._until(key)

    def first(self, key: Key) -> list[tuple[str, Traced | Observed]]:
        """The leaders of this term, each with its election, else with the first poll that names it, in file order."""
        said: dict[str, Traced | Observed] = {**self.polled.get(key, {}), **self.elected.get(key, {})}
        return sorted(said.items(), key=lambda item: item[1].seq)

    def _until(self, key: Key) -> Ns | None:
        said = self.first(key)
        return max(moment(said[0][1]), moment(said[1][1])) if len(said) > 1 else None


class OneLeaderPerTerm(Folded):
    name = "one-leader-per-term"
    kind = "safety"
    channels = ("witness", "traced", "observed")
    views = (columns, ELECTED)

    def fold(self, promise: Promise, plan: Plan) -> Leaders:
        """Who is said to lead which term."""
        del plan
        return Leaders(promise)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        leaders = self.fold(promise, plan)
        for fact in elections(history):
            leaders.elect((fact.group, fact.term), fact.node, fact.event)
        polled = 0
        if promise.leader_bound_to_term:
            table = columns(history)
            claimed = polled_claims(table)
            polls = table.at([seq for *_, seq in claimed])
            for (group, term, who, _), row in zip(claimed, polls, strict=True):
                leaders.poll((group, term), who, row)
            polled = len(table.observed)
        claims = [(key, leaders.first(key)) for key in {**leaders.elected, **leaders.polled}]
        claims.sort(key=lambda claim: claim[1][0][1].seq)
        return self.conclude(
            history,
            findings=[_two(history, promise, key, who) for key, who in claims if len(who) > 1],
            judged=len(claims),
            nothing="no node was elected and none claimed to lead",
            evidence={"leaders": sum(len(who) for _, who in claims), "terms": len(claims), "polls": polled},
        )


def polled_claims(table: Columns) -> list[tuple[str, int, str, int]]:
    """(group, term, who is said to lead it, first ``seq`` that says so), each once. Vectorised."""
    obs = table.observed
    if not len(obs):
        return []
    usable = (obs.term > 0) & obs.told_at_once
    out: dict[tuple[int, int, int], int] = {}
    for mask, who in ((usable & obs.leads, obs.node), (usable & (obs.leader >= 0), obs.leader)):
        rows = np.flatnonzero(mask)
        if not len(rows):
            continue
        group, term, named = obs.group[rows], obs.term[rows], who[rows]
        starts = changes(group, term, named)
        rows = rows[starts]
        if len(rows) > 4096:
            packed = np.stack([obs.group[rows], obs.term[rows], who[rows]])
            _, firsts = np.unique(packed, axis=1, return_index=True)
            rows = rows[np.sort(firsts)]
        for g, t, w, seq in zip(
            obs.group[rows].tolist(), obs.term[rows].tolist(), who[rows].tolist(), obs.seq[rows].tolist(), strict=True
        ):
            key = (g, t, w)
            if key not in out or seq < out[key]:
                out[key] = seq
    word = table.words.word
    return [(word(g) or "", t, word(w) or "", seq) for (g, t, w), seq in out.items() if word(w)]


def _two(history: History, promise: Promise, key: Key, who: list[tuple[str, Traced | Observed]]) -> Finding:
    group, term = key
    (first, at), (second, later) = who[:2]
    more = f" (and {len(who) - 2} more)" if len(who) > 2 else ""
    return finding(
        history,
        promise,
        f"{first} and {second}{more} both lead in term {term}{in_group(group)}.",
        (at.seq, later.seq),
        nodes=[name for name, _ in who],
        term=term,
    )


CHECKER = OneLeaderPerTerm()
