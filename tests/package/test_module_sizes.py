"""No Python file has more than 500 lines, so that each can hold one idea and be read in one sitting."""

from __future__ import annotations

from pathlib import Path

from dethrone.harness.core.renamed import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 500
TABLES: frozenset[str] = frozenset()
"""Data tables may be longer: rows are looked up, not read. None is today."""


def sizes():
    """Module → lines."""
    files = [path for folder in (*PACKAGES, "tests") for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files}


def test_no_file_has_more_than_500_lines():
    found = sizes()
    assert len(found) > 500
    assert {name: lines for name, lines in found.items() if lines > LINES_MAX and name not in TABLES} == {}
