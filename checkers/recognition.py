"""When a leader was recognised by a quorum, as far as polls and traces show it.

A *key* is a leader and its term (its name alone, where a leader is not bound to a term). It is recognised at a poll if
the leader itself was seen leading and a quorum's last polls name it. Guarantees: optimistic where it matters (what may
have been recognised is never called absent) and exact about its evidence: absence is certain only if enough voters were
polled closely enough. Out of scope: any bound.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from dethrone.checkers.base import votes_needed
from dethrone.checkers.facts import elections
from dethrone.checkers.polls import Polls
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.views import columns

Key = tuple[str, int]
"""(leader, term); term 0 where the promise does not bind them."""


@dataclass(frozen=True, slots=True)
class Point:
    """A moment (at the latest ``t``) at which this key was recognised; ``seq`` is the event that completes it."""

    t: Ns
    key: Key
    seq: int


class Recognition:
    """Polls and elections of one group, by time of the answer."""

    def __init__(self, history: History, promise: Promise, plan: Plan, group: str) -> None:
        self.group = group
        self._bound = promise.leader_bound_to_term
        self._voters = frozenset(plan.voters)
        self._quorum = votes_needed(promise, len(self._voters))
        self._termed = self._bound and len(self._voters) > 1
        """Whether who is named in term 0 is none: a group of one may lead without an election."""
        table = columns(history)
        code = table.words.code
        self.word = table.words.word
        """The word behind a code of ``Polls.numbers``."""
        self._nameless = {code(None), code("")}
        voting = np.isin(table.observed.node, [code(voter) for voter in plan.voters])
        self.polls = Polls(table, np.flatnonzero(voting & (table.observed.group == code(group))))
        """Of the voters, by the moment of the answer."""
        self._elections = sorted(
            (fact.event.span.hi, self.key(fact.node, fact.term), fact.event.seq)
            for fact in elections(history)
            if fact.group == group
        )

    def key(self, leader: str, term: int) -> Key:
        """The key of this leader."""
        return leader, term if self._bound else 0

    def named(self, row: Observed) -> Key | None:
        """Whom this poll names."""
        if row.term <= 0 and self._termed:
            return None
        who = row.node if row.leads else row.leader
        return None if not who else self.key(who, row.term)

    def untermed(self, lo: Ns, hi: Ns) -> str | None:
        """Whom a quorum may have followed within [lo, hi], though it says that it leads in term 0, if there is one.

        Term 0 is no term: that proves no leader, and it does not prove that there was none.
        """
        if not self._termed:
            return None
        rows = self.asked_within(lo, hi)
        for leader in dict.fromkeys(row.node for row in rows if row.leads and row.term <= 0):
            named = {row.node for row in rows if (row.node if row.leads else row.leader) == leader}
            if len(named) >= self._quorum:
                return leader
        return None

    def asked_within(self, lo: Ns, hi: Ns) -> list[Observed]:
        """Polls asked and answered within [lo, hi], by the time of the answer."""
        return [row for row in self.polls.within(lo, hi) if row.span.lo >= lo]

    def points(self, lo: Ns, hi: Ns) -> list[Point]:
        """All moments within [lo, hi] that show a recognised leader, from what was asked within it alone."""
        last: dict[int, tuple[int, int]] = {}
        """Voter → the leader and the term that its last poll names; nodes as codes."""
        leading: dict[int, tuple[int, int]] = {}
        """Voter → the same, if that poll was of the leader."""
        out: list[Point] = []
        fields = ("node", "leads", "leader", "term", "lo", "hi", "seq")
        rows = self.polls.numbers(self.polls.before(lo), self.polls.until(hi), *fields)
        for node, leads, leader, term, asked, answered, seq in rows:
            if asked < lo:
                continue
            led = node if leads else leader
            leading.pop(node, None)
            if led in self._nameless or (term <= 0 and self._termed):
                last.pop(node, None)
                continue
            key = last[node] = led, term if self._bound else 0
            if leads:
                leading[node] = key
            if leading.get(led) == key and list(last.values()).count(key) >= self._quorum:
                out.append(Point(answered, self.key(self.word(led) or "", term), seq))
        return out

    def elected_within(self, lo: Ns, hi: Ns) -> list[Point]:
        """Elections within [lo, hi]: a quorum voted."""
        return [Point(t, key, seq) for t, key, seq in self._elections if lo <= t <= hi]

    def certainly_none(self, lo: Ns, hi: Ns, *, dead: frozenset[str], step_ns: Ns) -> bool:
        """Whether no leader can have been recognised by a quorum within [lo, hi] for longer than ``step_ns``.

        ``dead``: voters that were certainly down or frozen all that time. A voter that was not polled at least every
        ``step_ns`` may have followed, or been, any node.
        """
        rows = self.asked_within(lo, hi)
        asked: dict[str, list[tuple[Ns, Ns]]] = defaultdict(list)
        followers: dict[Key, set[str]] = defaultdict(set)
        led: set[Key] = set()
        for row in rows:
            asked[row.node].append((row.span.lo, row.span.hi))
            key = self.named(row)
            if key is not None:
                followers[key].add(row.node)
                if row.leads:
                    led.add(key)
        alive = self._voters - dead
        unseen = {voter for voter in alive if not _closely(asked.get(voter, []), lo, hi, step_ns)}
        if len(unseen) >= self._quorum:
            return False
        if self.elected_within(lo, hi):
            return False
        for key, names in followers.items():
            possible = key in led or key[0] in unseen
            if possible and len((names & alive) | unseen) >= self._quorum:
                return False
        return True


def recognition(history: History, promise: Promise, plan: Plan, group: str) -> Recognition:
    """The recognition of one group (cached)."""
    cache: dict[str, Recognition] = history.cache.setdefault("dethrone.checkers.recognition", {})
    if group not in cache:
        cache[group] = Recognition(history, promise, plan, group)
    return cache[group]


def no_term(leader: str) -> str:
    """How a doubt describes a leader that names no term."""
    return (
        f"{leader} claims to lead in term 0, which is not a valid term; make its status report the term"
        " (`dethrone doctor FILE` examines a description)"
    )


def step_between(plan: Plan, bound: Ns) -> Ns:
    """How far apart two polls of a node may be to count as close, within a bound."""
    return max(5 * plan.observe_interval_ns, bound // 4)


def _closely(asked: list[tuple[Ns, Ns]], lo: Ns, hi: Ns, step_ns: Ns) -> bool:
    """Whether these polls cover [lo, hi] without a hole longer than ``step_ns``."""
    at = lo
    for begin, end in asked:
        if begin - at > step_ns:
            return False
        at = max(at, end)
    return hi - at <= step_ns
