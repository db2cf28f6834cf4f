"""A run that is judged as it goes and a stored one are judged alike: a watcher stops at the event at which it fails.

Out of scope: what only the whole history shows (polls that later ones confirm, leaders that votes for others refute).
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Incremental
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse
from tests.checkers.histories import plan, promise
from tests.checkers.soup import elections
from tests.checkers.stories import STORIES

WATCHING = {
    name: checker for name, checker in registry.load_all(registry.CHECKERS).items() if isinstance(checker, Incremental)
}
WHOLE_ONLY = ("not_atomic", "refuted")
"""In the names of stories that only the whole history decides."""
RUNS = (
    ("raft", None, set()),
    ("raft", "plain-votes-twice", {"one-leader-per-term", "one-vote-per-term"}),
    ("kraft", "25-epoch-may-fall", {"term-never-decreases"}),
    ("paxos", "56-answers-own-value", {"agreement"}),
)


def stops_at(checker, history, made):
    """The place of the event at which a watcher stops, if it does."""
    feed = checker.watcher(made.promise, made)
    return next((place for place, event in enumerate(history) if feed(event)), None)


def fails(checker, events, made):
    return checker.check(History(list(events), damage="cut off"), made.promise, made).outcome == "fail"


def judged_alike(checker, history, made):
    """Whether it fails, which its watcher says at the first event with which it does, and only there."""
    place = stops_at(checker, history, made)
    failed = checker.check(history, made.promise, made).outcome == "fail"
    assert failed == (place is not None)
    if place is not None:
        assert fails(checker, history.events[: place + 1], made)
        assert not fails(checker, history.events[:place], made)
    return failed


@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.checker in WATCHING])
def test_a_watcher_stops_at_the_event_that_makes_a_story_bad(name):
    story = STORIES[name]
    history, checker, made = story.tell().end(), WATCHING[story.checker], story.plan()
    if any(word in name for word in WHOLE_ONLY):
        assert stops_at(checker, history, made) is None
    else:
        assert judged_alike(checker, history, made) == (story.outcome == "fail")


@pytest.mark.slow
@pytest.mark.parametrize(("system", "variant", "caught_by"), RUNS)
def test_a_watcher_stops_at_the_event_at_which_a_simulated_run_fails(system, variant, caught_by):
    options = RunOptions(
        system=system,
        backend="sim",
        variant=variant,
        time_limit_ns=40 * SECOND,
        stop_at_first_failure=False,
        conclusive=False,
    )
    run = rehearse(options, {}, seed=1)
    assert {name for name, checker in WATCHING.items() if judged_alike(checker, run.history, run.plan)} == caught_by


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(elections())
def test_a_watcher_never_stops_where_the_checker_finds_nothing(history):
    for checker in WATCHING.values():
        place = stops_at(checker, history, plan())
        assert place is None or checker.check(history, promise(), plan()).outcome == "fail"
