"""How well nights are compared: a power curve over planted regressions, and what clean nights raise.

    python -m tests.benchmarks.bench_trends [--draws 100] [--clean 200] [--runs 200] [--jobs 1]

Seven clean nights stand before each drawn one. Planted: an election timeout of one system × 1.1, 1.25, 1.5 and 2; a bug
in 0.5, 1, 2 and 5 % of one system's runs, seen after partitions. A draw is a hit if the night is red *and* the
regression is named with its system, fault, metric and night: for timeouts ``elect`` after every kind of fault. Clean
nights are drawn again, with replacement, from a pool of clean nights. Known: that one system's checker is flaky.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

from dethrone.harness.pipeline import known_regressions, trends
from tests.pipeline import made_nights as made

NIGHT = "2026-11-20"
BUGS = (0.02, 0.005, 0.01, 0.05)
FACTORS = (1.5, 1.1, 1.25, 2.0)
POLICY = trends.Policy(resamples=0)
FLAKE = [
    known_regressions.Known(system="etcd", metric="fail/leader-stability", kind=kind, why="flaky")
    for kind in ("standing", "new")
]


@cache
def history(runs):
    """The nights before."""
    return made.joined(*(made.night(f"2026-11-1{day}", day, runs=runs) for day in range(3, 10)))


@cache
def pool(runs):
    """Clean runs to draw from."""
    return made.Pool(history(runs))


def reds(before, tonight):
    """What is red, and not known."""
    found = trends.night(made.joined(before, tonight), NIGHT, POLICY)
    return found.tested, known_regressions.sort(found.regressions, FLAKE).red


def slowed(factor, runs, draw):
    """(named, other systems named)."""
    _, worse = reds(history(runs), made.night(NIGHT, 10_000 + draw, runs=runs, slower=factor))
    named = {(str(one.cell), one.kind, one.night) for one in worse}
    wanted = {(f"raft/{fault}/elect", "slower", NIGHT) for fault in made.FAULTS}
    return wanted <= named, any(one.cell.system != "raft" for one in worse)


def bugged(share, runs, draw):
    """As above."""
    _, worse = reds(history(runs), made.night(NIGHT, 20_000 + draw, runs=runs, bug=share))
    named = {(str(one.cell), one.kind, one.night) for one in worse}
    wanted = ("raft/partition/fail/one-leader-per-term", "new", NIGHT)
    return wanted in named, bool(named - {wanted})


def clean(runs, draw):
    """(something was raised, cells tested)."""
    before = made.joined(*(made.again(pool(runs), f"2026-11-1{day}", 7 * draw + day, runs) for day in range(3, 10)))
    tested, worse = reds(before, made.again(pool(runs), NIGHT, 900_000 + draw, runs))
    return bool(worse), tested, [f"{one.kind} {one.cell} {one.size} p={one.p:.2g}" for one in worse]


def main():
    """Print a line a size, and one object at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--clean", type=int, default=200)
    parser.add_argument("--runs", type=int, default=200, help="of each of three systems, a night")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    figures = {"runs": asked.runs, "draws": asked.draws, "slower": {}, "bug": {}}
    with ProcessPoolExecutor(asked.jobs) as jobs:
        for kind, plant, sizes in (
            ("bug", bugged, (0.02, 0.005, 0.01, 0.05)),
            ("slower", slowed, (1.5, 1.1, 1.25, 2.0)),
        ):
            for size in sizes:
                done = list(jobs.map(partial(plant, size, asked.runs), range(asked.draws)))
                hits, others = sum(hit for hit, _ in done), sum(other for _, other in done)
                figures[kind][size] = {"named": hits, "beside": others}
                print(f"{kind} {size}: named in {hits} of {asked.draws}; anything beside it in {others}", flush=True)
        done = list(jobs.map(partial(clean, asked.runs), range(asked.clean)))
    raised = [word for _, _, words in done for word in words]
    figures["clean"] = {
        "nights": asked.clean,
        "red": sum(red for red, _, _ in done),
        "cells": done[0][1] if done else 0,
    }
    print(f"clean: {figures['clean']['red']} of {asked.clean} nights red {raised}; {figures['clean']['cells']} cells")
    figures["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
