"""A planted bug is listed once, on the class of rules that it breaks."""

import sys
from types import ModuleType

from dethrone.clusters.targets.kit.mutants import mutant, planted


class Honest:
    """Rules that nothing breaks."""


@mutant("plain-louder", says="shouts", caught_by=("one",))
class Louder(Honest):
    """The bug that stands first."""


@mutant("02-second", says="comes second", needs={"noop": "on"}, nodes_min=4)
@mutant("01-first", says="comes first", caught_by=("one", "two"))
class Both(Honest):
    """One class under two names."""


class Heir(Louder):
    """Inherits the rules of a bug, and not its name."""


HERE = sys.modules[__name__]


def test_numbers_come_first_and_each_bug_once():
    assert list(planted(HERE)) == ["01-first", "02-second", "plain-louder"]


def test_a_bug_is_told_by_its_class():
    found = planted(HERE)
    assert found["01-first"].rules is Both
    assert found["01-first"].caught_by == ("one", "two")
    assert found["02-second"].needs == {"noop": "on"}
    assert (found["02-second"].nodes_min, found["01-first"].nodes_min) == (4, 3)


def test_classes_of_other_modules_are_not_planted_here():
    other = ModuleType("other")
    vars(other).update(Louder=Louder, Heir=Heir)
    assert planted(other) == {}
    assert planted(HERE, other) == planted(HERE)
