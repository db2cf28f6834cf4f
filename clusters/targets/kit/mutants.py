"""Planted bugs of a target: builds in which one rule is broken, each with the checkers that must catch it.

Guarantees: a bug that shows nothing under the given knobs is refused before anything starts, with the knob to set; a
user's own class (``path/to/file.py:Class``, or an entry point) is built the same way. Out of scope: the rules
themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings
from dethrone.clusters.targets.kit.known_bugs import known
from dethrone.clusters.targets.plugged import made, plugged
from dethrone.harness.core.errors import ConfigError

K = TypeVar("K", bound=Settings)
R = TypeVar("R")


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One build that differs from the honest one."""

    says: str
    """What it does wrong, in one sentence."""
    rules: Callable[[Any], Any]
    caught_by: tuple[str, ...] = ()
    """Checkers of which any one counts; none, and no ``seen_by``: the build is harmless."""
    seen_by: tuple[str, ...] = ()
    """Checkers of what clients saw that must find it, each under its own workload; the exam of elections runs none."""
    needs: Mapping[str, str] = {}
    """Knobs without which the mistake cannot show; refused otherwise. See ``KnobTable.unmet`` for the words."""
    advised: Mapping[str, str] = {}
    """Knobs with which it shows sooner, on nodes ``n1 …``."""
    nodes_min: int = 3
    """The smallest cluster in which it can show."""


_PLANTED = "_planted"
"""Attribute of a class of rules, or of one rule: its names → what is planted there."""

T = TypeVar("T")
Build = Callable[[type[Any], str], Callable[[Any], Any]]
"""(the class of rules, the name of the rule in it) → what makes the broken rules of some knobs."""


class _Seed(NamedTuple):
    """A bug as it is planted, before its rules are made."""

    build: Build
    more: Mapping[str, Any]


def mutant(
    name: str,
    *,
    answers: Any = None,
    instead: Callable[..., Any] | None = None,
    scales: Mapping[str, Fraction] = {},
    knobs: Mapping[str, Any] = {},
    **more: Any,
) -> Callable[[T], T]:
    """Plant a bug on the rule that it breaks, where it is listed and nowhere else; ``more``: fields of `Mutant`, as far
    as `known_bugs` does not say them.

    On a rule: ``answers`` is what the broken build always answers there; ``instead``, with the rules and the arguments
    of the rule, is what it does in the rule's place. A name that stands on several rules breaks them all. On a class of
    rules: these are the broken ones, or those of the class under other ``knobs``, or with times or numbers of them that
    are larger or smaller by a factor (``scales``).
    """

    def build(rules: type[Any], rule: str) -> Callable[[Any], Any]:
        if rule:
            return broken(rules, **{rule: answers if instead is None else instead})
        if not scales and not knobs:
            return rules
        return lambda given: rules(_changed(given, scales, knobs))

    def plant(rule: T) -> T:
        others: Mapping[str, _Seed] = vars(rule).get(_PLANTED, {})
        setattr(rule, _PLANTED, {name: _Seed(build, more), **others})
        return rule

    return plant


class Switched:
    """A rule that is True in the honest build, and False in the one that is planted on it."""

    def __init__(self, name: str, **more: Any) -> None:
        setattr(self, _PLANTED, {name: _Seed(lambda rules, rule: broken(rules, **{rule: False}), more)})

    def __get__(self, rules: object, owner: type | None = None) -> bool:
        """What the honest build does."""
        return True


def broken(rules: type[R], **others: Any) -> type[R]:
    """A class of these rules in which each of those named is another: a function that takes its place, or an answer.

    A rule that is a field gets another value. Raises TypeError for a name that is no rule of theirs.
    """
    wrong = [rule for rule in others if not hasattr(rules, rule)]
    if wrong:
        raise TypeError(f"{rules.__qualname__} has no rule {wrong[0]}")
    by = {
        rule: _always(one) if callable(getattr(rules, rule)) and not callable(one) else one
        for rule, one in others.items()
    }
    return type("Broken", (rules,), by)


def _always(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


def _changed(knobs: Any, scales: Mapping[str, Fraction], others: Mapping[str, Any]) -> Any:
    scaled = {name: int(getattr(knobs, name) * share) for name, share in scales.items()}
    return msgspec.structs.replace(knobs, **scaled, **others)


def planted(*modules: ModuleType) -> Mapping[str, Mutant]:
    """All bugs that these modules plant: those with a number first, in its order, and then the others as they stand."""
    found: dict[str, Mutant] = {}
    for module in modules:
        for rules in vars(module).values():
            if isinstance(rules, type) and rules.__module__ == module.__name__:
                for rule, place in (("", rules), *vars(rules).items()):
                    for name, seed in getattr(place, "__dict__", {}).get(_PLANTED, {}).items():
                        found[name] = _mutant(name, seed, rules, rule, found.get(name))
    numbered = sorted(name for name in found if name[0].isdigit())
    return {name: found[name] for name in (*numbered, *(name for name in found if name not in numbered))}


def _mutant(name: str, seed: _Seed, rules: type[Any], rule: str, before: Mutant | None) -> Mutant:
    """The bug, or the one ``before`` with one rule more that it breaks."""
    if before is not None:
        return msgspec.structs.replace(before, rules=seed.build(cast("type[Any]", before.rules), rule), **seed.more)
    said = known(name)
    return Mutant(rules=seed.build(rules, rule), **{**(said._asdict() if said else {}), **seed.more})


class MutantTable(Generic[K, R]):
    """All planted bugs of one target by name; ``honest`` are the rules that they break."""

    def __init__(self, knobs: KnobTable[K], honest: Callable[[K], R], mutants: Mapping[str, Mutant]) -> None:
        self._knobs, self._honest, self.mutants = knobs, honest, mutants

    def rules(self, name: str | None, knobs: K) -> R:
        """The rules of the honest build (None), of a planted bug, or of the user's own class. Raises ConfigError."""
        if name is None:
            return self._honest(knobs)
        mutant = self.mutants.get(name)
        if mutant is None:
            own: Any = plugged(name, self._honest) if isinstance(self._honest, type) else None
            if own is None:
                raise self._unknown(name)
            theirs: R = made(own, knobs)
            return theirs
        missing = self._knobs.unmet(knobs, mutant.needs)
        if missing:
            raise self._knobs.wrong(f"variant {name} shows nothing without {missing}", f"set {missing}")
        planted_ones: R = mutant.rules(knobs)
        return planted_ones

    def _unknown(self, name: str) -> ConfigError:
        close = difflib.get_close_matches(name, self.mutants, n=1, cutoff=0.3)
        return ConfigError(
            f"no variant {name!r} of {self._knobs.target}",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
