"""log-matching: equal (index, term) means equal prefix; a committed index has one (term, payload hash) on all nodes.

Source of truth: log entries witnessed on each node's disk, over all times and incarnations, compared by rolling prefix
hashes; and what each node committed of them. Out of scope: systems whose logs are not witnessed (``n/a``); a log with a
gap is compared entry by entry only.

Source: Raft paper, figure 3, "Log Matching" and "State Machine Safety".
"""

from __future__ import annotations

from dethrone.checkers.base import Base, finding, writes_expected
from dethrone.checkers.facts import in_group
from dethrone.checkers.replicas import VIEWS, Disagreement, replay
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict


class LogMatching(Base):
    name = "log-matching"
    kind = "safety"
    channels = ("witness",)
    views = VIEWS

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        found = replay(history)
        if found.appended == 0 and not writes_expected(plan) and history.complete:
            return self.na("not observable: this workload writes nothing, and no log entry was witnessed")
        return self.conclude(
            history,
            findings=[_differ(history, promise, item) for item in found.disagreements],
            judged=found.compared,
            nothing="no log entry was witnessed on two nodes",
            evidence={
                "entries_appended": found.appended,
                "entries_compared": found.compared,
                "commits_with_entries": found.pinned,
            },
        )


def _differ(history: History, promise: Promise, item: Disagreement) -> Finding:
    first, second = item.nodes
    who = f"{first} and {second}" if first != second else f"{first}, at two moments,"
    if item.what == "commit":
        sentence = f"{who} committed different entries at index {item.index}{in_group(item.group)}."
    else:
        sentence = (
            f"{who} hold an entry of term {item.term} at index {item.index}{in_group(item.group)}, but differ in it or"
            " before it."
        )
    return finding(history, promise, sentence, item.seqs, nodes=item.nodes, term=item.term)


CHECKER = LogMatching()
