"""members-only: votes and acknowledgements come from members in force; learners and removed nodes do not count.

Three rules, all on what was witnessed on the wire and on disk:

* *votes*: no other vote stands behind a witnessed ``elected``. The members are those of the last configuration in
  the new leader's stored log (those of the plan, while there is none); a configuration that it appended and has not
  stored yet counts, too. Its own vote is left aside: whether it was counted cannot be seen.
* *campaigns*: a node that stores its removal, and knows that entry to be committed, seeks to lead no more.
* *acknowledgements*: what a leader reports as committed in its own term, a majority of the members had acknowledged to
  store before. Members are those of any configuration that was the last one while the entry was in its log; an entry
  that changes the members is counted by the new ones. A node whose later trace is missing may have acknowledged
  anything. Judged only where configurations were witnessed: without them, `leader-completeness` says what a wrong count
  costs.

Out of scope: votes in rounds that were lost, and commits of entries of earlier terms.

Source: Ongaro, thesis, chapter 4: each server uses the latest configuration in its log, committed or not.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from dethrone.checkers.base import Base, finding, votes_needed
from dethrone.checkers.facts import VOTES, election, in_group
from dethrone.checkers.members import CHANGES, CONFIGS, Config, Membership, configurations, count_under, initial
from dethrone.checkers.traces import everything, traces
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict


@dataclass(slots=True)
class _Told:
    """What one node acknowledged to the leader of one term, by time: (earliest moment, highest index so far, seq)."""

    rows: list[tuple[Ns, int, int]] = field(default_factory=list)

    def by(self, t: Ns, index: int) -> int | None:
        """The event by which it had acknowledged ``index`` at ``t`` at the latest; None: it had not."""
        position = bisect.bisect_right(self.rows, (t, 1 << 62, 1 << 62))
        if position == 0 or self.rows[position - 1][1] < index:
            return None
        return next(seq for _, best, seq in self.rows if best >= index)


ELECTED = traces("elected")


class MembersOnly(Base):
    name = "members-only"
    kind = "safety"
    channels = ("witness",)
    views = (ELECTED, VOTES, CONFIGS)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        judge = _Judge(history, promise, plan)
        for (group, node), events in (everything if CONFIGS(history) else ELECTED)(history).items():
            judge.node(group, node, events)
        return self.conclude(
            history,
            findings=sorted(judge.findings, key=lambda found: found.certificate),
            judged=judge.elections,
            nothing="no election was witnessed",
            evidence={
                "elections": judge.elections,
                "commits_counted": judge.commits,
                "configurations": sum(len(rows) for rows in configurations(history).values()),
                "removals_known": judge.removals,
            },
        )


class _Judge:
    def __init__(self, history: History, promise: Promise, plan: Plan) -> None:
        self._history = history
        self._promise = promise
        self._plan = plan
        self.findings: list[Finding] = []
        self.elections = self.commits = self.removals = 0
        self._stored = configurations(history)
        self._of_term: dict[tuple[str, int], dict[int, Config]] = {}
        """(group, term) → index → the configuration of that term that was stored there."""
        for group, rows in self._stored.items():
            for one in rows:
                self._of_term.setdefault((group, one.term), {})[one.index] = one
        self._entries: set[tuple[str, int, int]] = set()
        """(group, index, term) of entries that any node stored; only where the members change."""
        self._told: dict[tuple[str, int, str], _Told] = defaultdict(_Told)
        self._last: dict[tuple[str, str], Ns] = {}
        """When a node's trace ends, as far as it is here."""
        for (group, node), events in everything(history).items() if self._stored else ():
            if group in self._stored:
                self._last[group, node] = max(event.span.lo for event in events)
                self._collect(group, node, events)

    def _collect(self, group: str, node: str, events: Sequence[Traced]) -> None:
        for event in events:
            if event.source != "shell":
                continue
            index = event.data.get("index")
            if event.name == "acked" and isinstance(index, int):
                self._told[group, event.term, node].rows.append((event.span.lo, index, event.seq))
            elif event.name == "log_append":
                rows = event.data.get("entries")
                for row in rows if isinstance(rows, list | tuple) else ():
                    if not isinstance(row, list | tuple) or len(row) < 2:
                        continue
                    at, term = row[:2]
                    if isinstance(at, int) and isinstance(term, int):
                        self._entries.add((group, at, term))
        for (of, _, who), told in self._told.items():
            if (of, who) != (group, node):
                continue
            best = 0
            rows = []
            for lo, index, seq in sorted(told.rows):
                if index > best:
                    best = index
                    rows.append((lo, best, seq))
            told.rows = rows

    def node(self, group: str, node: str, events: Sequence[Traced]) -> None:
        """Judge what one node did, in its own order."""
        mine = Membership(initial(self._plan))
        if not CONFIGS(self._history):  # the members are those of the start, always
            for event in events:
                if event.name == "elected" and event.source == "shell":
                    self._elected(group, mine.possible(), event)
            return
        incarnation = -1
        commit = 0
        reported = False
        known_removed = False
        last, outside = mine.last, False
        for event in events:
            fresh = False
            if event.incarnation != incarnation:
                incarnation, commit, known_removed = event.incarnation, 0, False
                mine.restarted()
                fresh = True
            if event.name == "commit" and event.source == "core":
                new = event.data.get("new")
                commit = max(commit, new) if isinstance(new, int) else commit
            if event.name in CHANGES:
                mine.feed(event)
                fresh = True
            if fresh:
                last = mine.last
                outside = bool(last.seq) and all(node not in one.voters for one in mine.possible())
            removed = outside and commit >= last.index
            self.removals += removed and not known_removed
            known_removed = removed
            if removed and not reported and _seeks(event, node):
                reported = True
                self._removed(group, node, last, event)
            if event.source != "shell":
                continue
            if event.name == "elected":
                self._elected(group, mine.possible(), event)
            elif event.name == "commit" and group in self._stored:
                self._committed(group, node, mine, event)

    def _elected(self, group: str, members: list[Config], event: Traced) -> None:
        fact = election(event)
        if fact is None or fact.voters is None:
            return
        self.elections += 1
        strangers = sorted(
            voter for voter in fact.voters if voter != fact.node and all(voter not in one.voters for one in members)
        )
        if not strangers:
            return
        theirs = [
            vote.seq
            for who in strangers
            for vote in VOTES(self._history)
            if (vote.group, vote.node) == (group, who)
            and vote.term == fact.term
            and vote.data.get("candidate") == fact.node
        ]
        self.findings.append(
            finding(
                self._history,
                self._promise,
                f"{fact.node} became leader of term {fact.term}{in_group(group)} with votes of {', '.join(strangers)},"
                f" not of the members {', '.join(sorted(members[0].voters))}.",
                (*([members[0].seq] if members[0].seq else []), *theirs[:6], event.seq),
                nodes=(fact.node, *strangers),
                term=fact.term,
            )
        )

    def _removed(self, group: str, node: str, last: Config, event: Traced) -> None:
        self.findings.append(
            finding(
                self._history,
                self._promise,
                f"{node} stood for election in term {event.term}{in_group(group)} although it knew that its removal"
                f" (entry {last.index}) was committed.",
                (last.seq, event.seq),
                nodes=(node,),
                term=event.term,
            )
        )

    def _committed(self, group: str, leader: str, mine: Membership, event: Traced) -> None:
        index = event.data.get("index")
        term = event.term
        if not isinstance(index, int) or (group, index, term) not in self._entries:
            return
        own_term = self._of_term.get((group, term), {})
        known = {**{one.index: one for one in mine.all()}, **own_term}
        allowed = count_under(known.values(), index)
        t = event.span.hi
        told = {
            node: self._told[group, term, node].by(t, index)
            for node in frozenset().union(*(one.voters for one in allowed))
            if node != leader
        }
        for one in allowed:
            holders = [
                node
                for node in one.voters
                if node == leader or told[node] is not None or self._last.get((group, node), -1) <= t
            ]
            if len(holders) >= votes_needed(self._promise, len(one.voters)):
                self.commits += 1
                return
        self.commits += 1
        one = allowed[-1]
        holders = sorted(node for node in one.voters if node == leader or told[node] is not None)
        acks = [seq for node in holders if (seq := told.get(node)) is not None]
        self.findings.append(
            finding(
                self._history,
                self._promise,
                f"{leader} reported entry {index} of its term {term}{in_group(group)} as committed when"
                f" {'only ' + ', '.join(holders) if holders else 'none'} of the members"
                f" {', '.join(sorted(one.voters))} had stored it.",
                (*([one.seq] if one.seq else []), *acks[:6], event.seq),
                nodes=(leader,),
                term=term,
                data={"index": index, "members": sorted(one.voters)},
            )
        )


def _seeks(event: Traced, node: str) -> bool:
    """Whether this event shows that the node wants to lead."""
    if event.source == "core":
        return event.name == "prevote_started"
    return event.name == "elected" or (event.name == "vote" and event.data.get("candidate") == node)


CHECKER = MembersOnly()
