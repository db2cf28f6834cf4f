"""Five local hosts (namespaces, as root): up, cut and heal in force and probed, node killed and back, down.

    python -m tests.benchmarks.bench_local [rounds]

Prints medians and worst cases in ms, beside the figure to reach for the first; judges nothing.
"""

from __future__ import annotations

from dethrone.harness.engine.run.options import RunOptions
from tests.benchmarks.bench_docker import measure, show

UP_MS = 1500
"""The figure to reach."""


def main() -> None:
    """Print the figures."""
    ups, downs = measure(RunOptions(system="raft", backend="local", faults=()), 5)
    show(f"five local hosts up (to reach: {UP_MS} ms)", ups)
    show("five local hosts torn down", downs)


if __name__ == "__main__":
    main()
