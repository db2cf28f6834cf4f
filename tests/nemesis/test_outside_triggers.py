"""Triggers on what is seen from outside: each finds its own sightings and no others, and is refused if it cannot."""

from __future__ import annotations

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Observed, Sighted
from dethrone.harness.core.schedule import OnEvent

CONDITIONS = registry.load_all(registry.TRIGGERS)


def sighted(name, *, n=1, by="log", **data):
    return Sighted(
        seq=0, t=9, span=Span(7, 8), node="n2", incarnation=1, n=n, by=by, name=name, data=data
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


def observed(*, seq=5, at=20, **fields):
    given = {"role": "follower", "leads": False, "term": 3, "leader": "n1", **fields}
    return Observed(seq=seq, t=at, span=Span(at - 2, at - 1), node="n2", incarnation=1, **given)


def changed(before, now, **where):
    return CONDITIONS["status-changed"].match(now, OnEvent(event="status-changed", within_ns=1, where=where), before)


def test_a_change_of_status_happened_between_two_answers():
    found = changed(observed(at=20), observed(at=60, role="Leader", leads=True, term=4), field="role", to="leader")
    assert (found.span, found.actor, found.term) == (Span(18, 59), "n2", 4)
    assert changed(observed(), observed(at=60, term=4), field="role") is None
    assert changed(None, observed(role="leader"), field="role", to="leader") is None


def test_the_leader_that_is_named_now_may_be_a_victim():
    assert changed(observed(), observed(leader="n3"), field="leader").roles["candidate"] == ("n3",)
    assert "candidate" not in changed(observed(), observed(leader=None), field="leader").roles


@pytest.mark.parametrize(("field", "end"), [("commit", 7), ("log_index", 7), ("log_term", 3), ("voted_for", "n3")])
def test_every_field_of_an_answer_can_be_waited_for(field, end):
    known = observed(commit=7, log_end=(3, 7), voted_for="n3")
    assert changed(observed(), known, field=field, to=end) is not None
    assert changed(observed(), observed(), field=field) is None


@pytest.mark.parametrize(
    "where", [{}, {"field": "roll"}, {"to": "leader"}, {"field": "term", "above": "x"}, {"field": "role", "regex": "a"}]
)
def test_a_status_that_cannot_change_so_is_refused(where):
    with pytest.raises(ConfigError):
        check(where, event="status-changed")


def test_a_frame_names_its_receiver():
    where = {"to": "n3", "bytes_min": 100}
    event = sighted("bytes_min=100 to=n3", by="wire", to="n3", bytes=120)
    found = CONDITIONS["frame-sent"].match(event, OnEvent(event="frame-sent", within_ns=1, where=where), None)
    assert found.roles == {"actor": ("n2",), "receiver": ("n3",)}
    assert match(event, to="n3", bytes_min=100) is None


@pytest.mark.parametrize(
    "where",
    [
        {"port": "x"},
        {"port": 70000},
        {"bytes_min": True},
        {"bytes_min": -1},
        {"to": 3},
        {"hex": "0g"},
        {"size": 3},
        {"contains": "a", "hex": "61"},
    ],
)
def test_a_frame_that_cannot_be_looked_for_is_refused(where):
    with pytest.raises(ConfigError):
        check(where, event="frame-sent")


def test_a_frame_may_be_any():
    check({}, event="frame-sent", by="leader")
    check({"hex": "00ff", "port": 2380, "bytes_min": 0}, event="frame-sent")


def test_a_frame_to_a_node_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="n4"):
        check({"to": "n4"}, event="frame-sent")


def test_a_figure_that_changed_names_its_node():
    where = {"metric": "beats", "port": 80, "above": 3}
    event = sighted("above=3 metric=beats port=80", by="metric", before=3, now=4)
    found = CONDITIONS["metric-changed"].match(event, OnEvent(event="metric-changed", within_ns=1, where=where), None)
    assert found.actor == "n2"


@pytest.mark.parametrize(
    "where",
    [
        {"metric": "beats"},
        {"port": 80},
        {"metric": " beats", "port": 80},
        {"metric": "beats", "port": True},
        {"metric": "beats", "port": 80, "path": "metrics"},
        {"metric": "beats", "port": 80, "path": "/a b"},
        {"metric": "beats", "port": 80, "above": "3"},
        {"metric": "beats", "port": 80, "to": 3},
    ],
)
def test_a_figure_that_cannot_be_looked_for_is_refused(where):
    with pytest.raises(ConfigError):
        check(where, event="metric-changed")
