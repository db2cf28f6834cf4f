"""Nodes that somebody else starts: what they say of their incarnation is not the harness' count."""

from __future__ import annotations

import queue

import pytest

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Span
from dethrone.harness.core.interfaces import BackendTraits, Reading
from dethrone.harness.engine.run.live_world import LiveWorld, _numbered


class Theirs:
    name = "theirs"
    traits = BackendTraits(shows=lambda observable: tuple(one for one in observable if one != "incarnation"))


class Ours:
    name = "ours"
    traits = BackendTraits()


@pytest.fixture
def inbox():
    return queue.SimpleQueue()


@pytest.fixture
def live(inbox):
    world = LiveWorld(
        system=None,
        backend=Theirs(),
        hosts={},
        nodes={},
        origin_ns=0,
        processes=0,
        observe_interval_ns=1_000_000_000,
        inbox=inbox,
    )
    yield world
    world.close()


def test_only_a_backend_that_shows_no_incarnations_is_unnumbered():
    assert _numbered(Ours())
    assert not _numbered(Theirs())


def test_the_number_that_such_a_node_tells_is_left_out_and_nothing_else(live, inbox):
    reading = Reading(role="leader", leads=True, term=4, commit=9, incarnation=1)
    live._put_unnumbered(w.Polled("n1", Span(1, 2), reading))
    live._put_unnumbered(w.Polled("n2", Span(3, 4), None, "no answer in time"))
    assert inbox.get_nowait() == w.Polled("n1", Span(1, 2), Reading(role="leader", leads=True, term=4, commit=9))
    assert inbox.get_nowait() == w.Polled("n2", Span(3, 4), None, "no answer in time")
