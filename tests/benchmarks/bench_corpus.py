"""A corpus judged on Spark beside two plain processes with the same code, and its native tables; with memory.

    python -m tests.benchmarks.bench_corpus [DIRECTORY] [--events 20000000] [--runs 160] [--templates 8] [--real RUNS]
        [--checker C] [--table T] [--only check|tables] [--corpus PATH]

Prints, for the same runs: seconds and events a second of `corpus check` (after Spark's start) and of two processes that
take the runs, largest first, from one queue; seconds of each native table when it is asked for again (all its rows are
made, none comes to the driver), with Java's processor time; and the largest resident memory of the driver (this process
and its Java). Figures depend on the machine and on who else uses it; the ratio and the processor time hardly do: on two
cores that nobody else uses, a table takes half of its processor time. With ``--corpus`` a corpus is measured as it is,
and its verdicts are given again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.pipeline import checking, frames, ingest, judging, native
from dethrone.harness.pipeline.corpus import Corpus, open_corpus, open_events
from dethrone.harness.pipeline.places import place_of
from dethrone.harness.pipeline.session import SparkOptions, session
from tests.benchmarks.corpus_nights import arguments, make

PROCESSES = 2
ASKED = 5
"""How often a table is asked for: Java has compiled what a question needs after the third or fourth time."""


def main() -> int:
    """Everything, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    parser.add_argument("--checker", action="append", default=[], help="only these checkers")
    parser.add_argument("--table", action="append", default=[], help="only these tables")
    parser.add_argument("--only", choices=["check", "tables"], help="only the one or the other half")
    parser.add_argument("--corpus", type=Path, help="this corpus as it is; nothing is simulated and nothing added")
    given = parser.parse_args()
    corpus, total = kept(given.corpus) if given.corpus else made(given)
    names = tuple(given.checker)
    plain = two_processes(corpus, names, total) if given.only != "tables" else 0.0
    began = time.monotonic()
    with session(SparkOptions(master=f"local[{PROCESSES}]")) as spark, Memory(spark) as memory:
        print(f"{'Spark starts':<24}{time.monotonic() - began:8.1f} s")
        if given.only != "tables":
            began = time.monotonic()
            done = checking.check(corpus, spark, checking.Asked(checkers=names, again=True), lambda _done, _total: None)
            spark_s = time.monotonic() - began
            line("corpus check", spark_s, total, f"{done.judged} verdicts")
            print(f"{'  of two processes':<24}{spark_s / plain:8.2f} times their time")
            print(f"{'  driver, at most':<24}{memory.most_mb:8.0f} MB", flush=True)
        events = frames.events(spark, corpus.place, corpus.runs("run", "path", "schema", stored=True))
        for name, table in native.TABLES.items() if given.only != "check" else ():
            if given.table and name not in given.table:
                continue
            times = [asked(table(events), memory) for _ in range(ASKED)]
            seconds, cpu, rows = min(times[1:])  # the first time is not the warm one
            line(f"table {name}", seconds, total, f"{rows:,} rows, {cpu:.1f} s of processor time")
        print(f"{'  driver, at most':<24}{memory.most_mb:8.0f} MB")
    return 0


def kept(place: Path) -> tuple[Corpus, int]:
    """A corpus that is there, and how many events it has."""
    corpus = open_corpus(str(place))
    total = sum(run["events"] for run in corpus.runs("events", stored=True))
    print(f"{place}: {total:,} events", flush=True)
    return corpus, total


def made(given: argparse.Namespace) -> tuple[Corpus, int]:
    """A corpus of simulated runs, made now as far as it is not there, and how many events it has."""
    nights, total = make(
        given.directory,
        events=given.events,
        runs=given.runs,
        templates=given.templates,
        real=given.real,
        large=given.large,
    )
    began = time.monotonic()
    corpus = open_corpus(str(given.directory / f"corpus-{nights.name}"), make=True)
    answers = [row.answer for row in ingest.add(corpus, ingest.find_runs([nights]), now_ns=time.time_ns())]
    line("corpus add", time.monotonic() - began, total, f"{len(answers)} runs, {answers.count('stored')} stored now")
    return corpus, total


def asked(table, memory: Memory) -> tuple[float, float, int]:
    """Seconds, seconds of Java's processor time, and rows, of one table."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    seen = Observation()
    began, used = time.monotonic(), memory.java_cpu_s()
    table.observe(seen, sf.count("*").alias("rows")).write.format("noop").mode("overwrite").save()
    return time.monotonic() - began, memory.java_cpu_s() - used, seen.get["rows"]


def line(what: str, seconds: float, events: int, note: str) -> None:
    """One figure."""
    print(f"{what:<24}{seconds:8.1f} s{events / max(seconds, 1e-9):14,.0f} events a second   {note}", flush=True)


def two_processes(corpus: Corpus, names: tuple[str, ...], total: int) -> float:
    """The same jobs by plain processes; seconds."""
    checkers = load_checkers()
    versions = {name: checkers[name].version for name in names or checkers}
    versions |= {} if names else {judging.HISTORY: judging.HISTORY_VERSION}
    jobs = judging.jobs_of(corpus.runs(*judging.RUN_COLUMNS, stored=True), [], versions)
    with multiprocessing.get_context("spawn").Pool(PROCESSES, initializer=load_checkers) as pool:
        pool.map(warm, range(PROCESSES * 4), chunksize=1)
        began = time.monotonic()
        verdicts = sum(pool.imap_unordered(judge_one, [(corpus.place.url, job) for job in jobs], chunksize=1))
        seconds = time.monotonic() - began
    line("two plain processes", seconds, total, f"{verdicts} verdicts")
    return seconds


def warm(_number: int) -> None:
    """Import what judging needs, before anybody looks at the clock."""
    load_checkers()
    time.sleep(0.2)


def judge_one(work: tuple[str, judging.Job]) -> int:
    """One run, in this process; how many verdicts it gave."""
    url, job = work
    place = place_of(url)
    return len(judging.judge_job(lambda: open_events(place, job.path), job, load_checkers()).verdicts)


class Memory:
    """The largest resident memory of this process and its Java, looked at twice a second."""

    def __init__(self, spark) -> None:
        java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        self.most_mb = 0.0
        self._pids = ("self", str(java))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def java_cpu_s(self) -> float:
        """Java's processor time so far."""
        words = Path(f"/proc/{self._pids[1]}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most_mb = max(self.most_mb, sum(map(resident_mb, self._pids)))


def resident_mb(pid: str) -> float:
    """VmRSS of a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((int(row.split()[1]) / 1024 for row in status.splitlines() if row.startswith("VmRSS")), 0.0)


if __name__ == "__main__":
    sys.exit(main())
