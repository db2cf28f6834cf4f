"""What holds for every test: its markers agree, its properties do not fail because the machine is slow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.run_all import WAITING

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
    if "slow" in of and (waits := sorted(of.keys() & set(WAITING))):
        return f"slow is for tests that only compute, and {waits[0]} for tests that wait"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers that contradict each other; hold every property to few examples under the profile ``quick``."""
    wrong = [f"{item.nodeid}: {why}" for item in items if (why := objection(item.iter_markers()))]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
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
