"""What agents look for: one name for one thing; what cannot be looked for is refused before a run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.schedule import OnEvent
from dethrone.harness.core.watches import (
    PATTERN_MAX,
    WATCHES_MAX,
    check_edge,
    check_pattern,
    is_edge,
    watch_name,
    watches_of,
)


def logged(**where):
    return OnEvent(event="logged", within_ns=1, where=where)


def watches(*triggers, patterns=None):
    return watches_of(triggers, patterns or {}, system="mine")


def test_a_thing_that_two_triggers_wait_for_is_looked_for_once():
    found = watches(logged(regex="a+"), logged(regex="a+"), logged(regex="b"), OnEvent(event="elected", within_ns=1))
    assert [(watch.name, watch.pattern) for watch in found] == [("regex=a+", "a+"), ("regex=b", "b")]


def test_a_name_means_the_pattern_of_the_system():
    (found,) = watches(logged(pattern="leads"), patterns={"leads": "became leader"})
    assert (found.name, found.pattern) == (watch_name({"pattern": "leads"}), "became leader")


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="leads"):
        watches(logged(pattern="leeds"), patterns={"leads": "became leader"})


def test_a_system_without_patterns_says_so():
    with pytest.raises(ConfigError, match="mine names no patterns of its log"):
        watches(logged(pattern="leads"))


@pytest.mark.parametrize("pattern", ["(", "a" * (PATTERN_MAX + 1), "", "x*", "(?P<a>x)(?P<a>y)"])
def test_what_is_no_pattern_or_is_in_every_line_is_refused(pattern):
    with pytest.raises(ConfigError):
        check_pattern(pattern, where="here")


def test_too_many_things_are_refused():
    assert len(watches(*(logged(regex=f"a{n}") for n in range(WATCHES_MAX)))) == WATCHES_MAX
    with pytest.raises(ConfigError):
        watches(*(logged(regex=f"a{n}") for n in range(WATCHES_MAX + 1)))


EDGES = [
    ("Follower", "LEADER", {"to": "leader"}, True),
    ("leader", "leader", {"to": "leader"}, False),
    ("leader", "LEADER", {}, False),
    ("candidate", "leader", {"from": "follower", "to": "leader"}, False),
    (None, "n2", {}, True),
    ("n1", None, {"from": "n1"}, True),
    (False, True, {"to": True}, True),
    (3, 4, {"above": 3}, True),
    (4, 5, {"above": 3}, False),
    (4, 3, {"above": 3}, False),
    (5, 2, {"below": 3}, True),
    (3, 3, {"below": 3}, False),
    (None, 9, {"above": 3}, False),
    ("x", 9, {"above": 3}, False),
]


@pytest.mark.parametrize(("before", "now", "where", "wanted"), EDGES)
def test_an_edge_is_a_change_as_it_is_said(before, now, where, wanted):
    assert is_edge(before, now, where) is wanted


@given(st.lists(st.integers(-3, 3), min_size=2), st.integers(-3, 3))
def test_a_number_is_crossed_upwards_and_downwards_in_turn(values, bound):
    crossed = [
        direction
        for before, now in pairwise(values)
        for direction in ("above", "below")
        if is_edge(before, now, {direction: bound + 0.5})
    ]
    assert all(one != other for one, other in pairwise(crossed))


@pytest.mark.parametrize("where", [{"above": 1, "to": "x"}, {"above": "1"}, {"below": True}, {"from": "A", "to": "a"}])
def test_an_edge_that_says_two_things_or_nothing_is_refused(where):
    with pytest.raises(ConfigError):
        check_edge(where, place="here")
