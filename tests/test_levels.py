"""The levels of tests: Makefile, runner, markers and CONTRIBUTING agree."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import drawn, run_all
from tests.conftest import QUICK_EXAMPLES, objection, undrawn

ROOT = Path(__file__).parents[1]
LISTED = re.compile(r"^\| `(tests/\S+\.py)` \| \S", re.MULTILINE)


def recipe(target):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:[^=\n]*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert found, target
    return found[1]


def test_each_target_runs_its_level_and_ci_runs_make_test():
    for target, level in {"quick": "quick", "test": "test", "test-all": "all"}.items():
        assert f"tests/run_all.py {level} " in recipe(target)
    assert list(run_all.NEEDS) == ["quick", "test", "all"]
    assert recipe("check")
    targets = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {need for needs in run_all.NEEDS.values() for need in needs} <= {*targets}
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("exec make test\n")


def test_what_only_test_all_runs_is_listed_in_contributing_with_its_reason():
    files = {str(file.relative_to(ROOT)) for file in run_all.naming(["nightly"])} - {"tests/test_levels.py"}
    listed = LISTED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(files)


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        ([], None),
        ([pytest.mark.docker, pytest.mark.system, pytest.mark.nightly("an image of its own")], None),
        ([pytest.mark.slow, pytest.mark.nightly("minutes")], None),
        ([pytest.mark.nightly], "nightly needs its reason"),
    ],
)
def test_markers_that_contradict_each_other_are_refused(marks, why):
    assert objection(mark.mark for mark in marks) == why


TRIED: list[int] = []


@settings(max_examples=QUICK_EXAMPLES + 5)
@given(st.integers())
def test_a_property(number):
    TRIED.append(number)
    assert number + 1 > number


def test_quick_holds_every_property_to_few_examples(request):
    TRIED.clear()
    test_a_property()
    quick = request.config.getoption("--hypothesis-profile") == "quick"
    assert len(TRIED) == QUICK_EXAMPLES + (0 if quick else 5)


@pytest.fixture
def runner(monkeypatch):
    """The markers of every pytest and the targets of every make to be started; exit codes by their number."""
    started, codes = [], {}

    class Started:
        def __init__(self, command, **_):
            if command[0] == "make":
                started.append("make " + " ".join(command[2:]))
            elif command != ["true"]:
                assert command[:3] == [sys.executable, "-m", "pytest"]
                started.append(command[command.index("-m", 3) + 1])
            self.code = codes.get(len(started), 0)

        def wait(self):
            return self.code

        poll = wait

    monkeypatch.setattr(run_all.subprocess, "Popen", Started)
    return started, codes


def test_each_level_runs_its_parts(runner):
    started, _ = runner
    assert run_all.main("quick", []) == 0
    rest = " and ".join(f"not {marker}" for marker in run_all.KINDS)
    assert started == ["make check", f"{rest} and not nightly"]
    started.clear()
    assert run_all.main("test", []) == 0
    assert started[:2] == ["make images java tools", "make check"]
    assert ["not nightly" in part for part in started[2:]] == [True] * 7
    started.clear()
    assert run_all.main("all", []) == 0
    assert started[:2] == ["make images-all java tools", "make check"]
    assert ["not nightly" in part for part in started[2:]] == [False] * 7


def test_ci_runs_a_part_of_the_slow_tests_that_the_commit_draws_and_test_all_runs_them_all():
    drawing = {
        level: [part for stage in run_all.stages(level) for part in stage if "--one-of" in part.words]
        for level in run_all.NEEDS
    }
    assert {level: [part.some_of for part in parts] for level, parts in drawing.items()} == {
        "quick": [],
        "test": [run_all.MEASURING, run_all.SPARK, ("slow",), run_all.PROCESSES, run_all.DOCKER, run_all.QUIET],
        "all": [],
    }


def test_every_slow_test_is_drawn_by_some_commit_and_few_by_each(monkeypatch):
    names = [f"test_{number}" for number in range(60)]
    by = []
    for number in range(60):
        monkeypatch.setattr(drawn, "commit", lambda number=number: f"{number:040}")
        by.append({name for name in names if not drawn.rank(name) % run_all.ONE_OF})
        assert drawn.first(names, 2) == drawn.first(reversed(names), 2)
    assert {len(one) for one in by} <= {*range(2, 24)}
    assert {name for one in by for name in one} == {*names}


def test_files_that_the_commit_changed_are_run_whole(monkeypatch):
    monkeypatch.setattr(drawn, "commit", lambda: "0" * 40)
    monkeypatch.setattr(drawn, "changed", lambda: frozenset({"tests/test_new.py"}))

    class Item(NamedTuple):
        nodeid: str
        location: tuple[str, ...]

    items = [
        Item(f"{file}::test_{number}", (file,))
        for file in ("tests/test_new.py", "tests/test_old.py")
        for number in range(40)
    ]
    assert undrawn(items, 1) == set()
    gone = undrawn(items, 3)
    assert {item.location[0] for item in gone} == {"tests/test_old.py"}
    assert 15 <= len(gone) <= 37


def test_files_on_docker_start_longest_first_and_each_of_these_exists():
    (docker,) = run_all.stages("test")[-2]
    words = docker.arguments([])
    assert "--no-loadscope-reorder" in words
    started = [str(Path(word).relative_to(ROOT)) for word in words if word.endswith(".py")]
    assert started[: len(run_all.LONGEST)] == [*run_all.LONGEST]
    assert len({*started}) == len(started) > len(run_all.LONGEST)


def test_every_test_is_in_exactly_one_part_of_test_all():
    markers = run_all.KINDS
    parts = [part for stage in run_all.stages("all") for part in stage]
    for chosen in range(2 ** len(markers)):
        of = {marker for bit, marker in enumerate(markers) if chosen >> bit & 1}
        fits = [part for part in parts if (not part.some_of or of & {*part.some_of}) and not of & {*part.none_of}]
        assert len(fits) == 1


def test_the_worst_part_counts_and_no_stage_follows_an_interrupted_one(runner):
    started, codes = runner
    codes.update({3: 0, 4: 1})
    assert run_all.main("test", []) == 1
    started.clear()
    codes.update({3: run_all.NOTHING_RAN, 4: 0})
    assert run_all.main("test", []) == 0
    started.clear()
    codes.update({3: run_all.INTERRUPTED})
    assert run_all.main("test", []) == run_all.INTERRUPTED
    assert len(started) == 3


@pytest.mark.parametrize("number", [1, 2])
def test_after_the_quick_tests_none_runs_unchecked_or_without_what_it_needs(runner, number):
    started, codes = runner
    codes.update({number: 2})
    assert run_all.main("test", []) == 2
    assert len(started) == 3
    started.clear()
    assert run_all.main("test", ["-m", "docker"]) == 2
    assert len(started) == 2
