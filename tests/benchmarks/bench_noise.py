"""How much of what nodes suffer the agents notice: runs under load, and their stalls beside the noise of their hosts.

    python -m tests.benchmarks.bench_noise --runs 4 --cpu 3 --fsync 3 --on docker --out runs/noise

The node shell records what held it up: slow syncs, and stalls of its loop. Each record of 100 ms or more counts as
covered if at that time an agent reported one stretch of noise (canary or kernel, longer than 50 ms) on the same host;
a stall that a pause, disk or clock fault of the host explains is left out, and so is the part of a stall for which the
node itself was at work. Existing runs are read, not repeated. Out of scope: verdicts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.events import Converged, Noise, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.history_files import read_history
from tests.load_generator import Load

LEAST_NS: Ns = 100 * MS
NOISE_NS: Ns = 50 * MS
ROUND_NS: Ns = 1 * SECOND
"""So long behind a fault what a node suffers may still be the fault's."""
RUN_LIMIT_S = 600.0


class Stretch(NamedTuple):
    """[lo, hi] on one host; ``what`` it was."""

    host: str
    lo: Ns
    hi: Ns
    what: str


def suffered(history: History) -> Iterator[Stretch]:
    """What the nodes' shells recorded, as long as the machine can be blamed for it."""
    for event in history.of(Traced):
        if event.source != "shell" or event.name not in {"fsync_slow", "stall"}:
            continue
        data = event.data
        length = int(data.get("ns", 0)) or int(data.get("ms", 0)) * MS
        begin = event.span.lo - int(data.get("ago_ns", length))
        if event.name == "stall":
            length = min(length, sum(int(data.get(name, 0)) for name in ("run_delay_ns", "steal_ns", "throttled_ns")))
        if length >= LEAST_NS:
            yield Stretch(event.node, begin, begin + length, event.name)


def noticed(history: History) -> Iterator[Stretch]:
    """What the agents reported of canaries and node processes."""
    for event in history.of(Noise):
        if event.kind in {"stall", "fsync", "process"} and event.value_ns > NOISE_NS:
            source = f"process {event.detail.get('source', '')}".strip() if event.kind == "process" else event.kind
            yield Stretch(event.host, event.span.lo, event.span.hi, source)


def faults(history: History) -> Iterator[Stretch]:
    """When a fault itself held a host up, or may have."""
    since: dict[str, Ns] = {}
    for event in history.of(Converged):
        if any(state.frozen or state.disk or state.clock or state.down for state in (event.before, event.after)):
            since.setdefault(event.host, event.span.lo)
        after = event.after
        over = event.confirmed and not (after.frozen or after.disk or after.clock or after.down)
        if over and event.host in since:
            yield Stretch(event.host, since.pop(event.host), event.span.hi + ROUND_NS, "fault")
    yield from (Stretch(host, lo, history.events[-1].t, "fault") for host, lo in since.items())


def touches(one: Stretch, others: Sequence[Stretch], *, anywhere: bool = False) -> bool:
    """Whether one of the others was at the same time, on the same host or ``anywhere``."""
    return any(one.lo <= other.hi and other.lo <= one.hi and (anywhere or other.host == one.host) for other in others)


def figures(history: History) -> Counter[str]:
    """Counts of one run, by what was suffered and by which source alone would have noticed it."""
    found: Counter[str] = Counter()
    broken, noise = list(faults(history)), list(noticed(history))
    found["noise events"] = len(noise)
    found["events"] = len(history)
    for one in suffered(history):
        if touches(one, broken):
            found["of faults"] += 1
            continue
        found["suffered"] += 1
        found[f"suffered {one.what}"] += 1
        found["covered"] += touches(one, noise)
        found["covered on the machine"] += touches(one, noise, anywhere=True)
        for source in sorted({other.what for other in noise}):
            found[f"covered by {source}"] += touches(one, [other for other in noise if other.what == source])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(description="Noise that is noticed beside noise that is suffered.")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--system", default="raft")
    parser.add_argument("--on", default="docker")
    parser.add_argument("--time-limit", default="40s")
    parser.add_argument("--data-in", default="auto", choices=("auto", "disk", "memory"))
    parser.add_argument("--cpu", type=int, default=3)
    parser.add_argument("--fsync", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="run directories; those that exist are read only")
    given = parser.parse_args(words)
    total: Counter[str] = Counter()
    for seed in range(1, given.runs + 1):
        place = given.out / f"{given.system}-{given.on}-{seed}"
        if not (place / "history").exists():
            command = [str(Path(sys.executable).parent / "dethrone"), "run", given.system, "--on", given.on]
            command += ["--seed", str(seed), "--time-limit", given.time_limit, "--out", str(place), "-q"]
            command += ["--data-in", given.data_in]
            command += ["--time-scale", "1"]  # with the timers, the length from which on a stall is noise would grow
            with Load(cpu=given.cpu, fsync=given.fsync, limit_s=RUN_LIMIT_S):
                code = subprocess.run(command, check=False, timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL).returncode
            print(f"seed {seed}: exit code {code}", flush=True)
        one = figures(read_history(place / "history"))
        print(f"seed {seed}: {', '.join(f'{name} {count}' for name, count in sorted(one.items()))}", flush=True)
        total += one
    share = 100 * total["covered"] / total["suffered"] if total["suffered"] else None
    print(f"all: {', '.join(f'{name} {count}' for name, count in sorted(total.items()))}")
    print("no stall of 100 ms was recorded" if share is None else f"covered: {share:.1f} % of {total['suffered']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
