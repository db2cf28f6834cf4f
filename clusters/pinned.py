"""What nodes on other hosts need from the package index: one package, pinned with the hashes of all its files.

Guarantees: pip refuses any other file, wherever it came from (``--require-hashes``). ``.ci/lock`` writes the list. Out
of scope: fetching it.
"""

from __future__ import annotations

from pathlib import Path

LOCK = Path(__file__).with_name("node.lock")
NAME = "msgspec"


def requirements() -> str:
    """The text of a requirements file."""
    return LOCK.read_text(encoding="utf-8")


def requirement() -> str:
    """The package and its version, for people."""
    return requirements().split(" ", 1)[0]
