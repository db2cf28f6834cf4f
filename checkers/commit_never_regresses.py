"""commit-never-regresses: within one incarnation a commit index never falls and never passes the log's end, committed
entries stay in the log, and a leader only appends.

Sources: the core's own commit notes in its own order; witnessed logs (a follower's commit is compared with its log at
its next acknowledgement, when its batches are on disk); polls, of which one was certainly answered before the other was
asked, and polls that report commit and log end as one atom. Out of scope: the commit of a fresh incarnation (volatile,
it may start again), and logs that were not witnessed.

Source: Raft paper, figure 2 (commitIndex "increases monotonically") and figure 3, "Leader Append-Only".
"""

from __future__ import annotations

import numpy as np

from dethrone.checkers.base import Base, finding, writes_expected
from dethrone.checkers.facts import in_group
from dethrone.checkers.polled_falls import polled_falls
from dethrone.checkers.replicas import VIEWS, replay
from dethrone.checkers.stored_logs import Regression
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import Columns, columns


class CommitNeverRegresses(Base):
    name = "commit-never-regresses"
    kind = "safety"
    channels = ("witness", "commit")
    views = (columns, *VIEWS)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        found = replay(history)
        table = columns(history)
        polled = int((table.observed.commit > 0).sum())
        if not found.commits and not polled and not writes_expected(plan) and history.complete:
            return self.na("not observable: this workload writes nothing, and nothing was committed")
        items = [*found.regressions, *polled_regressions(table), *beyond_the_log(table)]
        first: dict[tuple[str, str, str], Regression] = {}
        for item in sorted(items, key=lambda one: max(one.seqs)):
            first.setdefault((item.group, item.node, item.what[:9]), item)
        return self.conclude(
            history,
            findings=[_wrong(history, promise, item) for item in first.values()],
            judged=found.commits + polled,
            nothing="no node committed anything",
            evidence={"commits_traced": found.commits, "commits_polled": polled, "commits_with_entries": found.pinned},
        )


def polled_regressions(table: Columns) -> list[Regression]:
    """Commits that fell within one incarnation, by polls certainly in that order."""
    obs = table.observed
    return [
        Regression(
            f"went back from commit {obs.commit[before]} to {obs.commit[after]}",
            *_whose(table, after),
            (int(obs.seq[before]), int(obs.seq[after])),
        )
        for before, after in polled_falls(obs, obs.commit, least=0)
    ]


def beyond_the_log(table: Columns) -> list[Regression]:
    """Atomic polls whose commit lies behind the end of the node's own log: the first of each node."""
    obs = table.observed
    rows = np.flatnonzero(obs.atomic & (obs.log_index >= 0) & (obs.commit > obs.log_index))
    out: dict[int, Regression] = {}
    for row in rows.tolist():
        node = int(obs.node[row])
        if node not in out:
            what = f"committed up to {obs.commit[row]} although its log ended at {obs.log_index[row]}"
            out[node] = Regression(what, *_whose(table, row), (int(obs.seq[row]),))
    return list(out.values())


def _whose(table: Columns, row: int) -> tuple[str, str, int]:
    obs, word = table.observed, table.words.word
    return word(int(obs.group[row])) or "", word(int(obs.node[row])) or "", int(obs.term[row])


def _wrong(history: History, promise: Promise, item: Regression) -> Finding:
    sentence = f"{item.node} {item.what} (term {item.term}){in_group(item.group)}."
    return finding(history, promise, sentence, item.seqs, nodes=(item.node,), term=item.term)


CHECKER = CommitNeverRegresses()
