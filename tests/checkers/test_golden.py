"""Each checker against histories with a known verdict: shortest bad ones and near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.history import History
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.verdict import Verdict
from tests.checkers.stories import STORIES

CHECKERS = {}


def checker(name):
    if not CHECKERS:
        for known, point in registry.names(registry.CHECKERS).items():
            CHECKERS[known] = point.load()
    return CHECKERS[name]


def judge(history: History, plan, name: str) -> Verdict:
    return checker(name).check(history, plan.promise, plan)


@pytest.mark.parametrize("name", STORIES)
def test_the_verdict_is_the_known_one(name):
    story = STORIES[name]
    history = story.tell().end()
    verdict = judge(history, story.plan(), story.checker)
    told = " ".join([verdict.reason, *(found.sentence for found in verdict.findings)])
    assert (verdict.outcome, story.words in told) == (story.outcome, True), (verdict.outcome, told, verdict.evidence)
    for found in verdict.findings:
        assert 1 <= len(found.certificate) <= 8
        assert all(0 <= seq < len(history) for seq in found.certificate)


@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.outcome == "pass"])
def test_a_good_story_without_its_end_is_unknown(name):
    story = STORIES[name]
    verdict = judge(story.tell().torn(), story.plan(), story.checker)
    assert (verdict.outcome, "not complete" in verdict.reason) == ("unknown", True)


GOLDEN = Path(__file__).parents[1] / "golden"
STORED = sorted(GOLDEN.glob("*.jsonl"))
"""A few stories as files: who changes what a history looks like changes them, and knows it."""


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_story_is_read_and_written_as_it_always_was(path):
    story = STORIES[path.stem.partition(".")[2]]
    assert path.read_bytes() == story.tell().raw()
    assert read_history(path).events == story.tell().end().events


def test_the_stored_stories_hold_events_of_every_type_that_stories_have():
    stored = {type(event) for path in STORED for event in read_history(path)}
    assert stored == {type(event) for story in STORIES.values() for event in story.tell().end()}


def test_every_checker_has_a_bad_and_a_good_story():
    told = {(story.checker, story.outcome) for story in STORIES.values()}
    for name in registry.names(registry.CHECKERS):
        if checker(name).kind in {"safety", "liveness"}:
            assert {(name, "fail"), (name, "pass")} <= told
