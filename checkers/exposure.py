"""When two leaders of different terms certainly claimed to lead at once, of one group. Figures.

A claim is certain between two polls of one process, next to each other, that both make it; so the figures are what
polls prove, and less than what was. Guarantees: pure. Out of scope: whether any of it is promised not to happen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.columns import Ints
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.intervals import Interval
from dethrone.harness.core.views import columns

Claim = tuple[int, int]
"""A node (its code) and the term that it claims to lead."""


class Stretches(NamedTuple):
    """Moments at which something began to hold, in order, and those at which each of them ended."""

    begins: Ints
    ends: Ints


def exposure(history: History) -> Ns:
    """How long two nodes certainly claimed at once to lead different terms (of one group)."""
    return exposed_within(history, 0, None)


def exposed_within(history: History, lo: Ns, hi: Ns | None) -> Ns:
    """The same within this time; ``hi`` None: until the end."""
    return sum(max(0, min(end, end if hi is None else hi) - max(begin, lo)) for begin, end in leaders_at_once(history))


@per_history
def leaders_at_once(history: History) -> list[Interval]:
    """When it was so, group by group."""
    return [one for stretches in _certain_leads(history).values() for one in _exposed(stretches)]


def _exposed(stretches: Mapping[Claim, Stretches]) -> list[Interval]:
    """When it was so in one group. Only what lies in windows in which such claims may meet is looked at one by one."""
    windows: list[tuple[Ns, Ns]] = []
    open_claims: list[Claim] = []
    for claim in sorted(stretches, key=lambda one: int(stretches[one].begins[0])):
        begins, ends = stretches[claim]
        open_claims = [other for other in open_claims if stretches[other].ends[-1] > begins[0]]
        windows += [
            (int(begins[0]), int(min(ends[-1], stretches[other].ends[-1])))
            for other in open_claims
            if other[0] != claim[0] and other[1] != claim[1]
        ]
        open_claims.append(claim)
    edges = set()
    for claim, (begins, ends) in stretches.items():
        for lo, hi in windows:
            for at in np.flatnonzero((begins < hi) & (ends > lo)).tolist():
                edges |= {(int(begins[at]), 1, claim), (int(ends[at]), -1, claim)}
    found: list[Interval] = []
    since = 0
    active: Counter[Claim] = Counter()
    for t, step, claim in sorted(edges):
        if len({node for node, _ in active}) > 1 and len({term for _, term in active}) > 1:
            found.append((since, t))
        active[claim] += step
        if not active[claim]:
            del active[claim]
        since = t
    return found


def _certain_leads(history: History) -> dict[int, dict[Claim, Stretches]]:
    """Group → claim → when it certainly held: between two polls of one process that say so, next to each other."""
    polls = columns(history).observed
    found: dict[int, dict[Claim, Stretches]] = defaultdict(dict)
    led = polls.leads
    for group, node in sorted({*zip(polls.group[led].tolist(), polls.node[led].tolist(), strict=True)}):
        mine = np.flatnonzero((polls.group == group) & (polls.node == node))
        mine = mine[np.argsort(polls.hi[mine], kind="stable")]
        one, two = mine[:-1], mine[1:]
        certain = led[one] & led[two] & (polls.term[one] > 0) & (polls.lo[two] > polls.hi[one])
        for name in ("incarnation", "term"):
            certain &= getattr(polls, name)[one] == getattr(polls, name)[two]
        one, two = one[certain], two[certain]
        for term in np.unique(polls.term[one]).tolist():
            of_term = polls.term[one] == term
            found[group][node, term] = Stretches(polls.hi[one[of_term]], polls.lo[two[of_term]])
    return found
