"""All tests in two parts: first those that only compute, on all cores; then those with processes, hosts, Spark or real
systems, one after another, for they watch clocks and would disturb each other.

    python tests/run_all.py [arguments of pytest]

Exits as pytest does, with the worse of both; a part of which no test was asked for is no failure as long as the other
ran some.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

APART = "docker or spark or system or namespaces or processes"
"""Markers of tests that are run one after another."""

INTERRUPTED = 2
NOTHING_RAN = 5


def main(words: Sequence[str]) -> int:
    """Run both parts, the second one whatever came of the first."""
    workers = str(os.cpu_count() or 1)
    parts = [["-m", f"not ({APART})", "-n", workers, "--dist", "loadfile"], ["-m", APART]]
    if "-m" in words:
        parts = [[]]  # who chooses markers gets these, one after another
    codes = []
    for part in parts:
        codes.append(subprocess.run([sys.executable, "-m", "pytest", *part, *words], check=False).returncode)
        if codes[-1] == INTERRUPTED:
            break
    return max((code for code in codes if code != NOTHING_RAN), default=NOTHING_RAN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
