"""What CI draws of what would take it too long: by the commit, so that all who test it draw alike, and the next others.

Promises: what the commit changed is always among it. Leaves out what is left to ``make test-all``, which draws nothing.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def commit() -> str:
    """That is tested; "": none."""
    return _git("rev-parse", "HEAD").strip()


@cache
def changed() -> frozenset[str]:
    """The files that it changed, and those that are changed now, as paths below the root."""
    return frozenset(_git("diff", "--name-only", "HEAD~1").split())


def rank(name: str) -> int:
    """Of something, at random, but always the same for this commit."""
    return int.from_bytes(hashlib.sha256(f"{commit()}{name}".encode()).digest()[:8], "big")


def first(names: Iterable[str], count: int) -> list[str]:
    """So many of these."""
    return sorted(names, key=rank)[:count]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
