"""A planted bug is listed once, on the rule or the class of rules that it breaks."""

import sys
from fractions import Fraction
from types import ModuleType

import msgspec

from dethrone.clusters.targets.kit.known_bugs import KNOWN
from dethrone.clusters.targets.kit.mutants import Switched, mutant, planted


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
    assert list(planted(HERE))[:4] == ["01-first", "02-second", "22-almost", "plain-louder"]


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
    assert list(planted(HERE, other)) == list(planted(HERE))


@mutant("harmless-wider", says="leaves more room", scales={"room": Fraction(3, 2)}, knobs={"name": "wide"})
class Ruled:
    """Rules with bugs planted on them, one by one."""

    tidy = Switched("plain-untidy", says="leaves things about", caught_by=("one",))

    def __init__(self, knobs):
        self.knobs = knobs

    @mutant("plain-always", answers=True, says="agrees to everything", caught_by=("two",))
    @mutant("22-almost", instead=lambda _, number, least: number > least, nodes_min=2)
    def agrees(self, number, *, least):
        """Whether the number is large enough."""
        return number >= least

    @mutant("22-almost", answers="never")
    def when(self):
        """When to agree."""
        return "now"


class Knobs(msgspec.Struct):
    room: int
    name: str


def test_a_bug_on_a_rule_answers_one_value_there_and_all_else_is_honest():
    found, honest = planted(HERE), Ruled(None)
    always, untidy = found["plain-always"].rules(None), found["plain-untidy"].rules(None)
    assert (honest.agrees(1, least=2), always.agrees(1, least=2), untidy.agrees(1, least=2)) == (False, True, False)
    assert (honest.tidy, always.tidy, untidy.tidy) == (True, True, False)
    assert found["plain-always"].caught_by == ("two",)


def test_a_name_on_several_rules_breaks_them_all_and_what_is_not_said_there_is_that_of_its_number():
    bug = planted(HERE)["22-almost"]
    almost = bug.rules(None)
    assert (almost.agrees(2, least=2), almost.agrees(3, least=2), almost.when()) == (False, True, "never")
    assert (bug.says, bug.caught_by, bug.nodes_min) == (KNOWN["22"].says, KNOWN["22"].caught_by, 2)


def test_a_bug_of_other_knobs_is_the_honest_rules_under_these():
    knobs = planted(HERE)["harmless-wider"].rules(Knobs(5, "narrow")).knobs
    assert (knobs.room, knobs.name) == (7, "wide")
