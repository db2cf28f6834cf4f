"""What holds for every test: its markers agree, and its properties do not fail because the machine is slow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests import drawn

QUICK_EXAMPLES = 10

settings.register_profile(
    "any-machine",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "quick",
    settings.get_profile("any-machine"),
    derandomize=True,
    database=None,
    max_examples=QUICK_EXAMPLES,
)
settings.load_profile("any-machine")


def objection(marks: Iterable[pytest.Mark]) -> str | None:
    """Why no test can have these markers."""
    of = {mark.name: mark for mark in marks}
    if "nightly" in of and not (len(of["nightly"].args) == 1 and of["nightly"].args[0]):
        return "nightly needs its reason"
    return None


def undrawn(slow: Iterable[pytest.Item], one_of: int) -> set[pytest.Item]:
    """Those that this commit leaves to others."""
    if one_of == 1:
        return set()
    changed = drawn.changed()
    return {item for item in slow if drawn.rank(item.nodeid) % one_of and item.location[0] not in changed}


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many of the tests that take long are drawn."""
    what = "run one of N slow tests, drawn by the commit, and all in files that it changed [1]"
    parser.addoption("--one-of", type=int, default=1, metavar="N", help=what)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers that contradict each other; draw; hold every property to few examples under ``quick``."""
    wrong = [f"{item.nodeid}: {why}" for item in items if (why := objection(item.iter_markers()))]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
    slow = (item for item in items if item.get_closest_marker("slow"))
    if gone := undrawn(slow, config.getoption("--one-of")):
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]
    if config.getoption("--hypothesis-profile") != "quick":
        return
    for item in items:
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            own = test._hypothesis_internal_use_settings
            few = min(QUICK_EXAMPLES, own.max_examples)
            test._hypothesis_internal_use_settings = settings(own, max_examples=few, derandomize=True, database=None)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that other users can reach. Not ``tmp_path``: each pytest that starts closes its parent to them."""
    with tempfile.TemporaryDirectory(prefix="dethrone-test-") as place:
        Path(place).chmod(0o755)
        yield Path(place)
