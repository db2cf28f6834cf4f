"""Seeds a second of one simulated campaign by two local processes, by Spark on two cores, and by two Spark workers.

    python -m tests.benchmarks.bench_engines [--seeds 400] [--turns 5] [--system raft] [--seconds 30] [--empty 0]

Three children take turns, each in another order: `--engine local --jobs 2`, `--engine spark` on `local[2]`, and on a
standalone cluster of two workers of one core. Each is started and warm before it is timed (the local one makes its
processes anew each time: its clock starts as the first of them has begun), and all simulate the same seeds of a turn.
Prints each turn's seeds a second, and as figures the medians and the median of each turn's ratios; beside them the same
of seeds a second of processor time (of all processes of an engine: Java, executors and the start of local processes
included), which other work on the machine hardly changes; and the largest resident memory of each driver with its Java.
With `--empty N` nothing of this, but a campaign of N seeds on `local[2]` that simulates nothing: rows a second through
the driver into `rows.jsonl` and a corpus, and its memory, after each tenth.
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

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.campaign.campaign import local_source
from dethrone.harness.engine.campaign.virtual_seeds import CHUNK
from dethrone.harness.engine.run.options import RunOptions
from tests.benchmarks.bench_corpus import Memory, resident_mb
from tests.pipeline import standalone

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
    parser.add_argument("--empty", type=int, default=0, help="so many seeds without any work")
    given = parser.parse_args()
    if given.empty:
        empty(given.empty)
        return 0
    options = RunOptions(system=given.system, backend="sim", time_limit_ns=given.seconds * SECOND)
    rates: list[list[float]] = []
    thrift: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-engines-")))
        url, workers = stack.enter_context(standalone.cluster(directory))
        children, roots = zip(
            *(stack.enter_context(child(options, master)) for master in ("", f"local[{JOBS}]", url)), strict=True
        )
        roots[2].extend(worker.pid for worker in workers)
        for turn in range(given.turns):
            seeds = range(turn * given.seeds, (turn + 1) * given.seeds)
            took, worked, most = [0.0] * 3, [0.0] * 3, [0.0] * 3
            for position in range(3):
                number = (position + turn) % 3
                before = processor_s(roots[number])
                children[number].send(seeds)
                took[number], most[number] = children[number].recv()
                worked[number] = processor_s(roots[number]) - before
            rates.append([given.seeds / seconds for seconds in took])
            thrift.append([given.seeds / seconds for seconds in worked])
            words = (
                f"{name} {rate:.2f} ({thin:.2f})"
                for name, rate, thin in zip(ENGINES, rates[-1], thrift[-1], strict=True)
            )
            print(f"turn {turn + 1}: {', '.join(words)}   load {os.getloadavg()[0]:.1f}", flush=True)
    for number, name in enumerate(ENGINES):
        wall, processor = (statistics.median(turn[number] for turn in turns) for turns in (rates, thrift))
        print(f"{name:<24}{wall:8.2f} seeds a second ({processor:.2f} of processor time), driver {most[number]:.0f} MB")
    for one, other, name in PAIRS:
        print(f"{name:<24}{ratio(rates, one, other)}; of processor time {ratio(thrift, one, other)}")
    return 0


def ratio(turns: list[list[float]], one: int, other: int) -> str:
    """The median of the turns' ratios, and from where to where they go."""
    ratios = sorted(turn[one] / turn[other] for turn in turns)
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"


def processor_s(roots: list[int]) -> float:
    """Seconds of processor time of these processes and all below them, those that ended included."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                spent[int(entry.name)] = sum(map(int, fields[11:15]))
    family, more = set(roots), set(roots)
    while more := {pid for pid, parent in parents.items() if parent in more} - family:
        family |= more
    return sum(spent.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def empty(count: int) -> None:
    """What the driver alone can do."""
    from dethrone.harness.engine.campaign.campaign import run_virtual
    from dethrone.harness.engine.run.listener import Silence
    from dethrone.harness.pipeline import campaign
    from dethrone.harness.pipeline.campaign_corpus import bringing
    from dethrone.harness.pipeline.corpus import open_corpus
    from dethrone.harness.pipeline.session import SparkOptions, session

    def making(_packed: bytes, wave: list[tuple[int, ...]]):
        def make(batches):
            import json

            import pyarrow as pa

            plain = {"outcome": "pass", "exit_code": 0, "run_dir": "", "elapsed_ns": 10**6, "elections": 3, "faults": 4}
            plain |= {"ops_ok": 900, "reason": "every promised property held, with evidence"}
            for batch in batches:
                for position in batch.column("id").to_pylist():
                    rows = json.dumps([{"seed": seed, **plain} for seed in wave[position]]).encode()
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([position], pa.int64()), pa.array([rows], pa.binary())], names=["position", "rows"]
                    )

        return make

    campaign._simulating = making
    options = RunOptions(system="raft", backend="sim")
    with (
        tempfile.TemporaryDirectory(prefix="bench-engines-") as place,
        session(SparkOptions(master="local[2]", conf=campaign.SETTINGS)) as spark,
        Memory(spark) as memory,
        bringing(open_corpus(f"{place}/corpus", make=True), options, version="0") as bringer,
    ):
        began, seen = time.monotonic(), 0

        def tell(row, new) -> None:
            nonlocal seen
            bringer.take(row, new)
            seen += 1
            if seen % max(1, count // 10) == 0:
                rate = seen / (time.monotonic() - began)
                own, java = resident_mb("self"), memory.most_mb
                print(
                    f"{seen:>10,} rows{rate:10,.0f} a second{own:8.0f} MB, with Java at most {java:.0f} MB", flush=True
                )

        source = campaign.spark_source(spark, print)
        run_virtual(options, range(count), Path(place) / "c", Silence(), print, source=source, on_kept=tell)


@contextlib.contextmanager
def child(options: RunOptions, master: str):
    """A process that simulates what it is sent, and says in how many seconds; warm."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, options, master))
    process.start()
    there.close()  # so that a child that dies is told, not waited for
    try:
        here.send(range(10**6, 10**6 + 40))
        here.recv()
        yield here, [process.pid]
    finally:
        with contextlib.suppress(OSError):
            here.send(None)
        process.join(60)
        process.kill()


def serve(pipe, options: RunOptions, master: str) -> None:
    """What a child does."""
    with contextlib.ExitStack() as stack:
        if not master:
            memory, source = Alone(), local_source(JOBS)
        else:
            from dethrone.harness.pipeline.campaign import SETTINGS, spark_source
            from dethrone.harness.pipeline.session import SparkOptions, session

            conf = {**SETTINGS, **(standalone.CONF if master.startswith("spark:") else {})}
            conf.pop("spark.executor.extraJavaOptions", None)  # as a user has it
            spark = stack.enter_context(session(SparkOptions(master=master, conf=conf)))
            memory, source = stack.enter_context(Memory(spark)), spark_source(spark, lambda _line: None)
        with contextlib.suppress(EOFError):  # whoever asks is gone
            while (seeds := pipe.recv()) is not None:
                seconds = timed(source, options, seeds, started=bool(master))
                for ended in multiprocessing.active_children():
                    ended.join()  # so that its processor time is counted
                pipe.send((seconds, memory.most_mb))


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
