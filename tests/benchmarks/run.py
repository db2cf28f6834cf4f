"""All benchmarks, one after another: ``make bench``. Figures, not verdicts; the targets stand in the README.

python tests/benchmarks/run.py ["bench_engines.py --seeds 400 --turns 5" "bench_corpus.py --only check" …]
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHES = (
    "bench_docker.py",
    "bench_local.py",
    "bench_ops.py",
    "bench_checkers.py",
    "bench_seen.py",
    "bench_sim.py",
    "bench_elections.py",
    "bench_corpus.py",
    "bench_engines.py",
)


def main() -> int:
    """Run each, or those named with their options, in a process of its own; the exit code counts those that died."""
    died = 0
    for words in sys.argv[1:] or BENCHES:
        print(f"== {words}", flush=True)
        name, *options = shlex.split(words)
        died += subprocess.run([sys.executable, HERE / name, *options], check=False).returncode != 0
    return died


if __name__ == "__main__":
    sys.exit(main())
