"""No module of the product has more than 500 lines, so that each can hold one idea and be read in one sitting."""

from __future__ import annotations

from pathlib import Path

from dethrone.harness.core.renamed import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 500
TABLES: frozenset[str] = frozenset()
"""Data tables may be longer: rows are looked up, not read. None is today."""
LONGER = {
    "checkers/linearizability/kernel.py": 505,
}
"""Modules that are still too long, and their lines. A number may only fall; at 500 its line goes."""


def sizes():
    """Module → lines."""
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files}


def test_no_module_of_the_product_has_more_than_500_lines():
    found = sizes()
    assert len(found) > 500
    longer = {name: lines for name, lines in found.items() if lines > LINES_MAX and name not in TABLES}
    assert longer == LONGER
