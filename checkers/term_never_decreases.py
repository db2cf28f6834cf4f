"""term-never-decreases: a node's term never falls, restarts included.

Sources, each compared with itself within one incarnation, in the node's own order: what the core notes; the state that
was witnessed to be stored; polls, of which one was certainly answered before the other was asked. A message does not
count there: it may have waited for a connection while newer ones left for other peers. Across restarts: the highest
term in which the node was *witnessed* to act or to store (else: that it reported for at least a second, or led in)
against everything later. Out of scope: term 0 ("none"), and terms reported just before a crash, which a node may
honestly forget.

Source: Raft paper, section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dethrone.checkers.base import Base, Excuses, finding
from dethrone.checkers.facts import in_group, traces
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.columns import Columns, columns
from dethrone.harness.core.events import FaultEvent, Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Channel, Promise
from dethrone.harness.core.verdict import Finding, Verdict

WITNESSED = frozenset({"vote", "elected", "acked", "persisted"})
"""Shell events whose term the node was in, at that moment or (a message that waited) before."""
ORDERED = frozenset({"persisted"})
"""Shell events that happen in the order of the terms they carry."""
SETTLED_NS = 1 * SECOND
"""A term that was reported for this time is taken as stored, where nothing was witnessed."""

Step = tuple[str, str, int, int, int, int]
"""(group, node, the higher term, its seq, the lower term, its seq)."""


class TermNeverDecreases(Base):
    """See the module."""

    name = "term-never-decreases"
    kind = "safety"
    needs: frozenset[Channel] = frozenset()

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if (na := self.not_owed(promise) or self.not_observable(plan, "witness", "traced", "observed")) is not None:
            return na
        table = columns(history)
        steps = [*traced_falls(history), *polled_falls(table), *falls_over_restarts(history, table)]
        worst: dict[tuple[str, str], Step] = {}
        for step in sorted(steps, key=lambda item: max(item[3], item[5])):
            worst.setdefault((step[0], step[1]), step)
        terms = sum([event.term > 0 for event in history.of(Traced)]) + int((table.observed.term > 0).sum())
        return self.conclude(
            history,
            findings=[_fell(history, promise, step) for step in worst.values()],
            judged=terms,
            nothing="no node reported a term",
            evidence={"terms_told": terms, "nodes": len({node for _, node in traces(history)} | _polled(table))},
        )

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Observed | Any], bool]:
        """True once a term fell within one kind of events of one incarnation, or below a witnessed term later on."""
        del plan
        top: dict[tuple[str, ...], tuple[int, int]] = {}
        stored: dict[tuple[str, str], tuple[int, int]] = {}
        watch = Excuses(promise)
        owed = promise.owes(self.name)

        def traced(event: Traced) -> bool:
            shell = event.source == "shell"
            if event.term <= 0 or (shell and event.name not in WITNESSED):
                return False
            key = (event.group, event.node, str(event.incarnation), event.name if shell else "core")
            n, term = top.get(key, (-1, 0))
            fell = False
            if event.n > n and (not shell or event.name in ORDERED):
                top[key] = (event.n, max(term, event.term))
                fell = event.term < term
            if shell:
                who = (event.group, event.node)
                incarnation, kept = stored.get(who, (-1, 0))
                fell = fell or (event.incarnation > incarnation and event.term < kept)
                if event.term >= kept:
                    stored[who] = (event.incarnation, event.term)
            return fell

        def feed(event: Observed | Any) -> bool:
            if not owed or watch.unsafe:
                return False
            if type(event) is Traced:
                return traced(event)
            if type(event) is Observed and event.term > 0:
                key = (event.group, event.node, str(event.incarnation), "polls")
                hi, term = top.get(key, (-1, 0))
                fell = event.span.lo > hi and event.term < term
                if event.span.lo > hi:
                    top[key] = (event.span.hi, max(term, event.term))
                return fell
            if type(event) is FaultEvent:
                watch.feed(event)
            return False

        return feed


def traced_falls(history: History) -> Iterator[Step]:
    """Falls within one incarnation, in the node's own order."""
    for (group, node), events in traces(history).items():
        incarnation: int | None = None
        top: dict[str, Traced] = {}
        """What this incarnation witnessed, or "" for what its core says → the last event of the highest term."""
        for event in events:
            term = event.term
            if term <= 0:
                continue
            what = ""
            if event.source == "shell":
                what = event.name
                if what not in ORDERED:
                    continue
            if event.incarnation != incarnation:
                incarnation = event.incarnation
                top.clear()
            best = top.get(what)
            if best is not None and term < best.term:
                yield group, node, best.term, best.seq, term, event.seq
            else:
                top[what] = event


def polled_falls(table: Columns) -> Iterator[Step]:
    """Falls within one incarnation among polls of which one certainly came before the other. Vectorised."""
    obs = table.observed
    if len(obs) < 2:
        return
    order = obs.order
    who, term = obs.identities[order], obs.term[order]
    suspects = np.flatnonzero((who[1:] == who[:-1]) & (term[1:] < term[:-1]) & (term[1:] > 0))
    # Sorted by the time of asking, a fall without any neighbouring fall cannot be; zeros in between need the long way.
    zeros = bool(np.any(term == 0))
    if not len(suspects) and not zeros:
        return
    for identity in np.unique(who if zeros else who[suspects]).tolist():
        rows = order[who == identity]
        rows = rows[obs.term[rows] > 0]
        by_end = rows[np.argsort(obs.hi[rows], kind="stable")]
        ends, best, at = obs.hi[by_end].tolist(), 0, -1
        done = 0
        for row in rows.tolist():
            while done < len(ends) and ends[done] < obs.lo[row]:
                if obs.term[by_end[done]] > best:
                    best, at = int(obs.term[by_end[done]]), int(by_end[done])
                done += 1
            if obs.term[row] < best:
                word = table.words.word
                yield (
                    word(int(obs.group[row])) or "",
                    word(int(obs.node[row])) or "",
                    best,
                    int(obs.seq[at]),
                    int(obs.term[row]),
                    int(obs.seq[row]),
                )
                break


def falls_over_restarts(history: History, table: Columns) -> Iterator[Step]:
    """A later incarnation in a lower term than one in which an earlier one was witnessed."""
    if not _restarted(table):
        return
    floor: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
    """(group, node) → incarnation → (highest witnessed term, seq)."""
    lowest: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}

    def note(into: dict[tuple[str, str], dict[int, tuple[int, int]]], event: Traced | Observed, *, high: bool) -> None:
        who = (event.group, event.node)
        terms = into.get(who)
        if terms is None:
            terms = into[who] = {}
        old = terms.get(event.incarnation)
        if old is None or (event.term > old[0] if high else event.term < old[0]):
            terms[event.incarnation] = (event.term, event.seq)

    for event in history.of(Traced):
        shell = event.source == "shell"
        if event.term <= 0 or (shell and event.name not in WITNESSED):
            continue
        note(lowest, event, high=False)
        if shell:
            note(floor, event, high=True)
    witnessed = bool(floor)
    since: dict[tuple[str, str, int], tuple[int, int]] = {}
    for row in history.of(Observed):
        if row.term <= 0:
            continue
        note(lowest, row, high=False)
        if witnessed:
            continue
        key = (row.group, row.node, row.incarnation)
        term, hi = since.get(key, (0, 0))
        if row.term != term:
            since[key] = (row.term, row.span.hi)
        if row.leads or (row.term == term and row.span.lo - hi >= SETTLED_NS):
            note(floor, row, high=True)
    for (group, node), floors in floor.items():
        best, at = 0, -1
        for incarnation in sorted({*floors, *lowest.get((group, node), {})}):
            low = lowest.get((group, node), {}).get(incarnation)
            if low is not None and low[0] < best:
                yield group, node, best, at, *low
                break
            if incarnation in floors and floors[incarnation][0] > best:
                best, at = floors[incarnation]


def _restarted(table: Columns) -> bool:
    """Whether any node was seen in more than one incarnation. Vectorised."""
    seen: dict[int, int] = {}
    parts = [part for part in (table.observed, table.traced) if len(part)]
    coded = [(part.node.astype(np.int64), part.group) for part in parts]
    size = len(table.words) + 1  # now that all of them are coded
    for part, (node, group) in zip(parts, coded, strict=True):
        codes = node * size + group
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            mine = part.incarnation[codes == code]
            first = int(mine[0])
            if bool((mine != first).any()) or seen.setdefault(code, first) != first:
                return True
    return False


def _polled(table: Columns) -> set[str]:
    nodes = np.bincount(table.observed.node) if len(table.observed) else np.zeros(0, dtype=np.int64)
    return {table.words.words[code] for code in np.flatnonzero(nodes).tolist()}


def _fell(history: History, promise: Promise, step: Step) -> Finding:
    group, node, high, at, low, later = step
    before, after = history.at(at), history.at(later)
    restarted = before.incarnation != after.incarnation
    return finding(
        history,
        promise,
        f"{node} was in term {high} and later in term {low}{in_group(group)}"
        f"{' after a restart' if restarted else ' without a restart'}.",
        (at, later),
        nodes=(node,),
        term=low,
        data={"before": high, "after": low},
    )


CHECKER = TermNeverDecreases()
