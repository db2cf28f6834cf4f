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
from typing import Any, Generic, TypeVar

import msgspec

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings
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


def bug(says: str, rules: Callable[[Any], Any], *caught_by: str, **more: Any) -> Mutant:
    """A planted bug, and the checkers of which any one must catch it."""
    return Mutant(says=says, rules=rules, caught_by=caught_by, **more)


_PLANTED = "_planted"
"""Attribute of a class of broken rules: its names → what is planted there."""


def mutant(name: str, *, says: str, caught_by: tuple[str, ...] = (), **more: Any) -> Callable[[type[R]], type[R]]:
    """Plants this class of rules: the bug of that name is listed here, on the rule that it breaks, and nowhere else."""

    def plant(rules: type[R]) -> type[R]:
        known: Mapping[str, Mutant] = vars(rules).get(_PLANTED, {})
        setattr(rules, _PLANTED, {name: bug(says, rules, *caught_by, **more), **known})
        return rules

    return plant


def planted(*modules: ModuleType) -> Mapping[str, Mutant]:
    """All bugs that these modules plant: those with a number first, in its order, and then the others as they stand."""
    found = {
        name: one
        for module in modules
        for rules in vars(module).values()
        if isinstance(rules, type) and rules.__module__ == module.__name__
        for name, one in vars(rules).get(_PLANTED, {}).items()
    }
    numbered = sorted(name for name in found if name[0].isdigit())
    return {name: found[name] for name in (*numbered, *(name for name in found if name not in numbered))}


class MutantTable(Generic[K, R]):
    """All planted bugs of one target by name; ``honest`` are the rules that they break."""

    def __init__(self, knobs: KnobTable[K], honest: Callable[[K], R], *tables: Mapping[str, Mutant]) -> None:
        self._knobs, self._honest = knobs, honest
        self.mutants: Mapping[str, Mutant] = {name: mutant for table in tables for name, mutant in table.items()}

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
        broken: R = mutant.rules(knobs)
        return broken

    def _unknown(self, name: str) -> ConfigError:
        close = difflib.get_close_matches(name, self.mutants, n=1, cutoff=0.3)
        return ConfigError(
            f"no variant {name!r} of {self._knobs.target}",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )


def scaled(rules: Callable[[Any], R], name: str, share: Fraction) -> Callable[[Any], R]:
    """These rules with one time or number of their knobs that is larger or smaller by this factor."""
    return lambda knobs: rules(msgspec.structs.replace(knobs, **{name: int(getattr(knobs, name) * share)}))
