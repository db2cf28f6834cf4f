"""How fast the simulator is: times real time, and events a second, on one core; with the history, without checkers.

    python -m tests.benchmarks.bench_sim [simulated seconds] [repeats]
    python -m tests.benchmarks.bench_sim --parts [CPU seconds a load]       where the time goes instead

Five nodes at 150-300 ms, each observed at 10 Hz. Three loads: idle; a fault every 2 s (partition, kill, pause); 100
operations a second. Measured in CPU time of this process, the best of some repeats, because other work on the machine
only ever adds; the first line tells how fast the machine itself is. ``--parts``: the share of each part of the
simulator in that time (``sim_parts``). Prints figures; judges nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from heapq import heappop, heappush
from pathlib import Path

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.virtual_run import VirtualRun
from tests.benchmarks.sim_parts import sampled, shares

FAULTS = ("partition", "kill", "pause")
LOADS: dict[str, dict[str, object]] = {
    "idle": {"faults": (), "workload": "election"},
    "a fault every 2 s": {"faults": FAULTS, "workload": "election", "nemesis_interval_ns": 2 * SECOND},
    "100 ops/s": {"faults": (), "workload": "log", "rate_per_s": 100},
    "100 ops/s and a fault every 2 s": {
        "faults": FAULTS,
        "workload": "log",
        "rate_per_s": 100,
        "nemesis_interval_ns": 2 * SECOND,
    },
}


def heap_step_us() -> float:
    """The time of one pop and push on a heap of 30: a yardstick for the machine as it is now."""
    heap = [(number, number) for number in range(30)]
    began = time.process_time_ns()
    for number in range(200_000):
        at, _ = heappop(heap)
        heappush(heap, (at + 31, number))
    return (time.process_time_ns() - began) / 200_000 / 1000


def one(
    profile: str,
    load: dict[str, object],
    *,
    seconds: int,
    seed: int,
    watched: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[float, dict[str, float]]:
    """One run: CPU seconds of loop and history, and the run's figures."""
    fields = {"system": "raft", "backend": "sim", "profile": profile, "time_limit_ns": seconds * SECOND, **load}
    options = RunOptions(**fields)  # type: ignore[arg-type]
    drafted = draft(options, seed=seed)
    with tempfile.TemporaryDirectory() as directory:
        run = VirtualRun(options, drafted, Path(directory), Silence(), run_id="bench", checkers={})
        with watched():
            began = time.process_time()
            run.direct()
            return time.process_time() - began, run.figures


def parts(cpu_seconds: float) -> None:
    """Where the time goes under each load."""
    for name, load in LOADS.items():
        spent, seed = 0.0, 0
        found: Counter[str] = Counter()
        while spent < cpu_seconds:
            seed += 1
            spent += one("raft", load, seconds=120, seed=seed, watched=partial(sampled, found))[0]
        print(f"raft        {name:32} {shares(found)}", flush=True)


def main() -> None:
    """Every profile under every load."""
    if sys.argv[1:2] == ["--parts"]:
        parts(float(sys.argv[2]) if len(sys.argv) > 2 else 10)
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"one heap step {min(heap_step_us() for _ in range(5)):.3f} us")
    for profile in ("raft", "raft-paper"):
        for name, load in LOADS.items():
            length = seconds if "ops" not in name else max(20, seconds // 4)
            best, figures = min(
                (one(profile, load, seconds=length, seed=1) for _ in range(repeats)), key=lambda found: found[0]
            )
            print(
                f"{profile:10}  {name:32} {figures['simulated_s'] / best:7.0f} x real time  "
                f"{figures['simulated_events'] / best:9.0f} events/s  "
                f"{(figures['observed'] + figures['traced']) / best:9.0f} history lines/s  "
                f"({figures['simulated_s']:.0f} s simulated, {figures['faults']} faults, {figures['ok']} ops ok)",
                flush=True,
            )


if __name__ == "__main__":
    main()
