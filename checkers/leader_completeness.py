"""leader-completeness: the log end of a new leader of term T is ≥ every (term, index) known committed in a term < T.

Known committed: what a leader announced as committed, what a quorum was witnessed to store in its leader's own
term, and writes whose client received (index, term). Log ends: the witnessed log at the election without entries of T
itself; or a poll of the leader of T whose last entry is still of an older term. Where no node reports its log, polls
are compared by index alone: a leader's log never shrinks, so whenever it is polled it reaches to every index that a
leader of an older term reported as committed. Out of scope: commits of followers (they follow from a leader's), and
everything where log ends cannot be seen.

Source: Raft paper, figure 3 and section 5.4.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import Any

import numpy as np

from dethrone.checkers.base import Base, breaks_nothing, finding, writes_expected
from dethrone.checkers.facts import ELECTED, in_group
from dethrone.checkers.members import CONFIGS
from dethrone.checkers.replay_state import Committed
from dethrone.checkers.replicas import VIEWS, known_committed, replay
from dethrone.checkers.stored_logs import LeaderEnd
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns


class LeaderCompleteness(Base):
    name = "leader-completeness"
    kind = "safety"
    channels = ("witness", "log_end")
    views = (columns, ELECTED, CONFIGS, *VIEWS)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        found, known = replay(history), known_committed(history, promise, plan)
        ends = [*found.ends, *(polled_ends(history) if promise.leader_bound_to_term else [])]
        if not known.count and not writes_expected(plan) and history.complete:
            return self.na("not observable: this workload writes nothing, and nothing was committed")
        findings, pairs = incomplete_leaders(history, promise, known.furthest(), ends)
        if not found.appended and promise.leader_bound_to_term:
            more, compared = shorter_leaders(history, promise)
            seen = {(one.nodes, one.term) for one in findings}
            findings += [one for one in more if (one.nodes, one.term) not in seen]
            pairs += compared
        if not pairs and history.complete and breaks_nothing(history, plan):
            return self.na("not exercised: the schedule breaks nothing, and no second leader was elected")
        return self.conclude(
            history,
            findings=findings,
            judged=pairs,
            nothing="no leader was elected after a term in which something was known committed",
            evidence={"known_committed": known.count, "leaders_with_log_end": len({(e.group, e.term) for e in ends})},
        )


def polled_ends(history: History) -> list[LeaderEnd]:
    """Log ends of leaders from polls, where the last entry is of an older term than the leader's."""
    table = columns(history)
    polls = table.observed
    usable = polls.told_at_once & polls.leads & (polls.log_index >= 0)
    usable &= (polls.log_term >= 0) & (polls.log_term < polls.term)
    out: dict[tuple[str, str, int], LeaderEnd] = {}
    for row in table.rows(np.flatnonzero(usable)):
        if row.log_end is None:
            continue
        key = (row.group, row.node, row.term)
        if key not in out:
            out[key] = LeaderEnd(row.group, row.node, row.term, (row.log_end[0], row.log_end[1]), row.seq)
    return list(out.values())


def incomplete_leaders(
    history: History, promise: Promise, known: list[Committed], ends: list[LeaderEnd]
) -> tuple[list[Finding], int]:
    """Leaders whose log end lies before something known committed in an older term; and how many were compared."""
    by_group: dict[str, list[Committed]] = defaultdict(list)
    for item in known:
        by_group[item.group].append(item)
    best: dict[str, tuple[list[int], list[Committed]]] = {}
    """group → (terms rising, the greatest (entry term, index) committed up to that term)."""
    for group, items in by_group.items():
        terms: list[int] = []
        tops: list[Committed] = []
        for item in sorted(items, key=lambda one: (one.term, one.entry_term, one.index)):
            top = item
            if tops and (tops[-1].entry_term, tops[-1].index) >= (item.entry_term, item.index):
                top = tops[-1]
            terms.append(item.term)
            tops.append(top)
        best[group] = (terms, tops)
    findings: list[Finding] = []
    pairs = 0
    seen: set[tuple[str, str, int]] = set()
    for end in ends:
        terms, tops = best.get(end.group, ([], []))
        position = bisect.bisect_left(terms, end.term)
        if position == 0:
            continue
        pairs += 1
        top = tops[position - 1]
        key = (end.group, end.node, end.term)
        if end.end >= (top.entry_term, top.index) or key in seen:
            continue
        seen.add(key)
        findings.append(
            finding(
                history,
                promise,
                f"{end.node} became leader of term {end.term}{in_group(end.group)} with a log that ends at (term"
                f" {end.end[0]}, index {end.end[1]}), but (term {top.entry_term}, index {top.index}) was committed in"
                f" term {top.term}: {top.how}.",
                (*top.seqs[:6], end.seq),
                nodes=(end.node,),
                term=end.term,
            )
        )
    return findings, pairs


def shorter_leaders(history: History, promise: Promise) -> tuple[list[Finding], int]:
    """Leaders that polls show with a log that ends before an index that a leader of an older term had committed."""
    polls = columns(history).observed
    leads = polls.told_at_once & polls.leads & (polls.term > 0)
    commits: dict[tuple[str, int], Any] = {}
    for row in columns(history).rows(np.flatnonzero(leads & (polls.commit > 0))):
        best = commits.get((row.group, row.term))
        if best is None or row.commit > best.commit:
            commits[row.group, row.term] = row
    findings: list[Finding] = []
    seen: set[tuple[str, str, int]] = set()
    pairs = 0
    for row in columns(history).rows(np.flatnonzero(leads & (polls.log_index >= 0) & (polls.log_term >= 0))):
        key = (row.group, row.node, row.term)
        if key in seen or row.log_end is None:
            continue
        seen.add(key)
        older = [one for (group, term), one in commits.items() if group == row.group and term < row.term]
        if not older:
            continue
        pairs += 1
        top = max(older, key=lambda one: (one.commit, -one.seq))
        if row.log_end[1] >= top.commit:
            continue
        findings.append(
            finding(
                history,
                promise,
                f"{row.node} led term {row.term}{in_group(row.group)} with a log that ended at index {row.log_end[1]},"
                f" but {top.node} had reported index {top.commit} as committed when it led term {top.term}.",
                (top.seq, row.seq),
                nodes=(row.node,),
                term=row.term,
            )
        )
    return findings, pairs


CHECKER = LeaderCompleteness()
