"""The page of whole descriptions: each is right, serves a workload, and is judged for safety and liveness."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.promise import promise_of
from dethrone.clusters.own.system import PROFILE, OwnSystem

PAGE = (Path(__file__).parents[3] / "docs" / "own-examples.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n# (\w+)\.toml: .*?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BOTH = {"one-leader-per-term", "leader-when-owed"}


@pytest.mark.parametrize(("name", "text"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_an_example_is_a_description_that_can_be_judged(name, text):
    found = parse(text, path=f"{name}.toml", read=lambda _: FileRead(b"", executable=True))
    assert found.system.name == name
    assert OwnSystem(found).defaults().workload in ("register", "log")
    promise = promise_of(found, {}, profile=PROFILE)
    assert "leader-when-owed" not in promise.exempt
    assert promise.source


def test_there_is_an_example_for_each_heading_but_the_last():
    headings = re.findall(r"^## ", PAGE, re.MULTILINE)
    assert len(BLOCKS) == len(headings) - 1 == 5


def test_the_test_of_the_page_is_a_program():
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    compile(program, "test_kv.py", "exec")
    assert "chaos(KV).assert_holds(" in program
