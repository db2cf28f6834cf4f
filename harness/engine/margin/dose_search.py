"""The search for the dose of a fault that breaks a property half the time: from trials to the next dose, or an answer.

Bisection with repeats. A trial broke the property, or the property held; what is spoiled counts for neither and is
repeated. Each dose is tried until it is certain that it breaks the property more than half the time, or less
(``evidence``; the chance of error is shared out evenly among the doses that the search may try). Then the bracket
between the largest dose that holds and the smallest that breaks is halved, on a scale of ratios or of differences,
until it is as narrow as wanted. A dose that stays undecided after ``trials_max`` is close to what is looked for, and
stays in the bracket.

Guarantees: pure: a function of the trials so far, in any order, so a search resumes from its rows. If a larger dose
never breaks less often, the bracket holds the dose that breaks half the time, with the confidence asked for. A smaller
dose that breaks where a larger one holds is an answer of its own, not averaged away. Out of scope: carrying out trials.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from dethrone.harness.engine.margin.evidence import more_than_half, throws_needed

Scale = Literal["ratio", "difference"]
Decided = Literal["breaks", "holds", "undecided", "spoiled", "open"]


class Trials(msgspec.Struct, frozen=True):
    """Some trials of one dose. ``spoiled``: by noise, or a fault that was not certainly in force."""

    dose: int
    broke: int = 0
    held: int = 0
    spoiled: int = 0


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. ``precision``: the widest bracket, as a ratio in percent above 1, or as a difference.

    ``trials_max``, ``spoiled_max``: of one dose; a dose that spoils more trials than that cannot be measured here.
    """

    least: int
    most: int
    scale: Scale = "ratio"
    precision: int = 25
    confidence_percent: int = 95
    trials_max: int = 30
    spoiled_max: int = 30

    def __post_init__(self) -> None:
        """Raise ValueError for a range that is none."""
        if not (0 < self.least < self.most and self.precision > 0 and 50 <= self.confidence_percent < 100):
            raise ValueError("the smallest dose must be above 0 and below the largest, the confidence 50 to 99 percent")

    @property
    def doses_max(self) -> int:
        """How many doses the search may try at most."""
        if self.scale == "ratio":
            wide = math.log(self.most / self.least) / math.log(1 + self.precision / 100)
        else:
            wide = (self.most - self.least) / self.precision
        return 2 + 2 * max(1, math.ceil(math.log2(max(2.0, wide))))

    @property
    def error(self) -> float:
        """The chance of error of one dose."""
        return (1 - self.confidence_percent / 100) / self.doses_max

    def middle(self, lo: int, hi: int) -> int:
        """The dose between two, to two or three significant digits where that is still between them."""
        exact = round(math.sqrt(lo * hi)) if self.scale == "ratio" else (lo + hi) // 2
        for digits in (2, 3):
            short = round(exact, digits - len(str(exact))) if exact > 99 else exact
            if lo < short < hi:
                return short
        return exact

    def narrow(self, lo: int, hi: int) -> bool:
        """Whether no dose in between needs to be tried."""
        if not lo < self.middle(lo, hi) < hi:
            return True
        return hi * 100 <= lo * (100 + self.precision) if self.scale == "ratio" else hi - lo <= self.precision


class Ask(msgspec.Struct, frozen=True):
    """Try this dose ``trials`` times more."""

    dose: int
    trials: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``lo``: the largest dose that certainly holds; None: none does. ``hi``: the smallest that certainly breaks; None:
    none does. ``undecided``: doses in between that were tried. ``why``: no bracket, or a wide one."""

    lo: int | None
    hi: int | None
    undecided: tuple[int, ...] = ()
    why: str = ""


def summed(rows: Iterable[Trials]) -> dict[int, Trials]:
    """Dose → all its trials, from the smallest dose on."""
    broke, held, spoiled = Counter[int](), Counter[int](), Counter[int]()
    for row in rows:
        broke[row.dose] += row.broke
        held[row.dose] += row.held
        spoiled[row.dose] += row.spoiled
    return {dose: Trials(dose, broke[dose], held[dose], spoiled[dose]) for dose in sorted(broke)}


def decided(one: Trials, search: Search) -> Decided:
    """What the trials of one dose show."""
    throws = one.broke + one.held
    if more_than_half(one.broke, throws, error=search.error):
        return "breaks"
    if more_than_half(one.held, throws, error=search.error):
        return "holds"
    if throws >= search.trials_max:
        return "undecided"
    return "spoiled" if one.spoiled >= search.spoiled_max else "open"


def certain_ends(rows: Iterable[Trials], search: Search) -> tuple[int | None, int | None]:
    """The largest dose that certainly holds so far, and the smallest that certainly breaks."""
    said = {dose: decided(one, search) for dose, one in summed(rows).items()}
    holding = [dose for dose, word in said.items() if word == "holds"]
    breaking = [dose for dose, word in said.items() if word == "breaks"]
    return max(holding, default=None), min(breaking, default=None)


def next_step(rows: Iterable[Trials], search: Search) -> Ask | Answer:
    """What to try next, or what came out."""
    tried = summed(rows)
    said = {dose: decided(one, search) for dose, one in tried.items()}
    opened = next((dose for dose, word in said.items() if word == "open"), None)
    if opened is not None:
        return _ask(tried[opened], search)
    lo, hi = certain_ends(tried.values(), search)
    if lo is not None and hi is not None and lo > hi:
        return Answer(lo=None, hi=None, why="a larger dose holds where a smaller one breaks: it has no single margin")
    spoiled = [dose for dose, word in said.items() if word == "spoiled"]
    if spoiled:
        return Answer(
            lo=lo, hi=hi, why=f"{search.spoiled_max} trials of one dose were spoiled: it cannot be measured here"
        )
    doubtful = [dose for dose, word in said.items() if word == "undecided"]
    return _narrowed(lo, hi, doubtful, said.keys(), search)


def _narrowed(
    lo: int | None, hi: int | None, doubtful: list[int], tried: Iterable[int], search: Search
) -> Ask | Answer:
    """The next dose of a bracket that is decided so far: the largest first, the least only when nothing holds."""
    known = set(tried)
    if search.most not in known:
        return _ask(Trials(search.most), search)
    if len(known) >= search.doses_max:
        return Answer(lo=lo, hi=hi, undecided=tuple(doubtful), why="the search tried all its doses")
    below, above = lo or search.least, hi or search.most
    places = sorted({below, above, *(dose for dose in doubtful if below < dose < above)})
    for one, two in itertools.pairwise(places):
        if not search.narrow(one, two):
            return _ask(Trials(search.middle(one, two)), search)
    if lo is None and search.least not in known:
        return _ask(Trials(search.least), search)
    return Answer(lo=lo, hi=hi, undecided=tuple(doubtful))


def _ask(one: Trials, search: Search) -> Ask:
    left = search.trials_max - one.broke - one.held
    return Ask(one.dose, throws_needed(one.broke, one.held, error=search.error, most=max(1, left)))
