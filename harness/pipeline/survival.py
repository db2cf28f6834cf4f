"""Statistics of times that may be cut off, and of how often something happens, where runs are what is drawn. Pure.

Kaplan–Meier with log-log bounds and Fisher's exact test are scipy's. What is here is what it has not: times of one run
are not independent (one cluster, one host, one hour), so the log-rank statistic is summed by run, compared within
strata of equal setup, and its variance is that of dealing *runs*, not times, to the two sides; medians are
bootstrapped by run as well. Guarantees: the same arguments give the same answer; ``seed`` is the only chance. Out of
scope: what is compared with what, and the conclusions (``trends``).

Sources: Kaplan and Meier 1958; Peto and Peto 1972 (log-rank scores and their permutation); Holm 1979.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

RESAMPLES = 400
_CELLS_MAX = 1 << 22
"""Weights held at once while bootstrapping."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times in ns, whether each was cut off there (``censored``: the true one is longer), and the run of each, as a
    number. Arrays of one length."""

    ns: Ints
    censored: Bools
    run: Ints

    def __len__(self) -> int:
        """How many times."""
        return len(self.ns)

    def where(self, chosen: Bools) -> Times:
        """Those of them."""
        return Times(ns=self.ns[chosen], censored=self.censored[chosen], run=self.run[chosen])


@dataclass(frozen=True, slots=True)
class Curve:
    """A survival curve: from each of ``ns`` on, the share not reached yet, with bounds (95 %; NaN: there are none)."""

    ns: tuple[int, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two sides compared. ``z`` > 0: the one asked about is slower. ``p_slower``, ``p_faster``: one-sided. ``runs``:
    of the one asked about, ``against``: of the other; only runs in strata in which both sides have some."""

    z: float
    p_slower: float
    p_faster: float
    runs: int
    against: int


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % interval, ns; None: so much is cut off that it is not reached."""

    at: int | None
    low: int | None
    high: int | None


def curve(times: Times) -> Curve:
    """The Kaplan–Meier estimate with log-log bounds."""
    from scipy import stats

    if not len(times):
        return Curve((), (), (), ())
    if times.censored.all():
        # nothing was reached: there are no bounds for that
        return Curve((int(times.ns.max()),), (1.0,), (float("nan"),), (1.0,))
    sample = stats.CensoredData.right_censored(times.ns.astype(np.float64), times.censored)
    survival = stats.ecdf(sample).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where the share is 1 or 0 there are no bounds: NaN says so
        bounds = survival.confidence_interval(method="log-log")
    return Curve(
        ns=tuple(int(one) for one in survival.quantiles),
        share=_floats(survival.probabilities),
        low=_floats(bounds.low.probabilities),
        high=_floats(bounds.high.probabilities),
    )


def median(times: Times) -> int | None:
    """The first time by which at least half is reached, by the Kaplan–Meier estimate; None: it never is."""
    if not len(times):
        return None
    found = _medians(times, np.ones((1, len(times)), np.int64))[0]
    return None if found < 0 else int(found)


def bootstrap_median(times: Times, *, seed: int, resamples: int = RESAMPLES) -> Interval:
    """The median, with the 95 % percentile interval of drawing its runs again and again."""
    at = median(times)
    runs, index = np.unique(times.run, return_inverse=True)
    if len(runs) < 2:
        return Interval(at=at, low=None, high=None)
    rng = np.random.Generator(np.random.PCG64(seed))
    step = max(1, _CELLS_MAX // len(times))
    found: list[Ints] = []
    for begin in range(0, resamples, step):
        drawn = rng.multinomial(len(runs), np.full(len(runs), 1 / len(runs)), size=min(step, resamples - begin))
        found.append(_medians(times, drawn[:, index]))
    every = np.sort(np.concatenate(found))
    every = np.sort(np.where(every < 0, np.iinfo(np.int64).max, every))
    low, high = every[int(0.025 * resamples)], every[min(resamples - 1, int(0.975 * resamples))]
    return Interval(at=at, low=_reached(low), high=_reached(high))


def scores(ns: Ints, censored: Bools) -> Floats:
    """Log-rank scores: reached (1 or 0) minus what was expected by then (Nelson–Aalen). They sum to zero; the sum over
    one side is observed minus expected."""
    moments, index = np.unique(ns, return_inverse=True)
    reached = np.bincount(index, weights=~censored, minlength=len(moments))
    left = np.bincount(index, minlength=len(moments))
    at_risk = len(ns) - np.concatenate(([0], np.cumsum(left)[:-1]))
    found: Floats = (~censored).astype(np.float64) - np.cumsum(reached / at_risk)[index]
    return found


def log_rank(times: Times, asked: Bools, stratum: Ints) -> Difference | None:
    """Whether the times ``asked`` about are longer than the others, within strata; all times of a run are of one side
    and stratum. None: nothing to compare.

    ``z`` is taken for what it says of Student's t of the runs' sums (dealing runs and t order hands alike), with as
    many degrees of freedom as the smaller side has runs, less one: few runs with long times make tails that the normal
    distribution does not have.
    """
    from scipy import stats

    excess, variance, runs, against, strata = 0.0, 0.0, 0, 0, 0
    for one in np.unique(stratum):
        inside = stratum == one
        part, mine = times.where(inside), asked[inside]
        numbers, index = np.unique(part.run, return_inverse=True)
        side = np.zeros(len(numbers), np.bool_)
        side[index] = mine
        here, there = int(side.sum()), int((~side).sum())
        if not here or not there:
            continue
        sums = np.bincount(index, weights=scores(part.ns, part.censored), minlength=len(numbers))
        total = here + there
        excess -= float(sums[side].sum())
        variance += here * there / (total * (total - 1)) * float((sums**2).sum())
        runs, against, strata = runs + here, against + there, strata + 1
    if min(runs, against) < 2:
        return None
    z = excess / variance**0.5 if variance > 0 else 0.0
    left = runs + against - strata
    t = z * ((left - 1) / max(left - z * z, 1e-9)) ** 0.5 if left > 1 else z
    free = min(runs, against) - 1
    return Difference(
        z=z,
        p_slower=float(stats.t.sf(t, free)),
        p_faster=float(stats.t.cdf(t, free)),
        runs=runs,
        against=against,
    )


def more_often(hits: int, of: int, before: int, of_before: int) -> float:
    """Fisher's exact test, one-sided: the chance of ``hits`` or more out of ``of`` if both rates were equal."""
    from scipy import stats

    if not of or not of_before:
        return 1.0
    table = [[hits, of - hits], [before, of_before - before]]
    return float(stats.fisher_exact(table, alternative="greater")[1])


def rate_interval(hits: int, of: int) -> tuple[float, float]:
    """The exact (Clopper–Pearson) 95 % interval of a rate."""
    from scipy import stats

    if not of:
        return (0.0, 1.0)
    bounds = stats.binomtest(hits, of).proportion_ci(confidence_level=0.95, method="exact")
    return (float(bounds.low), float(bounds.high))


def holm(values: Sequence[float]) -> list[float]:
    """The p values as if each had been asked alone: at most a share alpha of all families raises anything wrongly."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, worst = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, values[place] * (len(values) - rank)))
        found[place] = worst
    return found


def _medians(times: Times, weights: npt.NDArray[Any]) -> Ints:
    """Medians (−1: not reached) of the same times with these weights, a row each."""
    # At one moment, what is reached comes before what is cut off: ties then telescope to the usual product.
    order = np.lexsort((times.censored, times.ns))
    weighed = weights[:, order]
    at_risk = np.cumsum(weighed[:, ::-1], axis=1)[:, ::-1]
    gone = np.where(times.censored[order], 0, weighed)
    with np.errstate(all="ignore"):
        factors = np.where(at_risk > 0, 1 - gone / at_risk, 1.0)
    # Half is half even where the product of fractions is a hair above it.
    below = np.cumprod(factors, axis=1) <= 0.5 + 1e-9
    first = below.argmax(axis=1)
    found: Ints = np.where(below.any(axis=1), times.ns[order][first], -1)
    return found


def _reached(value: np.int64) -> int | None:
    return None if value == np.iinfo(np.int64).max else int(value)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(one) for one in values)
