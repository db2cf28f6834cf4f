"""failover: figures, never a judgement. How long each stage of a failover took, and what the elections cost.

Per fault that hit the leader (killed, stopped, restarted, paused, or cut off from a majority): from the moment at which
it was certainly in force to the first campaign or pre-vote of another node, to the first election or new leader seen,
and to the first write acknowledged after that. A stage that was not reached before the next fault, or the end of the
run, is censored there: lists of (ns, censored) are what a Kaplan–Meier estimate wants. ``noticed`` is ``detect`` for
systems that write no trace of campaigns: also the first answer by which another node seeks to lead or knows of a later
term. ``not_owed``: which of these faults, by their place in the lists, left no node from which a leader was owed.
``noisy``: at which of them noise of voters took more than a tenth of the time until a new leader served
(``dethrone.checkers.noise``); these times are the machine's as well, so medians leave them out; ``noisy_faults``: the
numbers of these faults.
Besides: how long two leaders of different terms certainly claimed to lead at once, elections, split votes, term
inflation, what each cut did where a run plays a list of them (``cut_effects``), and how long recoveries after heals of
cuts took, the network's time apart from the protocol's (``recoveries``).

Out of scope: any bound; percentiles are of the uncensored values only and say so.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dethrone.checkers.base import Base, votes_needed
from dethrone.checkers.coverage import shown_by
from dethrone.checkers.cut_effects import cut_effects, write_times
from dethrone.checkers.excuses import excuses
from dethrone.checkers.exposure import exposure
from dethrone.checkers.facts import answers, elections, groups, leaders_polled, leading
from dethrone.checkers.graph import Timeline, end_of_run, timeline
from dethrone.checkers.kept_leaders import leadership_under_faults
from dethrone.checkers.liveness_windows import windows
from dethrone.checkers.noise import disturbance
from dethrone.checkers.recoveries import recoveries
from dethrone.checkers.rounds import STEPS, contests, worn_out
from dethrone.checkers.traced_terms import traced_terms
from dethrone.checkers.traces import named
from dethrone.harness.core.client_ops import client_ops
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.core.views import columns

Row = TypeVar("Row", bound=tuple[Any, ...])
ROUNDS = frozenset({"election_started", "campaign"})
"""Core notes of an election proper: each term in which a node stood is one round."""

CAMPAIGNS = ROUNDS | {"prevote_started"}
"""Core notes by which a node begins to seek leadership."""
SEEKS = frozenset({"candidate", "precandidate", "prospective", "looking", "voted"})
"""Roles, as nodes report them, of one that seeks leadership or has just voted for another that does."""

STAGES = ("detect", "elect", "write")
NOISE_PARTS = 10
"""Of as many parts of a time noise may take one. A short stall long before an election that takes 20 s says nothing."""


class Failover(Base):
    name = "failover"
    version = "4"
    kind = "metric"
    views = (client_ops, columns, traced_terms, STEPS, *(named(name) for name in sorted(CAMPAIGNS)))

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The figures, as metrics."""
        del promise
        return Verdict(
            checker=self.name,
            version=self.version,
            kind="metric",
            outcome="n/a",
            reason="figures only",
            metrics=figures(history, plan),
        )


def figures(history: History, plan: Plan) -> dict[str, Any]:
    """All figures of this run; JSON values."""
    line = timeline(history, plan.promise, plan)
    quorum = votes_needed(plan.promise, len(plan.voters))
    times: dict[str, list[tuple[Ns, bool]]] = {stage: [] for stage in STAGES}
    noticed: list[tuple[Ns, bool]] = []
    rounds: list[int] = []
    not_owed: list[int] = []
    noisy: dict[int, int] = {}
    """Place in the lists → number of the fault."""
    noise = disturbance(history, plan.promise, plan)
    hit = 0
    for event in history.of(FaultEvent):
        if event.phase != "begin" or event.outcome != "installed" or not _hits_leader(history, event, line, quorum):
            continue
        hit += 1
        found, stood = _stages(history, event)
        rounds.append(stood)
        for stage in STAGES:
            times[stage].append(found[stage])
        noticed.append(_noticed(history, event, found))
        if not _owed(history, plan, since=event.span.hi, ns=found["elect"][0]):
            not_owed.append(hit - 1)
        last = "elect" if found["write"][1] else "write"
        took = found[last][0]
        if noise.lasted(plan.voters, event.span.hi, event.span.hi + took) * NOISE_PARTS > took:
            noisy[hit - 1] = event.fault
    elected = sorted({(fact.group, fact.term, fact.node) for fact in elections(history)})
    leads = {led for led in leaders_polled(history) if led[1] > 0}
    terms = {term for _, term, _ in elected} | {term for _, term, _ in leads}
    top = max(int(columns(history).observed.term.max(initial=0)), traced_terms(history).top)
    return {
        "faults_on_the_leader": hit,
        **{f"{stage}_ns": [[ns, censored] for ns, censored in values] for stage, values in times.items()},
        **{f"{stage}_median_ns": _median(_without(values, noisy)) for stage, values in times.items()},
        "noticed_ns": [[ns, censored] for ns, censored in noticed],
        "not_owed": not_owed,
        "noisy": list(noisy),
        "noisy_faults": list(noisy.values()),
        "rounds": rounds,
        "elections": len(set(elected) | leads),
        "terms_led": len(terms),
        "highest_term": top,
        "term_inflation": max(0, top - len(terms)),
        "split_votes": split_votes(history),
        "deposed_leader_exposure_ns": exposure(history),
        "leader_under": [row.plain() for row in leadership_under_faults(history, plan)],
        "recoveries": recoveries(history),
        **({"cuts": effects} if (effects := cut_effects(history, plan)) else {}),
    }


def _hits_leader(history: History, event: FaultEvent, line: Timeline, quorum: int) -> bool:
    traits = declared(event.kind)
    if traits.cuts:
        return shown_by(history, event, line, quorum)["leader-cut-off"]
    if traits.harms != "process":
        return False
    return any(role.lower() == "leader" for role in event.roles.values())


def _stages(history: History, fault: FaultEvent) -> tuple[dict[str, tuple[Ns, bool]], int]:
    """Stage → (ns since the fault was in force, censored); and in how many terms a node stood until then."""
    since = fault.span.hi
    until = _until(history, since)
    leader = _led(fault)
    campaigns = [row for row in _within(_campaigns(history), since, until) if row[4] != leader]
    term = _term(history, since)
    won = [t for t, later in _within(_election_times(history), since, until) if later > term]
    won += [row.span.hi for row in leading(history).within(since, until) if row.term > term]
    elected = min(won, default=None)
    wrote: Ns | None = None
    if elected is not None:
        writes = write_times(history)
        position = bisect.bisect_left(writes, elected)
        wrote = writes[position] if position < len(writes) and writes[position] <= until else None
    detected = campaigns[0][0] if campaigns else None
    stages = {"detect": detected, "elect": elected, "write": wrote}
    last = elected if elected is not None else until
    stood = {(group, term) for at, name, group, term, _ in campaigns if name in ROUNDS and at <= last}
    return {stage: _censor(at, since, until) for stage, at in stages.items()}, len(stood)


def _noticed(history: History, fault: FaultEvent, found: dict[str, tuple[Ns, bool]]) -> tuple[Ns, bool]:
    """When another node first showed that the leader is missed: by trace or answer, by an election at the latest."""
    since, leader = fault.span.hi, _led(fault)
    until, term = _until(history, since), _term(history, since)
    known = [since + ns for ns, censored in (found["detect"], found["elect"]) if not censored]
    first = min(known, default=until)
    for row in answers(history).within(since, first):
        if row.node != leader and row.span.lo >= since and (row.term > term or row.role.lower() in SEEKS):
            return _censor(row.span.hi, since, until)
    return _censor(first if known else None, since, until)


@per_history
def _campaigns(history: History) -> list[tuple[Ns, str, str, int, str]]:
    """When a node began to seek leadership, by which note, in which group and term, and the node; in order."""
    return sorted(
        (event.span.hi, event.name, event.group, event.term, event.node)
        for name in CAMPAIGNS
        for event in named(name)(history)
    )


@per_history
def _election_times(history: History) -> list[tuple[Ns, int]]:
    """When a term was won, in order."""
    return sorted((fact.event.span.hi, fact.term) for fact in elections(history))


def _within(rows: Sequence[Row], lo: Ns, hi: Ns) -> Sequence[Row]:
    """Of rows that begin with their time, in order, those within [lo, hi]."""
    return rows[bisect.bisect_left(rows, lo, key=_time) : bisect.bisect_right(rows, hi, key=_time)]


def _time(row: tuple[Any, ...]) -> Ns:
    at: Ns = row[0]
    return at


def _owed(history: History, plan: Plan, *, since: Ns, ns: Ns) -> bool:
    """Whether, in this outage, the nodes to which a leader is promised could have had one."""
    return excuses(history, plan.promise).liveness(since, since + ns) is None and any(
        window.tier in plan.promise.tiers
        and window.lo < since + ns
        and window.hi > since
        and not any(worn_out(history, plan.promise, group, window.members, since) for group in groups(history))
        for window in windows(history, plan.promise, plan)
    )


def _until(history: History, since: Ns) -> Ns:
    """When the next fault begins, or the run ends."""
    begins = _begins(history)
    later = bisect.bisect_right(begins, since)
    return begins[later] if later < len(begins) else end_of_run(history)


@per_history
def _begins(history: History) -> list[Ns]:
    """When faults began, in order."""
    begun = (event for event in history.of(FaultEvent) if event.phase == "begin" and event.outcome != "skipped")
    return sorted(event.span.lo for event in begun)


def _led(fault: FaultEvent) -> str:
    return next((host for host, role in fault.roles.items() if role.lower() == "leader"), "")


def _term(history: History, at: Ns) -> int:
    polls = leading(history)
    until = polls.until(at)
    return max(0, int(polls.highest_term[until - 1])) if until else 0


def _censor(at: Ns | None, since: Ns, until: Ns) -> tuple[Ns, bool]:
    return (max(0, until - since), True) if at is None else (at - since, False)


def _without(values: list[tuple[Ns, bool]], apart: Mapping[int, int]) -> list[tuple[Ns, bool]]:
    """The times of all faults but these."""
    return [value for number, value in enumerate(values) if number not in apart]


def _median(values: list[tuple[Ns, bool]]) -> Ns | None:
    known = sorted(ns for ns, censored in values if not censored)
    return known[len(known) // 2] if known else None


def split_votes(history: History) -> int:
    """Terms in which two or more nodes voted for themselves and no node was elected."""
    return sum(contest.split for rows in contests(history).values() for contest in rows)


CHECKER = Failover()
