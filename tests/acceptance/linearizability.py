"""The acceptance of the linearizability engines: many random histories a model against the definition.

Resumable model by model; each has a seed of its own, drawn once and told. Leaves out the engines' speed
(``benchmarks/bench_linear.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.acceptance.simulated import Unfinished, Until

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "runs" / "accept" / "linearizability"
SCRIPT = ROOT / "tests" / "checkers" / "linear_differential.py"
MODELS = ("register", "cas-register", "kv", "multi-register", "mutex", "fifo-queue", "set")
HISTORIES = 50_000


def item(until: Until) -> tuple[bool, str]:
    """Linearizability: 50,000 random histories a model are judged as a brute-force oracle judges them."""
    OUT.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in MODELS:
        stored = OUT / f"{name}.json"
        if not stored.exists():
            if until is not None and time.monotonic() > until:
                raise Unfinished(f"{len(lines)} of {len(MODELS)} models")
            done = subprocess.run(
                [sys.executable, SCRIPT, "--histories", str(HISTORIES), name],
                capture_output=True,
                text=True,
                check=False,
            )
            told = (done.stdout or done.stderr)[-4000:].strip()
            stored.write_text(json.dumps({"held": done.returncode == 0, "text": told}))
        lines.append(json.loads(stored.read_text()))
    bad = [line["text"] for line in lines if not line["held"]]
    return not bad, bad[0] if bad else f"{HISTORIES} histories for each of {len(lines)} models, no difference"
