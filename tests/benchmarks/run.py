"""All benchmarks, one after another: ``make bench``. Figures, not verdicts; the targets stand in the README."""

from __future__ import annotations

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
    """Run each in a process of its own; the exit code counts the ones that died."""
    died = 0
    for name in sys.argv[1:] or BENCHES:
        print(f"== {name}", flush=True)
        died += subprocess.run([sys.executable, HERE / name], check=False).returncode != 0
    return died


if __name__ == "__main__":
    sys.exit(main())
