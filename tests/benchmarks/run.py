"""All benchmarks, one after another: ``make bench``. Figures, not verdicts; the targets stand in the README.

python -m tests.benchmarks.run ["bench_engines.py --seeds 400 --turns 5" "bench_corpus.py --only check" …]
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCHES = (
    "bench_docker",
    "bench_local",
    "bench_mount",
    "bench_ops",
    "bench_checkers",
    "bench_seen",
    "bench_sim",
    "bench_sim --parts",
    "bench_elections",
    "bench_corpus",
    "bench_engines",
    "bench_reports",
    "bench_long --hours 0.25",
)


def main() -> int:
    """Run each, or those named with their options, in a process of its own; the exit code counts those that died."""
    died = 0
    for words in sys.argv[1:] or BENCHES:
        print(f"== {words}", flush=True)
        name, *options = shlex.split(words)
        module = f"tests.benchmarks.{name}"
        died += subprocess.run([sys.executable, "-m", module, *options], cwd=ROOT, check=False).returncode != 0
    return died


if __name__ == "__main__":
    sys.exit(main())
