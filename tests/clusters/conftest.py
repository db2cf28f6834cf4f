"""Marks the tests that start real processes and watch real clocks: they are run one after another (``run_all``)."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL_TIME = tuple(Path(__file__).parent / name for name in ("agent", "node", "own", "ssh"))


def pytest_collection_modifyitems(items):
    for item in items:
        if any(item.path.is_relative_to(place) for place in REAL_TIME):
            item.add_marker(pytest.mark.processes)
