"""Each checker against histories with a known verdict: shortest bad ones and near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.history import History, read_history
from dethrone.harness.core.verdict import Verdict
from tests.checkers.stories import GOLDEN, STORIES

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
    history = read_history(GOLDEN / f"{story.checker}.{name}.jsonl")
    verdict = judge(history, story.plan(), story.checker)
    told = " ".join([verdict.reason, *(found.sentence for found in verdict.findings)])
    assert (verdict.outcome, story.words in told) == (story.outcome, True), (verdict.outcome, told, verdict.evidence)
    for found in verdict.findings:
        assert 1 <= len(found.certificate) <= 8
        assert all(0 <= seq < len(history) for seq in found.certificate)


@pytest.mark.parametrize("name", STORIES)
def test_the_files_are_what_the_stories_tell(name):
    story = STORIES[name]
    assert (GOLDEN / f"{story.checker}.{name}.jsonl").read_bytes() == story.tell().raw()


def test_there_is_no_other_file():
    assert {path.name for path in GOLDEN.glob("*.jsonl")} == {f"{s.checker}.{n}.jsonl" for n, s in STORIES.items()}


def test_every_checker_has_a_bad_and_a_good_story():
    told = {(story.checker, story.outcome) for story in STORIES.values()}
    for name in registry.names(registry.CHECKERS):
        if (Path(__file__).parent / f"test_{name.replace('-', '_')}.py").exists():
            continue  # it tells its own stories there
        if checker(name).kind in {"safety", "liveness"}:
            assert {(name, "fail"), (name, "pass")} <= told
