from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import nights


@pytest.fixture(scope="session")
def sims():
    """Simulated runs by name: an honest one, and one with a planted bug that its checkers find."""
    return {
        "honest": nights.simulated(3, seconds=20),
        "bug": nights.simulated(5, seconds=20, variant="10-resumes-leadership"),
    }


@pytest.fixture(scope="session")
def template(tmp_path_factory, sims):
    base = tmp_path_factory.mktemp("template") / "night"
    honest, bug = sims["honest"], sims["bug"]
    nights.store_run(base / "a", honest.history, honest.plan, run="raft-a")
    nights.store_run(base / "b", honest.history, honest.plan, run="raft-b", started_at="2026-11-21T01:30:00+05:00")
    nights.store_run(base / "deep" / "c", bug.history, bug.plan, run="raft-c", started_at="2026-11-21T00:10:00Z")
    return base


@pytest.fixture
def night(tmp_path, template):
    """A directory of three runs: two honest ones, one of them told in another zone, and the one with the bug."""
    return shutil.copytree(template, tmp_path / "night")
