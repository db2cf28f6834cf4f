"""leader-has-majority: an elected node holds the votes of a majority of the members in force.

Sources: the voters of witnessed ``elected`` events (of the core's own where nothing is witnessed), counted against the
members that the event names, else the plan's voters. From polls alone: leader i of term T is refuted if more than n − q
members are known to have voted for others in T. Out of scope: learners, and polls where a leader is not bound to a
term.

Source: Raft paper, section 5.2; "votes of a majority of the servers in the full cluster".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dethrone.checkers.base import Base, Excuses, finding, votes_needed
from dethrone.checkers.facts import Election, election, elections, in_group, votes
from dethrone.checkers.members import CONFIG
from dethrone.checkers.one_leader_per_term import polled_claims
from dethrone.harness.core.columns import columns
from dethrone.harness.core.events import FaultEvent, Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Channel, Promise
from dethrone.harness.core.verdict import Finding, Verdict


class LeaderHasMajority(Base):
    """See the module."""

    name = "leader-has-majority"
    kind = "safety"
    needs: frozenset[Channel] = frozenset()

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if (na := self.not_owed(promise) or self.not_observable(plan, "witness", "traced", "observed")) is not None:
            return na
        findings: list[Finding] = []
        judged: set[tuple[str, str, int]] = set()
        facts = elections(history)
        config = {(fact.group, fact.node, fact.term): fact.members for fact in facts if fact.members is not None}
        for fact in counted(facts, plan):
            judged.add((fact.group, fact.node, fact.term))
            members = config.get((fact.group, fact.node, fact.term)) or frozenset(plan.voters)
            if (found := too_few(fact, members, promise)) is not None:
                findings.append(_refused(history, promise, fact, members, needed=found[1]))
        refuted, polled = _from_polls(history, promise, plan, judged) if promise.leader_bound_to_term else ([], 0)
        return self.conclude(
            history,
            findings=findings + refuted,
            judged=len(judged) + polled,
            nothing="no election reported its voters",
            evidence={"elections_counted": len(judged), "leaders_judged_by_polls": polled},
        )

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Observed | Any], bool]:
        """True once a node was elected by too few."""
        watch = Excuses(promise)
        owed = promise.owes(self.name)
        changed = False

        def feed(event: Observed | Any) -> bool:
            nonlocal changed
            if not owed or watch.unsafe or changed:
                return False
            if type(event) is Traced:
                if event.name == CONFIG:
                    changed = True  # whose votes count is known from the whole history only
                    return False
                fact = election(event)
                if fact is None or not list(counted([fact], plan)):
                    return False
                # The configuration stands in the core's event; without it the plan's voters are in force.
                return fact.members is None and too_few(fact, frozenset(plan.voters), promise) is not None
            if type(event) is FaultEvent:
                watch.feed(event)
            return False

        return feed


def counted(facts: list[Election], plan: Plan) -> list[Election]:
    """The elections whose voters count: the witnessed ones, where the system's shell is a witness."""
    source = "shell" if "witness" in plan.observable else "core"
    return [fact for fact in facts if fact.event.source == source and fact.voters is not None]


def too_few(fact: Election, members: frozenset[str], promise: Promise) -> tuple[int, int] | None:
    """(votes of members, votes needed) if they do not suffice."""
    held = len((fact.voters or frozenset()) & members)
    needed = votes_needed(promise, len(members))
    return (held, needed) if held < needed else None


def _refused(history: History, promise: Promise, fact: Election, members: frozenset[str], *, needed: int) -> Finding:
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
        sure = table.observed.told_at_once
        for row, usable in zip(history.of(Observed), sure.tolist(), strict=True):
            if usable and row.term > 0 and row.voted_for:
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
