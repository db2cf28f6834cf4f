"""What holds for every checker and every history whatever."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.events import Begin
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Incremental
from dethrone.harness.core.promise import LIVENESS, SAFETY, NotPromised
from tests.checkers.histories import ALL, Tale, plan, promise
from tests.checkers.soup import soups
from tests.checkers.stories import STORIES

CHECKERS = {name: point.load() for name, point in registry.names(registry.CHECKERS).items()}
PROMISES = [
    promise(),
    promise(leader_bound_to_term=False, pre_vote=False, linearizable_reads=False, tiers=("T1", "T4")),
    promise(tolerates={"kill": 1}, quorum=3, step_down_ns=None, converge_ns=None),
]
some = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@some
@given(soups(), st.sampled_from(PROMISES))
def test_no_history_makes_a_checker_raise(history, promised):
    for checker in CHECKERS.values():
        verdict = checker.check(history, promised, plan(given=promised))
        assert verdict.outcome in {"pass", "unknown", "fail", "n/a"}
        assert verdict.outcome == "pass" or verdict.reason
        assert verdict.checker == checker.name
        msgspec.json.encode(verdict)
        for found in verdict.findings:
            assert all(0 <= seq < len(history.events) for seq in found.certificate)


@some
@given(soups())
def test_no_history_makes_a_watcher_raise(history):
    for checker in CHECKERS.values():
        if isinstance(checker, Incremental):
            feed = checker.watcher(promise(), plan())
            assert all(isinstance(feed(event), bool) for event in history)


@some
@given(soups())
def test_a_damaged_or_unfinished_history_never_passes(history):
    if history.complete:
        history = History(history.events[:-1], damage="cut off")
    for checker in CHECKERS.values():
        assert checker.check(history, promise(), plan()).outcome != "pass"


@pytest.mark.parametrize("events", [[], [Begin(seq=0, t=0, schema=1, system="raft", nodes=("n1",), seed=1)]])
def test_an_empty_history_never_passes(events):
    for checker in CHECKERS.values():
        assert checker.check(History(events), promise(), plan()).outcome in {"unknown", "n/a"}


def test_a_complete_history_in_which_nothing_happened_never_passes():
    history = Tale(3).end()
    for checker in CHECKERS.values():
        assert checker.check(history, promise(), plan()).outcome in {"unknown", "n/a"}


@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.outcome == "pass"])
def test_a_good_story_without_its_end_is_unknown(name):
    story = STORIES[name]
    verdict = CHECKERS[story.checker].check(story.tell().torn(), story.plan().promise, story.plan())
    assert verdict.outcome == "unknown"
    assert "not complete" in verdict.reason


@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.outcome == "fail"])
def test_a_bad_story_fails_without_its_end_too(name):
    story = STORIES[name]
    verdict = CHECKERS[story.checker].check(story.tell().torn(), story.plan().promise, story.plan())
    assert verdict.outcome == "fail"


@pytest.mark.parametrize("name", [*SAFETY, *LIVENESS])
def test_what_is_exempt_is_not_judged_and_says_why(name):
    promised = promise(exempt={name: NotPromised(reason="broken by design")})
    bad = next(story for story in STORIES.values() if (story.checker, story.outcome) == (name, "fail"))
    verdict = CHECKERS[name].check(bad.tell().end(), promised, plan(bad.nodes, given=promised))
    assert (verdict.outcome, verdict.reason) == ("n/a", "not promised: broken by design")


@pytest.mark.parametrize("name", [*SAFETY, *LIVENESS])
def test_what_cannot_be_observed_is_not_judged(name):
    verdict = CHECKERS[name].check(Tale(3).end(), promise(), plan(observable=()))
    assert verdict.outcome == "n/a"
    assert "not observable" in verdict.reason


@pytest.mark.parametrize("name", SAFETY)
def test_what_a_fault_beyond_the_promise_explains_is_excused_and_still_shown(name):
    for story in STORIES.values():
        if (story.checker, story.outcome) != (name, "fail"):
            continue
        told = story.tell()
        tale = Tale(story.nodes)
        tale.fault("wipe", "n1", tale.state)
        shift = len(tale.events) - 1
        for event in told.events[1:]:
            tale.events.append(msgspec.structs.replace(event, seq=event.seq + shift))
        tale.now = told.now
        verdict = CHECKERS[name].check(tale.end(), story.plan().promise, story.plan())
        assert verdict.outcome != "fail"
        assert verdict.findings
        assert all(found.excused for found in verdict.findings)


def test_all_channels_of_the_plan_are_known_words():
    assert {"witness", "observed", "ops"} <= set(ALL)
