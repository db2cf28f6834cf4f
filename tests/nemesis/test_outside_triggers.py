"""Triggers on what is seen from outside: each finds its own sightings and no others, and is refused if it cannot."""

from __future__ import annotations

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Sighted
from dethrone.harness.core.schedule import OnEvent

CONDITIONS = registry.load_all(registry.TRIGGERS)


def sighted(name, *, n=1, **data):
    return Sighted(
        seq=0, t=9, span=Span(7, 8), node="n2", incarnation=1, n=n, by="log", name=name, data=data
    )  # fmt: skip


def match(event, **where):
    return CONDITIONS["logged"].match(event, OnEvent(event="logged", within_ns=1, where=where), None)


def check(where, *, event="logged", **fields):
    CONDITIONS[event].check(OnEvent(event=event, within_ns=1, where=where, **fields), nodes=3)


def test_a_trigger_finds_what_the_agent_found_for_it():
    found = match(sighted("regex=a b", groups={"term": "7"}), regex="a b")
    assert (found.actor, found.term, found.span) == ("n2", 7, Span(7, 8))
    assert match(sighted("regex=a"), regex="a b") is None
    assert match(sighted("regex=a b"), pattern="a b") is None


@pytest.mark.parametrize("term", ["", "x", "-1", "9" * 30, "²"])
def test_a_term_that_is_no_number_is_none(term):
    assert match(sighted("regex=a", groups={"term": term}), regex="a").term == 0


def test_each_line_is_an_occurrence_of_its_own():
    assert match(sighted("regex=a", n=1), regex="a").key != match(sighted("regex=a", n=2), regex="a").key


@pytest.mark.parametrize(
    "where", [{}, {"regex": "a", "pattern": "b"}, {"regex": "("}, {"regex": ""}, {"regex": 3}, {"line": "a"}]
)
def test_what_nothing_can_be_looked_for_with_is_refused(where):
    with pytest.raises(ConfigError):
        check(where)


def test_a_node_may_be_named():
    check({"regex": "a"}, by="follower")
    with pytest.raises(ConfigError):
        check({"regex": "a"}, by="random")
