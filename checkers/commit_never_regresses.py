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
from dethrone.checkers.replicas import Regression, replay
from dethrone.harness.core.columns import Columns, columns
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Channel, Promise
from dethrone.harness.core.verdict import Finding, Verdict


class CommitNeverRegresses(Base):
    """See the module."""

    name = "commit-never-regresses"
    kind = "safety"
    needs: frozenset[Channel] = frozenset()

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if (na := self.not_owed(promise) or self.not_observable(plan, "witness", "commit")) is not None:
            return na
        found = replay(history, promise, plan)
        table = columns(history)
        polled = int((table.observed.commit > 0).sum())
        if not found.commits and not polled and not writes_expected(plan) and history.complete:
            return self.na("not observable: this workload writes nothing, and nothing was committed")
        items = [*found.regressions, *polled_falls(table), *beyond_the_log(table)]
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


def polled_falls(table: Columns) -> list[Regression]:
    """Commits that fell within one incarnation, by polls certainly in that order. Vectorised up to the suspects."""
    obs = table.observed
    order = obs.order
    order = order[obs.commit[order] >= 0]
    if len(order) < 2:
        return []
    who, commit = obs.identities[order], obs.commit[order]
    suspects = np.flatnonzero((who[1:] == who[:-1]) & (commit[1:] < commit[:-1]))
    out = []
    for identity in np.unique(who[suspects]).tolist():
        rows = order[who == identity]
        by_end = rows[np.argsort(obs.hi[rows], kind="stable")].tolist()
        done, best = 0, -1
        for row in rows.tolist():
            while done < len(by_end) and obs.hi[by_end[done]] < obs.lo[row]:
                if best < 0 or obs.commit[by_end[done]] > obs.commit[best]:
                    best = by_end[done]
                done += 1
            if best >= 0 and obs.commit[row] < obs.commit[best]:
                out.append(
                    Regression(
                        f"went back from commit {obs.commit[best]} to {obs.commit[row]}",
                        *_whose(table, row),
                        (int(obs.seq[best]), int(obs.seq[row])),
                    )
                )
                break
    return out


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
