"""Systems of the gallery on containers: each starts, shows what it is, serves, and returns after a kill.

CI starts two, drawn by the commit, and those whose files the last commit changed; ``make test-all`` starts all.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from dethrone.clusters import gallery
from tests.command import dethrone

pytestmark = [pytest.mark.docker, pytest.mark.system]
FOLDER = Path(gallery.__path__[0]).resolve()
FILES = sorted(FOLDER.rglob("*.toml"))
DRAWN = 2


def git(*words):
    done = subprocess.run(["git", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def of_this_commit():
    """The descriptions that CI starts."""
    head = git("rev-parse", "HEAD")
    drawn = sorted(FILES, key=lambda file: hashlib.sha256(f"{head}{file.name}".encode()).digest())[:DRAWN]
    changed = {Path(name).parts[0] for name in git("diff", "--relative", "--name-only", "HEAD~1").split()}
    return {*drawn, *(file for file in FILES if file.relative_to(FOLDER).parts[0] in changed)}


def each():
    chosen = of_this_commit()
    rest = pytest.mark.nightly("half a minute each; CI starts two, and what was changed")
    return [pytest.param(file, id=file.stem, marks=() if file in chosen else rest) for file in FILES]


FORGETS = {"pysyncobj-0.3.14": ["term 0 after term 1"]}
"""The release whose term lives in memory only."""
SHOWN = {"hosts", "start", "probe", "ops", "restart"}


@pytest.mark.parametrize("file", each())
def test_a_system_of_the_gallery_starts_serves_and_returns_after_a_kill(state, file):
    done = dethrone(state, "doctor", file, "--on", "docker", "--nodes", "3", "--json")
    rows = [row for row in json.loads(done.stdout)["rows"] if row["step"] in SHOWN]
    assert {row["step"] for row in rows} == SHOWN, done.stderr
    assert [row["why"] for row in rows if row["seen"] != "yes"] == FORGETS.get(file.stem, [])


def test_a_commit_draws_two_of_the_gallery():
    assert len(of_this_commit()) >= DRAWN
