"""no-livelock: voters that all hear each other do not keep failing to elect a leader.

Judged in windows (``dethrone.checkers.liveness_windows``) of the tiers T1 and T2, in which nothing outside can spoil a
campaign:

* *rounds*: no voter seeks to lead more than ``rounds_max`` times in a row without success, that is, without being
  elected, acknowledging a leader or seeing one in between. A round is a pre-vote round that was opened
  (``prevote_started``), or a vote for itself that no won pre-vote round led to. That others lead meanwhile does not end
  a row: a node that never joins them is a livelock of its own. Not owed in windows at whose beginning two voters had
  lost more rounds than their waits stay random for (``Promise.rounds_random``).
* *split votes*: over all such windows without added loss or delay, the terms in which a node stood and which none
  won because several stood are no more than ``split_vote_percent`` explains. A finding needs a chance below one in a
  million that an honest system shows as many (binomial), so a few splits in a few terms are never one.

And anywhere, since it takes nothing but one lost answer to be asked again:

* *asked again*: a voter that gave its vote of a term to a candidate does not, in the same life, refuse that candidate
  the vote of that term because it was given away. Else every lost answer costs a vote, and the candidate its term.

Noise of the hosts of a window is charged (``dethrone.checkers.noise``): rounds and split votes at that time do not
count, and a finding that needs them is unknown. Out of scope: rounds that ended because a link lost messages (they
count as rounds), rounds that a node reports at the end of a slow sync (what it did meanwhile was held back, so that
time is unknown), tiers T3 to T5, and how long it took: that is `leader-when-owed`.

Source: Raft paper, 5.2 and 9.3 (randomised timeouts make split votes rare, and resolve them quickly).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from dethrone.checkers.base import Base
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import groups, in_group
from dethrone.checkers.graph import bits
from dethrone.checkers.liveness_windows import Window, windows
from dethrone.checkers.noise import Disturbance, certain, disturbance, unknown_by_noise
from dethrone.checkers.rounds import OWN_VOTES, STEPS, Contest, contests, steps, worn_out
from dethrone.checkers.traces import traces
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import Bools, Ints
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict

CHANCE = 1e-6
"""Of a false alarm about split votes, in one run."""
_TIERS = frozenset({"T1", "T2"})
ANSWERS = traces("vote", "refused")


@dataclass(slots=True)
class _Terms:
    """Terms of one group in which a node stood, and the votes of those that several spoiled for each other."""

    stood: int = 0
    split: list[list[Traced]] = field(default_factory=list)
    spoiled: int = 0
    """Terms that several spoiled while noise was charged: neither stood in nor split."""


class _Steps(NamedTuple):
    """What a node did for its election, in its own order, and which of it seeks to lead."""

    events: Sequence[Traced]
    lo: Ints
    hi: Ints
    seeks: Bools

    @classmethod
    def of(cls, found: Iterable[tuple[Traced, bool]]) -> _Steps:
        """These events, and whether each seeks to lead."""
        rows = list(found)
        events = [event for event, _ in rows]
        return cls(
            events,
            lo=np.array([event.span.lo for event in events], dtype=np.int64),
            hi=np.array([event.span.hi for event in events], dtype=np.int64),
            seeks=np.array([seeks for _, seeks in rows], dtype=np.bool_),
        )


class _Stood(NamedTuple):
    """A contest, its number, and when the first node certainly stood and the last one did."""

    number: int
    lo: Ns
    last: Ns
    contest: Contest

    @classmethod
    def of(cls, number: int, contest: Contest) -> _Stood:
        """This contest."""
        spans = [event.span for event in contest.firsts]
        return cls(number, min(span.lo for span in spans), max(span.hi for span in spans), contest)


_NUMBER, _LO = attrgetter("number"), attrgetter("lo")


class NoLivelock(Base):
    name = "no-livelock"
    version = "2"
    kind = "liveness"
    channels = ("witness",)
    views = (STEPS, ANSWERS, OWN_VOTES)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if promise.rounds_max is None and promise.split_vote_percent is None:
            return self.na("not promised: no bound for rounds or split votes")
        noise = disturbance(history, promise, plan)
        fair = [window for window in windows(history, promise, plan) if window.tier in _TIERS]
        findings: list[Finding] = []
        again: list[Finding] = []
        by_noise: list[str] = []
        worst = stood = split = worn = 0
        owed: set[int] = set()
        for group in groups(history):
            judge = _Judge(history, promise, group, noise)
            for number, window in enumerate(fair):
                if worn_out(history, promise, group, window.members, window.lo):
                    worn += 1
                    continue
                owed.add(number)
                judge.window(window)
            findings += [*judge.findings, *judge.split_votes()]
            again += refused_again(history, promise, group)
            by_noise += judge.by_noise
            worst = max(worst, judge.worst)
            stood += judge.terms.stood
            split += len(judge.terms.split)
        findings, blind = certain(noise, findings)
        return self.conclude(
            history,
            findings=[*findings, *again],
            judged=sum(fair[number].length >= promise.leader_bound_ns for number in owed),
            nothing=f"no window of voters that all hear each other lasted {show_duration(promise.leader_bound_ns)}",
            evidence={
                "windows": len(fair),
                "not_owed_after_rounds_in_vain": worn,
                "terms_stood_in": stood,
                "split_votes": split,
            },
            metrics={"rounds_worst": worst},
            doubts=blind,
            noise=by_noise,
        )


class _Judge:
    """One group."""

    def __init__(self, history: History, promise: Promise, group: str, noise: Disturbance) -> None:
        self._history = history
        self._promise = promise
        self._group = group
        self._noise = noise
        self.findings: list[Finding] = []
        self.by_noise: list[str] = []
        self.worst = 0
        self.terms = _Terms()
        self._steps = {
            node: _Steps.of(steps(node, events)) for (of, node), events in STEPS(history).items() if of == group
        }
        self._contests = sorted(map(_Stood.of, count(), contests(history).get(group, ())), key=_LO)

    def window(self, window: Window) -> None:
        """Judge the rounds of one window, and take its terms into account."""
        for node in window.members:
            if (found := self._steps.get(node)) is None:
                continue
            within = np.flatnonzero((found.lo >= window.lo) & (found.hi <= window.hi))
            if not found.seeks[within].any():
                continue
            row: list[Traced] = []
            for place in within.tolist():
                if found.seeks[place]:
                    row.append(found.events[place])
                    self.worst = max(self.worst, len(row))
                else:
                    self._judge_row(window, node, row)
                    row = []
            self._judge_row(window, node, row)
        if _clean(window):
            self._count_terms(window)

    def _judge_row(self, window: Window, node: str, row: list[Traced]) -> None:
        most = self._promise.rounds_max
        if most is None or len(row) <= most:
            return
        lo, hi = row[0].span.lo, row[-1].span.hi
        # A round that begins within a charge, or just before one, may have been lost to it.
        wait = self._promise.election_timeout_ns
        sure = sum(not self._noise.within(window.members, event.span.lo, event.span.hi + wait) for event in row)
        if sure <= most:
            said = f"{node} stood for election {len(row)} times in a row and lost each time, limit {most}"
            self.by_noise.append(unknown_by_noise(said, lo, hi, self._noise.charged(window.members, lo, hi)))
            return
        self.findings.append(
            Finding(
                sentence=(
                    f"{node} stood for election {len(row)} times in a row{in_group(self._group)} within"
                    f" {show_duration(hi - lo)} (limit {most}) and neither led nor followed a leader, although"
                    f" {', '.join(window.members)} could all talk to each other ({window.tier})."
                ),
                certificate=(row[0].seq, *(event.seq for event in row[-5:])),
                nodes=(node,),
                term=row[-1].term,
                excused=excuses(self._history, self._promise).liveness(lo, hi),
            )
        )

    def _count_terms(self, window: Window) -> None:
        wait = self._promise.election_timeout_ns
        since = bisect.bisect_left(self._contests, window.lo, key=_LO)
        near = takewhile(lambda one: one.lo <= window.hi, islice(self._contests, since, None))
        for _, lo, last, contest in sorted(near, key=_NUMBER):
            hi = last + wait
            if hi > window.hi or not contest.stood.keys() <= set(window.members):
                continue
            if contest.split and self._noise.within(window.members, lo, hi):
                self.terms.spoiled += 1
                continue
            self.terms.stood += 1
            if contest.split:
                self.terms.split.append(sorted(contest.firsts, key=lambda event: event.seq))

    def split_votes(self) -> list[Finding]:
        """The finding, if there were more split votes than chance explains."""
        most = self._promise.split_vote_percent
        stood, split, spoiled = self.terms.stood, self.terms.split, self.terms.spoiled
        if most is None:
            return []
        if not split or at_least(len(split), stood, most / 100) >= CHANCE:
            if at_least(len(split) + spoiled, stood + spoiled, most / 100) < CHANCE:
                self.by_noise.append(
                    f"unknown by noise: in {len(split) + spoiled} of {stood + spoiled} terms several nodes stood and no"
                    f" node won, limit {most} %; noise of the hosts may explain {spoiled} of them"
                )
            return []
        shown = [event for votes in split[-4:] for event in votes[:2]]
        return [
            Finding(
                sentence=(
                    f"Several candidates split the vote and none won in {len(split)} of {stood} terms with a"
                    f" candidate{in_group(self._group)} (limit {most} %, and chance explains no more)."
                ),
                certificate=tuple(sorted({event.seq for event in shown})),
                nodes=tuple(sorted({event.node for votes in split for event in votes})),
                term=split[-1][0].term,
                excused=excuses(self._history, self._promise).liveness(split[0][0].span.lo, split[-1][-1].span.hi),
                data={"split": len(split), "stood": stood, "terms": [votes[0].term for votes in split[-50:]]},
            )
        ]


def refused_again(history: History, promise: Promise, group: str) -> Iterator[Finding]:
    """The first of each node: a candidate that got its vote, repeated its request, and was refused."""
    for (of, node), events in ANSWERS(history).items():
        if of != group:
            continue
        given: dict[tuple[int, int, str], Traced] = {}
        for event in events:
            if event.source != "shell" or event.name not in ("vote", "refused"):
                continue
            candidate = str(event.data.get("candidate") or "")
            key = (event.incarnation, event.term, candidate)
            if event.name == "vote":
                given.setdefault(key, event)
            elif event.data.get("why") == "voted" and key in given:
                yield Finding(
                    sentence=(
                        f"{node} voted for {candidate} in term {event.term}{in_group(group)}, then refused the repeated"
                        f" request of {candidate} because of that same vote."
                    ),
                    certificate=(given[key].seq, event.seq),
                    nodes=tuple(sorted({node, candidate})),
                    term=event.term,
                    excused=excuses(history, promise).liveness(given[key].span.lo, event.span.hi),
                )
                break


def at_least(least: int, tries: int, chance: float) -> float:
    """How likely at least that many of the tries succeed, each with this chance."""
    if least <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    ways = math.lgamma(tries + 1)
    return math.fsum(
        math.exp(
            ways
            - math.lgamma(k + 1)
            - math.lgamma(tries - k + 1)
            + k * math.log(chance)
            + (tries - k) * math.log1p(-chance)
        )
        for k in range(least, tries + 1)
    )


def _clean(window: Window) -> bool:
    """Whether the links among the members lose and delay nothing."""
    adjacency = window.adjacency
    inside = sum(1 << bit for bit, voter in enumerate(adjacency.voters) if voter in window.members)
    return not any(inside & ~(1 << bit) & ~adjacency.clean[bit] for bit in bits(inside))


CHECKER = NoLivelock()
