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

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from dethrone.checkers.base import Folded, finding, moment
from dethrone.checkers.facts import in_group
from dethrone.checkers.polled_falls import Highest, polled_falls
from dethrone.checkers.traced_terms import ORDERED, WITNESSED, TracedTerms, traced_terms
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.columns import Ints, ObservedColumns, changes
from dethrone.harness.core.events import Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import Columns, columns

SETTLED_NS = 1 * SECOND
"""A term that was reported for this time is taken as stored, where nothing was witnessed."""


class Fall(NamedTuple):
    """A node was in a term, and later in a lower one."""

    before: Traced | Observed
    after: Traced | Observed

    @property
    def known(self) -> int:
        """The ``seq`` with which it was known."""
        return max(self.before.seq, self.after.seq)

    @property
    def until(self) -> Ns:
        """The latest moment at which one of the two happened."""
        return max(moment(self.before), moment(self.after))


class _Lives:
    """One node over its lives: in each the lowest term, and the highest that its disk certainly had."""

    __slots__ = ("highest", "lowest")

    def __init__(self) -> None:
        self.lowest: dict[int, Traced | Observed] = {}
        self.highest: dict[int, Traced | Observed] = {}

    def note(self, event: Traced | Observed, *, stored: bool) -> bool:
        """Take an event; whether it is the lowest or the highest of its life."""
        life, term = event.incarnation, event.term
        low, high = self.lowest.get(life), self.highest.get(life)
        lower, higher = low is None or term < low.term, stored and (high is None or term > high.term)
        if lower:
            self.lowest[life] = event
        if higher:
            self.highest[life] = event
        return lower or higher

    def fall(self) -> Fall | None:
        """The first life in a lower term than one that an earlier life had stored."""
        best: Traced | Observed | None = None
        for life in sorted(self.lowest):
            low, high = self.lowest[life], self.highest.get(life)
            if best is not None and low.term < best.term:
                return Fall(best, low)
            if high is not None and (best is None or high.term > best.term):
                best = high
        return None


class Terms:
    """The terms of all nodes. ``witnessed``: the shell shows what was stored, not how long it was polled."""

    def __init__(self, *, witnessed: bool) -> None:
        self._witnessed = witnessed
        self._own: dict[tuple[str, str, int, str], tuple[int, Traced]] = {}
        """(group, node, incarnation, what it witnessed, or "" for what its core says) → (the node's last number, the
        last event of the highest term)."""
        self._polls: dict[tuple[str, str, int], Highest[Observed]] = {}
        self._reported: dict[tuple[str, str, int], tuple[int, Ns]] = {}
        """(group, node, incarnation) → (the last term that was polled, since when)."""
        self.lives: dict[tuple[str, str], _Lives] = {}

    def feed(self, event: Any) -> Ns | None:
        """See ``dethrone.checkers.base.Fold``; of a node's trace what comes in the node's own order."""
        if type(event) is Traced and event.term > 0:
            within = self.own(event) if event.source != "shell" or event.name in ORDERED else None
            over = self.traced_life(event)
        elif type(event) is Observed and event.term > 0:
            within, over = self._poll(event), self.polled_life(event)
        else:
            return None
        if within is None and over is None:
            return None
        return min(fall.until for fall in (within, over) if fall is not None)

    def own(self, event: Traced) -> Fall | None:
        """What a node says or stores itself, in its own order within one life."""
        key = (event.group, event.node, event.incarnation, event.name if event.source == "shell" else "")
        last, best = self._own.get(key, (event.n, event))
        if event.n < last:
            return None
        if event.term < best.term:
            self._own[key] = (event.n, best)
            return Fall(best, event)
        self._own[key] = (event.n, event)
        return None

    def _poll(self, event: Observed) -> Fall | None:
        key = (event.group, event.node, event.incarnation)
        highest = self._polls.get(key)
        if highest is None:
            highest = self._polls[key] = Highest()
        before = highest.take(event.span.lo, event.span.hi, event.term, event)
        return None if before is None else Fall(before, event)

    def traced_life(self, event: Traced) -> Fall | None:
        """An event of a node's trace, against its earlier lives."""
        shell = event.source == "shell"
        if shell and event.name not in WITNESSED:
            return None
        return self._life(event, stored=shell and self._witnessed)

    def polled_life(self, event: Observed) -> Fall | None:
        """A poll, against the earlier lives of its node."""
        stored = False
        if not self._witnessed:
            key = (event.group, event.node, event.incarnation)
            term, since = self._reported.get(key, (0, 0))
            if event.term != term:
                self._reported[key] = (event.term, event.span.hi)
            stored = event.leads or (event.term == term and event.span.lo - since >= SETTLED_NS)
        return self._life(event, stored=stored)

    def _life(self, event: Traced | Observed, *, stored: bool) -> Fall | None:
        who = (event.group, event.node)
        lives = self.lives.get(who)
        if lives is None:
            lives = self.lives[who] = _Lives()
        return lives.fall() if lives.note(event, stored=stored) and len(lives.lowest) > 1 else None


class TermNeverDecreases(Folded):
    name = "term-never-decreases"
    kind = "safety"
    channels = ("witness", "traced", "observed")
    views = (columns, traced_terms)

    def fold(self, promise: Promise, plan: Plan) -> Terms:
        """The terms of all nodes."""
        del promise
        return Terms(witnessed="witness" in plan.observable)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        del plan
        table, traced = columns(history), traced_terms(history)
        worst: dict[tuple[str, str], Fall] = {}
        for fall in sorted(falls(history, table, traced), key=lambda one: one.known):
            worst.setdefault((fall.after.group, fall.after.node), fall)
        terms = traced.count + int((table.observed.term > 0).sum())
        return self.conclude(
            history,
            findings=[_fell(history, promise, fall) for fall in worst.values()],
            judged=terms,
            nothing="no node reported a term",
            evidence={"terms_told": terms, "nodes": len({node for _, node in traced.lives} | _polled(table))},
        )


def falls(history: History, table: Columns, traced: TracedTerms) -> Iterator[Fall]:
    """All falls of a history: the same fold, fed with what can show one, in each node's own order."""
    fold, restarted = Terms(witnessed=bool(traced.witnessed)), _restarted(table, traced)
    for who in traced.lives:
        core, shell = traced.core.get(who, ()), traced.witnessed.get(who, ())
        for said in (core, traced.ordered.get(who, ())):
            if any(one.term > two.term and one.incarnation == two.incarnation for one, two in pairwise(_firsts(said))):
                yield from filter(None, map(fold.own, said))
        if who in restarted:
            for event in sorted((*_firsts(core), *_firsts(shell)), key=attrgetter("seq")):
                fold.traced_life(event)
    obs = table.observed
    for before, after in polled_falls(obs, obs.term, least=1):
        yield Fall(history.at(int(obs.seq[before])), history.at(int(obs.seq[after])))
    if restarted:
        for row in table.rows(_telling(obs)):
            if (row.group, row.node) in restarted:
                fold.polled_life(row)
    yield from filter(None, (lives.fall() for lives in fold.lives.values()))


def _firsts(events: Sequence[Traced]) -> list[Traced]:
    """The first of each run of events of one life and one term: the others show nothing new."""
    return [next(run) for _, run in groupby(events, key=attrgetter("incarnation", "term"))]


def _telling(obs: ObservedColumns) -> Ints:
    """The polls that show something new of a life, in file order: of each run of polls of one term the first, and the
    first by which that term was stored. The others are in neither a lower nor a higher term."""
    places = np.flatnonzero(obs.term > 0)
    places = places[np.argsort(obs.identities[places], kind="stable")]
    starts = changes(obs.identities[places], obs.term[places])
    sizes = np.diff(np.append(starts, len(places)))
    settled = obs.lo[places] - np.repeat(obs.hi[places[starts]], sizes) >= SETTLED_NS
    stored = np.flatnonzero(obs.leads[places] | settled)
    runs = np.repeat(np.arange(len(starts)), sizes)[stored]
    return np.union1d(places[starts], places[stored[changes(runs)]])


def _restarted(table: Columns, traced: TracedTerms) -> set[tuple[str, str]]:
    """(group, node) of nodes that were seen in more than one incarnation."""
    lives = {who: set(first_and_last) for who, first_and_last in traced.lives.items()}
    obs, word = table.observed, table.words.word
    for row in np.unique(obs.identities, return_index=True)[1].tolist():
        who = word(int(obs.group[row])) or "", word(int(obs.node[row])) or ""
        lives.setdefault(who, set()).add(int(obs.incarnation[row]))
    return {who for who, seen in lives.items() if len(seen) > 1}


def _polled(table: Columns) -> set[str]:
    nodes = np.bincount(table.observed.node) if len(table.observed) else np.zeros(0, dtype=np.int64)
    return {table.words.words[code] for code in np.flatnonzero(nodes).tolist()}


def _fell(history: History, promise: Promise, fall: Fall) -> Finding:
    before, after = fall
    restarted = before.incarnation != after.incarnation
    return finding(
        history,
        promise,
        f"{after.node} was in term {before.term} and later in term {after.term}{in_group(after.group)}"
        f"{' after a restart' if restarted else ' without a restart'}.",
        (before.seq, after.seq),
        nodes=(after.node,),
        term=after.term,
        data={"before": before.term, "after": after.term},
        remembering=after.node if restarted else "",
    )


CHECKER = TermNeverDecreases()
