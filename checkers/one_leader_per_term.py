"""one-leader-per-term: no two nodes are elected, or claim at any two moments to lead, in one term of a group.

Sources: ``elected`` events of shell and core; polls whose role and term belong together, where the promise binds a
leader to its term (then also two nodes that name different leaders for one term). Clock-free: the certificate is two
events, at any time. Out of scope: polls of systems whose ``leader`` field may contradict their role, and term 0.

Source: Raft paper, figure 3, "Election Safety".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dethrone.checkers.base import Base, Excuses, finding
from dethrone.checkers.facts import election, elections, in_group
from dethrone.harness.core.columns import Columns, changes, columns
from dethrone.harness.core.events import FaultEvent, Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Channel, Promise
from dethrone.harness.core.verdict import Finding, Verdict

Key = tuple[str, int]
"""(group, term)."""


class OneLeaderPerTerm(Base):
    """See the module."""

    name = "one-leader-per-term"
    kind = "safety"
    needs: frozenset[Channel] = frozenset()

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if (na := self.not_owed(promise) or self.not_observable(plan, "witness", "traced", "observed")) is not None:
            return na
        claims: dict[Key, dict[str, int]] = {}
        """(group, term) → who is claimed to lead it → the first event that says so."""
        for fact in elections(history):
            claims.setdefault((fact.group, fact.term), {}).setdefault(fact.node, fact.event.seq)
        polled = 0
        if promise.leader_bound_to_term:
            table = columns(history)
            for group, term, who, seq in polled_claims(table):
                claims.setdefault((group, term), {}).setdefault(who, seq)
            polled = len(table.observed)
        findings = [
            _two(history, promise, key, who) for key, who in sorted(claims.items(), key=_first_seq) if len(who) > 1
        ]
        return self.conclude(
            history,
            findings=findings,
            judged=len(claims),
            nothing="no node was elected and none claimed to lead",
            evidence={"leaders": sum(len(who) for who in claims.values()), "terms": len(claims), "polls": polled},
        )

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Observed | Any], bool]:
        """True once two leaders of one term are certain."""
        del plan
        claims: dict[Key, str] = {}
        watch = Excuses(promise)
        owed = promise.owes(self.name)

        def feed(event: Observed | Any) -> bool:
            if not owed or watch.unsafe:
                return False
            if type(event) is Traced:
                fact = election(event)
                return fact is not None and claims.setdefault((fact.group, fact.term), fact.node) != fact.node
            if type(event) is Observed:
                if not (promise.leader_bound_to_term and event.atomic and event.term > 0):
                    return False
                key = (event.group, event.term)
                named = [event.node] if event.leads else []
                named += [event.leader] if event.leader else []
                return any([claims.setdefault(key, who) != who for who in named])  # noqa: C419 - each claim counts
            if type(event) is FaultEvent:
                watch.feed(event)
            return False

        return feed


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


def _first_seq(item: tuple[Key, dict[str, int]]) -> int:
    return min(item[1].values())


def _two(history: History, promise: Promise, key: Key, who: dict[str, int]) -> Finding:
    group, term = key
    (first, at), (second, later) = sorted(who.items(), key=lambda item: item[1])[:2]
    more = f" (and {len(who) - 2} more)" if len(who) > 2 else ""
    return finding(
        history,
        promise,
        f"{first} and {second}{more} both lead in term {term}{in_group(group)}.",
        (at, later),
        nodes=who,
        term=term,
    )


CHECKER = OneLeaderPerTerm()
