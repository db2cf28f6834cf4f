"""Nights of runs for benchmarks of the corpus: real simulated histories, each stamped as several runs.

    python -m tests.benchmarks.corpus_nights [DIRECTORY] [--events 20000000] [--runs 160] [--templates 8] [--real RUNS]

Simulates a few runs of several systems, honest ones and one with a planted bug, each with about events ÷ runs events,
and stamps them with run ids and nights of their own (files are linked, so copies cost nothing). What was simulated
before is taken as it is. The events are those of real runs, so that checkers have real work; twins have the same bytes.
With ``--large`` one run is that long; with ``--real`` the runs in that directory, those of real processes, say, go in
besides, once and as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run
from dethrone.harness.pipeline.ingest import find_runs
from tests.stored import lines

KINDS = (
    ("raft", None, 5),
    ("raft", None, 3),
    ("kraft", None, 3),
    ("nacos", None, 3),
    ("dledger", None, 3),
    ("raft", "10-resumes-leadership", 3),
    ("paxos", None, 3),
    ("joyqueue", None, 3),
)
"""System, variant, nodes."""

FIRST_S = 30
FILES = (store.HISTORY, store.PLAN)


def template(directory: Path, number: int, events: int) -> tuple[Path, int]:
    """A simulated run with about so many events: a short one first, to learn how many a second there are."""
    system, variant, nodes = KINDS[number % len(KINDS)]
    place = directory / f"template-{number}-{events}"
    if not (place / store.RUN).is_file():
        base = RunOptions(
            system=system,
            variant=variant,
            nodes=nodes,
            backend="sim",
            seed=number,
            stop_at_first_failure=False,
            nemesis_interval_ns=3 * SECOND,
        )
        short = directory / f"probe-{number}-{events}-{os.getpid()}"
        found = run(msgspec.structs.replace(base, time_limit_ns=FIRST_S * SECOND, out=short), Silence())
        seconds = max(FIRST_S, FIRST_S * events // max(1, found.figures["events"]))
        run(msgspec.structs.replace(base, time_limit_ns=seconds * SECOND, out=place), Silence())
    return place, lines(place).count(b"\n")


def stamp(place: Path, target: Path, *, run_id: str, night: int) -> None:
    """The same run under another name, in another night."""
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copytree(place / name, target / name, copy_function=os.link) if (place / name).is_dir() else os.link(
            place / name, target / name
        )
    info = msgspec.json.decode((place / store.RUN).read_bytes())
    info |= {"run_id": run_id, "started_at": f"2026-10-{1 + night % 30:02d}T01:00:00Z"}
    store.write_json(target / store.RUN, info)


def make(
    directory: Path, *, events: int, runs: int, templates: int, real: Path | None = None, large: int = 0
) -> tuple[Path, int]:
    """The directory of runs, and how many events they have together."""
    nights = directory / f"nights-{events}-{runs}-{templates}"
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(templates):
        began = time.monotonic()
        try:
            place, count = template(directory, number, events // runs)
        except HarnessError as error:
            print(f"{KINDS[number % len(KINDS)][0]}: {error}")
            continue
        print(f"{place.name}: {count:,} events, {time.monotonic() - began:.0f} s", flush=True)
        made.append((place, count))
    total = 0
    for number, place in enumerate(find_runs([real]) if real else ()):
        target = nights / f"real-{number:04d}"
        if not target.exists():
            shutil.copytree(place, target)
        total += lines(target).count(b"\n")
    if large:
        place, count = template(directory, 0, large)
        total += count
        if not (nights / "large").exists():
            stamp(place, nights / "large", run_id="template-large", night=0)
    for number in range(max(runs, 10**6)):
        if number >= runs and total >= events:
            break
        place, count = made[number % len(made)]
        total += count
        target = nights / f"run-{number:04d}"
        if not target.exists():
            stamp(place, target, run_id=f"{place.name.split('-')[0]}-{number:04d}", night=number // 8)
    return nights, total


def arguments(parser: argparse.ArgumentParser) -> None:
    """What both this script and the benchmark take."""
    parser.add_argument(
        "directory", type=Path, nargs="?", default=Path(tempfile.gettempdir()) / "dethrone-bench-corpus"
    )
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=160)
    parser.add_argument("--templates", type=int, default=8)
    parser.add_argument("--large", type=int, default=0, help="besides, one run of about so many events")
    parser.add_argument("--real", type=Path, help="a directory with runs that go in as they are")


if __name__ == "__main__":
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(wanted)
    given = wanted.parse_args()
    where, there = make(
        given.directory,
        events=given.events,
        runs=given.runs,
        templates=given.templates,
        real=given.real,
        large=given.large,
    )
    print(f"{there:,} events in {where}")
    sys.exit(0)
