"""leader-has-majority: an elected node holds the votes of a majority of the members in force.

Sources: the voters of witnessed ``elected`` events (of the core's own where nothing is witnessed), counted against the
members that the event names, else the plan's voters. From polls alone: leader i of term T is refuted if more than n − q
members are known to have voted for others in T. Out of scope: learners, and polls where a leader is not bound to a
term.

Source: Raft paper, section 5.2; "votes of a majority of the servers in the full cluster".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dethrone.checkers.base import Folded, finding, moment, votes_needed
from dethrone.checkers.facts import ELECTED, VOTES, Election, election, elections, in_group, votes
from dethrone.checkers.members import CONFIG
from dethrone.checkers.one_leader_per_term import polled_claims
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import changes
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns


class Elected:
    """The elections whose voters count: the witnessed ones, where the system's shell is a witness; and the members."""

    def __init__(self, promise: Promise, plan: Plan) -> None:
        self._promise = promise
        self._voters = frozenset(plan.voters)
        self._source = "shell" if "witness" in plan.observable else "core"
        self._members: dict[tuple[str, str, int], frozenset[str]] = {}
        """(group, node, term) → the members that an event of this election names."""
        self._changing = False
        self.counted: list[Election] = []

    def feed(self, event: Any) -> Ns | None:
        """See ``dethrone.checkers.base.Fold``. Once the members change, whose votes count is known at the end only."""
        if type(event) is not Traced:
            return None
        self._changing = self._changing or event.name == CONFIG
        fact = election(event)
        if fact is None or not self.take(fact) or self._changing or self.lacking(fact) is None:
            return None
        return moment(event)

    def take(self, fact: Election) -> bool:
        """Take an election; whether its voters count."""
        if fact.members is not None:
            self._members[fact.group, fact.node, fact.term] = fact.members
        counts = fact.event.source == self._source and fact.voters is not None
        if counts:
            self.counted.append(fact)
        return counts

    def lacking(self, fact: Election) -> tuple[frozenset[str], int] | None:
        """(members in force, votes of them that are needed) of an election by fewer."""
        members = self._members.get((fact.group, fact.node, fact.term), self._voters)
        needed = votes_needed(self._promise, len(members))
        return (members, needed) if len((fact.voters or frozenset()) & members) < needed else None


class LeaderHasMajority(Folded):
    name = "leader-has-majority"
    kind = "safety"
    channels = ("witness", "traced", "observed")
    views = (columns, ELECTED, VOTES)

    def fold(self, promise: Promise, plan: Plan) -> Elected:
        """The elections whose voters count."""
        return Elected(promise, plan)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        elected = self.fold(promise, plan)
        for fact in elections(history):
            elected.take(fact)
        findings = [
            _refused(history, promise, fact, lacking)
            for fact in elected.counted
            if (lacking := elected.lacking(fact)) is not None
        ]
        judged = {(fact.group, fact.node, fact.term) for fact in elected.counted}
        refuted, polled = _from_polls(history, promise, plan, judged) if promise.leader_bound_to_term else ([], 0)
        return self.conclude(
            history,
            findings=findings + refuted,
            judged=len(judged) + polled,
            nothing="no election reported its voters",
            evidence={"elections_counted": len(judged), "leaders_judged_by_polls": polled},
        )


def _refused(history: History, promise: Promise, fact: Election, lacking: tuple[frozenset[str], int]) -> Finding:
    members, needed = lacking
    voters = sorted(fact.voters or ())
    held = len(members & set(voters))
    strangers = sorted(set(voters) - members)
    told = [other.event.seq for other in votes(history) if (other.group, other.term) == (fact.group, fact.term)]
    return finding(
        history,
        promise,
        f"{fact.node} became leader of term {fact.term}{in_group(fact.group)} with {held} of {len(members)} votes"
        f" ({', '.join(voters) or 'none'}); {needed} are needed"
        f"{'; not members: ' + ', '.join(strangers) if strangers else ''}.",
        (*told[:7], fact.event.seq),
        nodes=(fact.node,),
        term=fact.term,
        data={"voters": voters, "needed": needed},
    )


def _from_polls(
    history: History, promise: Promise, plan: Plan, judged: set[tuple[str, str, int]]
) -> tuple[list[Finding], int]:
    """Leaders of whom no voters are known, refuted by votes known to have gone to others."""
    table = columns(history)
    claims = [claim for claim in polled_claims(table) if (claim[0], claim[2], claim[1]) not in judged]
    if not claims:
        return [], 0
    supported: dict[tuple[str, int], dict[str, dict[str, int]]] = {}
    """(group, term) → voter → candidate → seq."""
    for fact in votes(history):
        voters = supported.setdefault((fact.group, fact.term), {})
        voters.setdefault(fact.voter, {}).setdefault(fact.candidate, fact.event.seq)
    if "voted_for" in plan.observable:
        polls = table.observed
        voted = np.flatnonzero(polls.told_at_once & (polls.term > 0) & (polls.voted_for >= 0))
        voted = voted[np.argsort(polls.identities[voted], kind="stable")]
        firsts = voted[changes(polls.identities[voted], polls.term[voted], polls.voted_for[voted])]
        for row in table.rows(np.sort(firsts)):
            if row.voted_for:
                voters = supported.setdefault((row.group, row.term), {})
                voters.setdefault(row.node, {}).setdefault(row.voted_for, row.seq)
    members = frozenset(plan.voters)
    spare = len(members) - votes_needed(promise, len(members))
    findings = []
    polled = 0
    for group, term, leader, seq in claims:
        known = supported.get((group, term), {})
        polled += bool(known)
        others = {
            voter: min(given.values()) for voter, given in known.items() if voter in members and leader not in given
        }
        if len(others) > spare:
            findings.append(
                finding(
                    history,
                    promise,
                    f"{leader} leads in term {term}{in_group(group)} although {', '.join(sorted(others))} voted for"
                    f" others in it: at most {len(members) - len(others)} of {len(members)} votes were left.",
                    (seq, *list(others.values())[:7]),
                    nodes=(leader,),
                    term=term,
                )
            )
    return findings, polled


CHECKER = LeaderHasMajority()
