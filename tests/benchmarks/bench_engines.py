"""Seeds a second of one simulated campaign by two local processes, by Spark on two cores, and by two Spark workers.

    python tests/benchmarks/bench_engines.py [--seeds 400] [--turns 5] [--system raft] [--seconds 30]

Three children take turns, each in another order: `--engine local --jobs 2`, `--engine spark` on `local[2]`, and on a
standalone cluster of two workers of one core. Each is started and warm before it is timed (the local one makes its
processes anew each time: its clock starts as the first of them has begun), and all simulate the same seeds of a turn.
Prints each turn's seeds a second, and as figures the medians and the median of each turn's ratios, which other work on
the machine hardly changes; and the largest resident memory of each driver (its Java included).
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
sys.path.insert(0, str(Path(__file__).parent))

import standalone
from bench_corpus import Memory, resident_mb

from harness.core.clock import SECOND
from harness.engine.campaign import local_source
from harness.engine.campaign_virtual import CHUNK
from harness.engine.model import RunOptions

JOBS = 2
ENGINES = ("local --jobs 2", "spark local[2]", "spark 2 x 1 worker")
PAIRS = ((1, 0, "spark local[2] / local"), (2, 0, "spark 2 x 1 / local"), (2, 1, "spark 2 x 1 / local[2]"))


def main() -> int:
    """All turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=400, help="seeds a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--system", default="raft")
    parser.add_argument("--seconds", type=int, default=30, help="simulated time of a run")
    given = parser.parse_args()
    options = RunOptions(system=given.system, backend="sim", time_limit_ns=given.seconds * SECOND)
    rates: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-engines-")))
        url, _ = stack.enter_context(standalone.cluster(directory))
        children = [stack.enter_context(child(options, master)) for master in ("", f"local[{JOBS}]", url)]
        for turn in range(given.turns):
            seeds = range(turn * given.seeds, (turn + 1) * given.seeds)
            took, most = [0.0] * 3, [0.0] * 3
            for position in range(3):
                number = (position + turn) % 3
                children[number].send(seeds)
                took[number], most[number] = children[number].recv()
            rates.append([given.seeds / seconds for seconds in took])
            words = (f"{name} {rate:.2f}" for name, rate in zip(ENGINES, rates[-1], strict=True))
            print(f"turn {turn + 1}: seeds a second: {', '.join(words)}   load {os.getloadavg()[0]:.1f}", flush=True)
    for number, name in enumerate(ENGINES):
        median = statistics.median(turn[number] for turn in rates)
        print(f"{name:<24}{median:8.2f} seeds a second{most[number]:10.0f} MB driver")
    for one, other, name in PAIRS:
        ratios = sorted(turn[one] / turn[other] for turn in rates)
        print(f"{name:<24}{statistics.median(ratios):8.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    return 0


@contextlib.contextmanager
def child(options: RunOptions, master: str):
    """A process that simulates what it is sent, and says in how many seconds; warm."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, options, master))
    process.start()
    try:
        here.send(range(10**6, 10**6 + 40))
        here.recv()
        yield here
    finally:
        here.send(None)
        process.join(60)
        process.kill()


def serve(pipe, options: RunOptions, master: str) -> None:
    """What a child does."""
    with contextlib.ExitStack() as stack:
        if not master:
            memory, source = Alone(), local_source(JOBS)
        else:
            from harness.pipeline.campaign import SETTINGS, spark_source
            from harness.pipeline.session import SparkOptions, session

            conf = {**SETTINGS, **(standalone.CONF if master.startswith("spark:") else {})}
            conf.pop("spark.executor.extraJavaOptions", None)  # as a user has it
            spark = stack.enter_context(session(SparkOptions(master=master, conf=conf)))
            memory, source = stack.enter_context(Memory(spark)), spark_source(spark, lambda _line: None)
        while (seeds := pipe.recv()) is not None:
            pipe.send((timed(source, options, seeds, started=bool(master)), memory.most_mb))


def timed(source, options: RunOptions, seeds: range, *, started: bool) -> float:
    """Seconds; where nothing was ``started`` before, since the first process began with the first seeds."""
    began, rows = time.monotonic(), 0
    first: list[int] = []
    for row in source(options, seeds, count=len(seeds), on_the_way=lambda _seeds: None):
        rows += 1
        if not started and len(first) < CHUNK:
            first.append(row.elapsed_ns)
            if len(first) == 1:
                at = time.monotonic()
            if len(first) == CHUNK:
                began = at - sum(first) / SECOND
    assert rows == len(seeds)
    return time.monotonic() - began


class Alone:
    """The largest resident memory of this process."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.most_mb = max(self.most_mb, resident_mb("self"))
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
