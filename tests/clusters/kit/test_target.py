"""Every target refuses members and knobs that cannot be its own before a core is made."""

import pytest

from dethrone.clusters.node.config import load_target
from dethrone.harness.core.errors import ConfigError
from tests.clusters.kit.test_knobs import TABLES

TARGETS = [load_target(table.target.replace("-", "_")) for table in TABLES]
each = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@each
@pytest.mark.parametrize(
    ("node", "members", "hint"),
    [("A", ("A", "A"), "different"), ("A", (), "at least one"), ("X", ("A", "B"), "X is not one of the members A, B")],
)
def test_members_are_different_and_hold_the_node(target, node, members, hint):
    with pytest.raises(ConfigError, match=hint):
        target.core(node=node, members=members, knobs=target.knobs({}), variant=None)


@each
def test_the_knobs_of_another_target_are_refused(target):
    with pytest.raises(ConfigError, match=f"{target.name} target needs its own knobs"):
        target.core(node="A", members=("A",), knobs=None, variant=None)


@pytest.mark.parametrize(
    ("target", "members", "words", "hint"),
    [
        ("kraft", ("A", "B"), {"observers": "Q"}, "no member"),
        ("kraft", ("A",), {"observers": "A"}, "no node votes"),
        ("joyqueue", ("A", "B"), {"learners": "C"}, "C"),
        ("joyqueue", ("A",), {"learners": "A"}, "learner"),
    ],
)
def test_some_members_vote_and_those_that_do_not_are_members(target, members, words, hint):
    made = load_target(target)
    with pytest.raises(ConfigError, match=hint):
        made.core(node="A", members=members, knobs=made.knobs(words), variant=None)
