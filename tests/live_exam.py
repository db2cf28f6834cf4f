"""The exam on this machine's real processes: an item of ``tests/accept.py``, also a program of its own.

    python tests/live_exam.py [--jobs 2]

Each bug has three minutes of the wall: drawn schedules, triggers from the nodes' own traces. It counts only if a
checker named for it fails within them and the same seed on the build without it passes that checker. Rows are kept in
``runs/accept/exam``; what stands there is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "runs" / "accept" / "exam"
DETHRONE = Path(sys.executable).with_name("dethrone")
BUDGET_S = 180
LEAST = 12

BUGS: dict[str, tuple[str, ...]] = {
    "raft": (
        "01-vote-not-written",
        "12-grant-without-log-check",
        "18-pre-votes-are-votes",
        "21-majority-of-responders",
        "28-never-steps-down",
        "30-sending-is-contact",
        "33-no-jitter",
        "35-no-pre-vote",
        "42-follower-commit-unchecked",
        "44-truncates-always",
        "45-acks-after-local-append",
        "54-removed-node-campaigns",
        "plain-never-truncates",
        "plain-votes-twice",
        "plain-wants-every-vote",
        "plain-writes-term-before",
    ),
}
"""System → bugs that faults of real hosts can show; ``dethrone list variants`` explains them."""


def sit(system: str, jobs: int) -> list[dict[str, Any]]:
    """The rows of one system's bugs."""
    bugs = [word for bug in BUGS[system] for word in ("--bug", bug)]
    words = ["--on", "docker", "--system", system, *bugs, "--budget", f"{BUDGET_S}s"]
    done = subprocess.run(
        [DETHRONE, "exam", *words, "--jobs", str(jobs), "--out", OUT, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=False,
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)["bugs"]
    return rows


def good(row: dict[str, Any]) -> bool:
    """Found in time, and not on the build without it."""
    return bool(row["found"]) and row["base"] == "pass" and row["find_s"] <= BUDGET_S


def item(jobs: int = 1) -> tuple[bool, str]:
    """At least a dozen planted bugs are found on real processes within three minutes each."""
    rows = [row for system in BUGS for row in sit(system, jobs)]
    found = [row for row in rows if good(row)]
    checkers = sorted({row["by"] for row in found})
    lines = [
        f"{row['system']} {row['bug']} by {row['by']} (seed {row['seed']}, {row['find_s']:.0f} s)" for row in found
    ]
    missed = [f"{row['system']} {row['bug']}" for row in rows if not good(row)]
    text = f"{len(found)} of {len(rows)} within {BUDGET_S} s each, by {len(checkers)} checkers: {'; '.join(lines)}"
    return len(found) >= LEAST, text + (f"; not: {', '.join(missed)}" if missed else "")


def main() -> int:
    """Sit the exam and print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="clusters at once")
    held, text = item(parser.parse_args().jobs)
    print(f"{'held' if held else 'NOT HELD'}  exam: {text}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
