"""Nights compared: what became slower, what fails that never did, what fails more often, and what changed. Pure.

A *cell* is a system, a kind of fault and a metric: a stage of recovery (``detect``, ``elect``, ``write``), or an
outcome of a checker (``fail/one-leader-per-term``, ``unknown/coverage``). Of each cell one side (a night) is compared
with another (the nights before it):

* **slower**: the times of a stage, by log-rank within equal setups (backend, nodes, profile, variant, workload);
* **more-often**: an outcome, by Fisher's exact test;
* **new**: a violation whose cause (``dethrone.harness.core.signature``) no earlier run showed, or that was
  certainly away for a while (``dethrone.harness.core.known_findings.mended``). It needs no statistics: every violation
  has its proof;
* **standing**: a violation that earlier runs showed too. It stays red until it is mended or known.

Guarantees: of a hundred clean comparisons at most one reports a false difference, for any number of cells (the
correction is Holm's over all tests of a comparison; ``Policy.alpha`` is stricter still); a cell with too few runs is
reported as not compared and never as clean; runs are only compared with runs of the same setup. Out of scope: where the
facts come from (``nights``, ``gathering``) and what is known already (``known``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dethrone.harness.core.clock import MS
from dethrone.harness.core.known_findings import mended
from dethrone.harness.core.rng import Rng
from dethrone.harness.pipeline import survival
from dethrone.harness.pipeline.nights import STAGES, Cell, Facts, Judged, Run, Sample, exposed, fault_of, version_of

Kind = Literal["new", "standing", "more-often", "slower"]
Side = Mapping[str, bool]
"""Run → whether it is of the side asked about; runs of neither side are not in it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When a difference is one. ``alpha``: how often one clean comparison may raise anything wrongly. ``runs_min``:
    runs of a cell on either side, for times. ``ratio_min``: a median that grew by less is no regression."""

    alpha: float = 0.002
    runs_min: int = 10
    ratio_min: float = 1.05
    nights: int = 7
    """How many nights before it a night is compared with."""
    resamples: int = survival.RESAMPLES
    seed: int = 1
    """Of the intervals, which decide nothing. No ``resamples``: no intervals."""


@dataclass(frozen=True, slots=True)
class Slowness:
    """The times of a cell on both sides. ``p``: corrected; None: not compared, for ``why``."""

    cell: Cell
    now: survival.Interval
    before: survival.Interval
    runs: int
    runs_before: int
    times: int
    times_before: int
    p_slower: float | None
    p_faster: float | None
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """The median now by the median before; None where one of them is not reached."""
        return self.now.at / self.before.at if self.now.at is not None and self.before.at else None


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a cell's outcome was seen on both sides. ``p``: corrected; None: there is no other side."""

    cell: Cell
    hits: int
    of: int
    hits_before: int
    of_before: int
    p: float | None


@dataclass(frozen=True, slots=True)
class Regression:
    """One regression: what, in which night, by how much, what changed with it, and the runs that show it."""

    kind: Kind
    cell: Cell
    night: str
    size: str
    changed: tuple[str, ...]
    runs: tuple[str, ...]
    p: float | None = None
    first: str = ""
    """Of a violation: the first night that showed it."""
    signature: str = ""
    """Of a violation, where all runs that show it have the same one (``dethrone.harness.core.signature``)."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Everything that one comparison says. ``faster``: cells that improved as certainly as regressions are certain."""

    asked: str
    other: str
    regressions: tuple[Regression, ...]
    times: tuple[Slowness, ...]
    rates: tuple[Rate, ...]
    faster: tuple[Slowness, ...]
    unjudged: tuple[str, ...]
    """Runs asked about that no checker judged."""
    thin: tuple[str, ...]
    """Systems of which one of the sides has too few runs of a setup that the other has, too: next to nothing is known
    of what became slower or more frequent in them."""

    @property
    def tested(self) -> int:
        """The number of cells with enough runs."""
        return sum(one.p_slower is not None for one in self.times) + sum(one.p is not None for one in self.rates)


def night(facts: Facts, asked: str, policy: Policy) -> Compared:
    """One night against the nights before it."""
    mine, theirs, other = nights_before(facts, asked, policy)
    return compare(facts, mine, theirs, policy, asked=asked, other=other)


def nights_before(facts: Facts, asked: str, policy: Policy) -> tuple[Callable[[Run], bool], Callable[[Run], bool], str]:
    """The two sides of a night and the nights before it, and what the other one is called."""
    before = [one for one in facts.nights() if one < asked][-policy.nights :]
    earlier = frozenset(before)
    other = f"{before[0]}..{before[-1]}" if before else ""
    return (lambda run: run.night == asked), (lambda run: run.night in earlier), other


def sides(facts: Facts, mine: Callable[[Run], bool], theirs: Callable[[Run], bool]) -> dict[str, bool]:
    """The side of each run; a run of both belongs to the side asked about."""
    return {name: is_mine for name, run in facts.runs.items() if (is_mine := mine(run)) or theirs(run)}


def compare(
    facts: Facts,
    mine: Callable[[Run], bool],
    theirs: Callable[[Run], bool],
    policy: Policy,
    *,
    asked: str,
    other: str,
) -> Compared:
    """The runs of one side against those of another. A run of both is of the side asked about."""
    side = sides(facts, mine, theirs)
    times = _times(facts, side, policy)
    rates = _rates(facts, side)
    tests = [one.p_slower for one in times if one.p_slower is not None]
    tests += [one.p for one in rates if one.p is not None]
    fixed = iter(survival.holm(tests))
    # In the order in which they were gathered: times first.
    times = [replace(one, p_slower=next(fixed)) if one.p_slower is not None else one for one in times]
    rates = [replace(one, p=next(fixed)) if one.p is not None else one for one in rates]
    changed = {system: _changed(facts, side, system) for system in {facts.runs[name].system for name in side}}
    question = _Question(facts, side, policy, asked, changed)
    regressions = [*_bad(question, rates), *_slower(question, times)]
    said = {one.run for one in facts.judged}
    return Compared(
        asked=asked,
        other=other,
        regressions=tuple(regressions),
        times=tuple(times),
        rates=tuple(rates),
        faster=tuple(one for one in times if _is_faster(one, policy, len(tests))),
        unjudged=tuple(sorted(name for name, is_mine in side.items() if is_mine and name not in said)),
        thin=tuple(_thin(facts, side, policy)),
    )


def rows_behind(facts: Facts, side: Side, cell: Cell) -> list[dict[str, object]]:
    """The rows that a cell's numbers are made of: a row a time, or a run. ``counted``: for which side; "" for none,
    because the other side has no run of that setup."""
    runs = facts.runs
    if cell.metric in STAGES:
        samples = [
            one
            for one in facts.samples
            if one.run in side
            and (runs[one.run].system, one.fault, one.stage) == (cell.system, cell.fault, cell.metric)
        ]
        shared = _shared(facts, side, (one.run for one in samples))
        return [
            {
                "night": runs[one.run].night,
                "run": one.run,
                "counted": _side_of(facts, side, shared, one.run),
                "fault": one.number,
                "ns": one.ns,
                "censored": one.censored,
                "setup": runs[one.run].setup,
                "version": version_of(runs[one.run]),
            }
            for one in sorted(samples, key=lambda one: (runs[one.run].night, one.run, one.number))
        ]
    outcome, _, checker = cell.metric.partition("/")
    judged = _judged(facts, side, cell.system, checker, cell.fault)
    shared = _shared(facts, side, (one.run for one in judged))
    return [
        {
            "night": runs[one.run].night,
            "run": one.run,
            "counted": _side_of(facts, side, shared, one.run),
            "outcome": one.outcome,
            "hit": one.outcome == outcome and fault_of(one) == cell.fault,
            "setup": runs[one.run].setup,
            "version": version_of(runs[one.run]),
        }
        for one in sorted(judged, key=lambda one: (runs[one.run].night, one.run))
    ]


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked. ``changed``: system → what changed."""

    facts: Facts
    side: Side
    policy: Policy
    asked: str
    changed: Mapping[str, tuple[str, ...]]

    def is_mine(self, name: str) -> bool:
        return bool(self.side.get(name))


# --- both sides -------------------------------------------------------------------------------------------------------


def _shared(facts: Facts, side: Side, names: Iterable[str]) -> frozenset[str]:
    """Setups that both sides have. Where there is none, all of them: then there is nothing to test, only to show."""
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for name in names:
        seen[side[name]].add(facts.runs[name].setup)
    return frozenset(seen[True] & seen[False] or seen[True] | seen[False])


def _comparable(facts: Facts, side: Side, names: Iterable[str]) -> Counter[bool]:
    """How many of these runs each side has of setups that both have; none, where none is shared."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for name in names:
        counts[facts.runs[name].setup][side[name]] += 1
    found: Counter[bool] = Counter()
    for both in counts.values():
        if both[True] and both[False]:
            found.update(both)
    return found


def _thin(facts: Facts, side: Side, policy: Policy) -> Iterator[str]:
    by_system: dict[str, list[str]] = defaultdict(list)
    for name in side:
        by_system[facts.runs[name].system].append(name)
    for system, names in sorted(by_system.items()):
        counts = _comparable(facts, side, names)
        if any(side[name] for name in names) and min(counts[True], counts[False]) < policy.runs_min:
            yield system


def _side_of(facts: Facts, side: Side, shared: frozenset[str], name: str) -> str:
    if facts.runs[name].setup not in shared:
        return ""
    return "now" if side[name] else "before"


def _changed(facts: Facts, side: Side, system: str) -> tuple[str, ...]:
    """Attributes with a value that the other side has not: ``knobs.election_timeout_ms: 150 → 225``."""
    values: dict[str, dict[bool, set[str]]] = defaultdict(lambda: {True: set(), False: set()})
    for name, mine in side.items():
        if facts.runs[name].system == system:
            for key, value in facts.runs[name].attributes.items():
                values[key][mine].add(value)
    return tuple(
        f"{key}: {_some(both[False])} → {_some(both[True])}"
        for key, both in sorted(values.items())
        if both[True] - both[False] and any(not mine for mine in side.values())
    )


def _some(values: set[str]) -> str:
    shown = sorted(values)[:3]
    return (", ".join(shown) or "nothing") + (" …" if len(values) > len(shown) else "")


# --- times ------------------------------------------------------------------------------------------------------------


def _times(facts: Facts, side: Side, policy: Policy) -> list[Slowness]:
    cells: dict[tuple[str, str, str], list[Sample]] = defaultdict(list)
    for sample in facts.samples:
        if sample.run in side:
            cells[facts.runs[sample.run].system, sample.fault, sample.stage].append(sample)
    return [_time(facts, side, policy, Cell(*key), cells[key]) for key in sorted(cells)]


def _time(facts: Facts, side: Side, policy: Policy, cell: Cell, samples: Sequence[Sample]) -> Slowness:
    shared = _shared(facts, side, (one.run for one in samples))
    kept = [one for one in samples if facts.runs[one.run].setup in shared]
    numbers: dict[str, int] = {}
    setups: dict[str, int] = {}
    times = survival.Times(
        ns=np.array([one.ns for one in kept], np.int64),
        censored=np.array([one.censored for one in kept], np.bool_),
        run=np.array([numbers.setdefault(one.run, len(numbers)) for one in kept], np.int64),
    )
    mine = np.array([side[one.run] for one in kept], np.bool_)
    stratum = np.array([setups.setdefault(facts.runs[one.run].setup, len(setups)) for one in kept], np.int64)
    now, before = times.where(mine), times.where(~mine)
    runs, runs_before = len(np.unique(now.run)), len(np.unique(before.run))
    found = survival.log_rank(times, mine, stratum) if min(runs, runs_before) >= policy.runs_min else None
    why = "" if found else f"fewer than {policy.runs_min} runs of one setup on either side"
    return Slowness(
        cell=cell,
        now=_median(now, policy, f"{cell} now"),
        before=_median(before, policy, f"{cell} before"),
        runs=runs,
        runs_before=runs_before,
        times=len(now),
        times_before=len(before),
        p_slower=found.p_slower if found else None,
        p_faster=found.p_faster if found else None,
        why=why,
    )


def _median(times: survival.Times, policy: Policy, name: str) -> survival.Interval:
    if not policy.resamples or not len(times):
        return survival.Interval(survival.median(times), None, None)
    return survival.bootstrap_median(times, seed=Rng(policy.seed).stream(name).next64(), resamples=policy.resamples)


def _slower(question: _Question, times: Sequence[Slowness]) -> Iterator[Regression]:
    facts, policy = question.facts, question.policy
    for one in times:
        ratio = one.ratio
        # A median that is not reached now, and was before, is longer than any ratio.
        grew = one.now.at is None if ratio is None else ratio >= policy.ratio_min
        if one.p_slower is None or one.p_slower > policy.alpha or not grew:
            continue
        size = f"{_ms(one.before.at)} → {_ms(one.now.at)}" + (f" (× {ratio:.2f})" if ratio else "")
        names = {
            sample.run
            for sample in facts.samples
            if question.is_mine(sample.run)
            and Cell(facts.runs[sample.run].system, sample.fault, sample.stage) == one.cell
        }
        yield Regression(
            kind="slower",
            cell=one.cell,
            night=question.asked,
            size=size,
            changed=question.changed[one.cell.system],
            runs=tuple(sorted(names)),
            p=one.p_slower,
        )


def _is_faster(one: Slowness, policy: Policy, tests: int) -> bool:
    shrank = one.before.at is None if one.ratio is None else one.ratio <= 1 / policy.ratio_min
    return one.p_faster is not None and one.p_faster * max(1, tests) <= policy.alpha and shrank


def _ms(ns: int | None) -> str:
    return "not reached" if ns is None else f"{ns / MS:,.1f} ms"


# --- rates ------------------------------------------------------------------------------------------------------------


def _judged(facts: Facts, side: Side, system: str, checker: str, fault: str) -> list[Judged]:
    """What a checker said of all runs that had this fault; ``n/a`` is no answer."""
    return [
        one
        for one in facts.judged
        if one.run in side
        and one.checker == checker
        and one.outcome != "n/a"
        and facts.runs[one.run].system == system
        and exposed(facts.runs[one.run], fault)
    ]


def _rates(facts: Facts, side: Side) -> list[Rate]:
    """Of every outcome that anything is known against: a violation, or unknown."""
    by_checker: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in facts.judged:
        if one.run in side and one.outcome != "n/a":
            by_checker[facts.runs[one.run].system, one.checker].append(one)
    found = []
    for (system, checker), rows in sorted(by_checker.items()):
        seen = sorted({(fault_of(one), one.outcome) for one in rows if one.outcome in {"fail", "unknown"}})
        for fault, outcome in seen:
            cell = Cell(system, fault, f"{outcome}/{checker}")
            found.append(_rate(facts, side, cell, outcome, [r for r in rows if exposed(facts.runs[r.run], fault)]))
    return found


def _rate(facts: Facts, side: Side, cell: Cell, outcome: str, rows: Sequence[Judged]) -> Rate:
    shared = _shared(facts, side, (one.run for one in rows))
    counts: Counter[tuple[bool, bool]] = Counter()
    for one in rows:
        if facts.runs[one.run].setup in shared:
            counts[side[one.run], one.outcome == outcome and fault_of(one) == cell.fault] += 1
    hits, hits_before = counts[True, True], counts[False, True]
    of, of_before = hits + counts[True, False], hits_before + counts[False, False]
    both = _comparable(facts, side, {one.run for one in rows})
    p = survival.more_often(hits, of, hits_before, of_before) if both else None
    return Rate(cell=cell, hits=hits, of=of, hits_before=hits_before, of_before=of_before, p=p)


def _hits(facts: Facts, cell: Cell, of: Callable[[str], bool]) -> list[str]:
    outcome, _, checker = cell.metric.partition("/")
    return sorted(
        one.run
        for one in facts.judged
        if (one.checker, one.outcome, fault_of(one)) == (checker, outcome, cell.fault)
        and facts.runs[one.run].system == cell.system
        and of(one.run)
    )


def _bad(question: _Question, rates: Sequence[Rate]) -> Iterator[Regression]:
    facts, side = question.facts, question.side
    for rate in rates:
        mine = _hits(facts, rate.cell, question.is_mine)
        if not mine:
            continue
        violation = rate.cell.metric.startswith("fail/")
        # Of other nights and setups as well: a violation is one wherever it was seen.
        others = _hits(facts, rate.cell, lambda name: not question.is_mine(name))
        causes = _by_signature(facts, rate.cell, mine) if violation else {"": mine}
        for signature, runs in causes.items():
            earliest = min(facts.runs[name].night for name in runs)
            before = [name for name in others if side.get(name) is False or facts.runs[name].night < earliest]
            if signature:
                before = _by_signature(facts, rate.cell, before).get(signature, [])
            kind: Kind
            if violation and (not before or _returned(facts, rate.cell, before, earliest)):
                kind = "new"
            elif rate.p is not None and rate.p <= question.policy.alpha:
                kind = "more-often"
            elif violation:
                kind = "standing"
            else:
                continue
            was = f"{rate.hits_before} of {rate.of_before} runs → " if rate.of_before else ""
            beside = f", and {len(mine) - rate.hits} of setups without others" if len(mine) > rate.hits else ""
            cause = f", {len(runs)} of them by this cause" if len(causes) > 1 else ""
            yield Regression(
                kind=kind,
                cell=rate.cell,
                night=question.asked,
                size=f"{was}{rate.hits} of {rate.of} runs{beside}{cause}",
                changed=question.changed[rate.cell.system],
                runs=tuple(runs),
                p=rate.p,
                first=min((facts.runs[name].night for name in [*runs, *before]), default=""),
                signature=signature,
            )


def _by_signature(facts: Facts, cell: Cell, runs: Sequence[str]) -> dict[str, list[str]]:
    """Cause → the runs of these that show it. Runs of older versions, which know no cause, are under ""."""
    wanted, checker = set(runs), cell.metric.partition("/")[2]
    out: dict[str, list[str]] = defaultdict(list)
    for one in sorted(facts.judged, key=lambda one: one.run):
        if one.run in wanted and one.checker == checker and one.outcome == "fail":
            for signature in one.signatures or ("",):
                out[signature].append(one.run)
    return dict(sorted(out.items()))


def _returned(facts: Facts, cell: Cell, before: Sequence[str], earliest: str) -> bool:
    """Whether enough runs lie in between that it was certainly gone: what was mended and returns is new."""
    last, checker = max(facts.runs[name].night for name in before), cell.metric.partition("/")[2]
    clean = of = 0
    for one in facts.judged:
        run = facts.runs[one.run]
        if one.checker != checker or one.outcome not in {"pass", "fail"} or run.system != cell.system:
            continue
        if exposed(run, cell.fault):
            clean += last < run.night < earliest
            of += run.night <= last
    return mended(clean=clean, hits=len(before), of=of)
