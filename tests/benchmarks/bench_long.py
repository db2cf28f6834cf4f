"""What a run of hours needs: memory of the harness while it runs, memory and time of judging it, bytes on disk.

    python -m tests.benchmarks.bench_long [--on sim] [--hours 1] [--out DIR] [--plot FILE.svg]
    python -m tests.benchmarks.bench_long --run DIR [--samples FILE] [--plot FILE.svg]

Starts a default run of raft on five nodes with 50 operations a second and notes every ten seconds how much memory the
process holds (``--samples`` of a stored run: lines of seconds and MB). Judging is measured in a process of its own, for
the first eighth of the history, the first quarter, the first half, and for all of it. On ``sim`` the five nodes with
their logs and disks are in the same process as the harness; on hosts they are not.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dethrone.harness.core.client_ops import client_ops
from dethrone.harness.core.history_files import read_history, segments
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.store import HISTORY, PLAN, read_json
from dethrone.harness.core.views import last_ns
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.judge import judge

LIMIT_MB = 700
SAMPLE_S = 10
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
RUN = ("raft", "--nodes", "5", "--rate", "50", "--faults", "partition,kill,pause", "--nemesis-interval", "30s")
FONT = 'font-size="12" font-family="sans-serif"'
WIDTH, HEIGHT, LEFT, TOP, FOOT = 640, 340, 60, 24, 48


class Judged(msgspec.Struct):
    """One length; ``took_s``: of one core."""

    hours: float
    events: int
    operations: int
    disk_bytes: int
    took_s: float
    peak_mb: float
    outcome: str


def run_it(on: str, hours: float, out: Path) -> list[tuple[float, float]]:
    """The hours since it began and the MB that the process held then."""
    words = [sys.executable, "-m", "dethrone.harness.cli", "run", *RUN, "--on", on]
    words += ["--time-limit", f"{hours * 3600:.0f}s", "--out", str(out)]
    samples = []
    began = time.monotonic()
    with subprocess.Popen(words) as process:
        while process.poll() is None:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            samples.append(((time.monotonic() - began) / 3600, pages * PAGE_MB))
            try:
                process.wait(SAMPLE_S)
            except subprocess.TimeoutExpired:
                continue
    return samples


def stored(samples: Path) -> list[tuple[float, float]]:
    """What another measurement left: lines of seconds and MB."""
    rows = [line.split()[:2] for line in samples.read_text().splitlines()]
    return [(float(seconds) / 3600, float(mb)) for seconds, mb in rows if seconds.replace(".", "").isdigit()]


def judged(run: Path, share: int) -> Judged:
    """One ``share``-th of the history, in a process of its own."""
    found = segments(run / HISTORY)
    most = max(1, len(found) // share)
    with tempfile.TemporaryDirectory(dir=run, prefix=".first-") as place:
        for segment in found[:most]:
            Path(place, segment.path.name).hardlink_to(segment.path)
        if share > 1:  # a run that was killed then
            Path(place, f"{found[most].first:012d}.jsonl").touch()
        words = [sys.executable, "-m", "tests.benchmarks.bench_long", "--judge", place, "--run", str(run)]
        return msgspec.json.decode(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout, type=Judged)


def judge_here(run: Path, place: Path) -> Judged:
    """What a process that does nothing else needs for it."""
    plan = read_json(run / PLAN, Plan)
    began = time.process_time()
    with no_garbage():
        history = read_history(place)
        outcome = judge(history, plan).outcome
    return Judged(
        took_s=time.process_time() - began,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        outcome=outcome,
        hours=last_ns(history) / 3.6e12,
        events=len(history),
        operations=len(client_ops(history)),
        disk_bytes=sum(path.stat().st_size for path in place.iterdir()),
    )


def plot(curves: dict[str, list[tuple[float, float]]]) -> str:
    """Memory against length as SVG; curves with a word on each."""
    hours = max(x for points in curves.values() for x, _ in points)
    top = 200 * (1 + int(max(LIMIT_MB, *(y for points in curves.values() for _, y in points)) // 200))

    def at(x: float, y: float) -> str:
        down = TOP + (1 - y / top) * (HEIGHT - TOP - FOOT)
        return f"{LEFT + (WIDTH - LEFT - 20) * x / hours:.1f} {down:.1f}"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for mb in range(0, top + 1, 200):
        out.append(f'<path d="M{at(0, mb)}L{at(hours, mb)}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{float(at(0, mb).split()[1]) + 4}" text-anchor="end">{mb} MB</text>')
    for number in range(5):
        x = at(hours * number / 4, 0).split()[0]
        out.append(f'<text x="{x}" y="{HEIGHT - 28}" text-anchor="middle">{hours * number / 4:.3g}</text>')
    out.append(f'<path d="M{at(0, LIMIT_MB)}L{at(hours, LIMIT_MB)}" stroke="#555" stroke-dasharray="5 4"/>')
    for number, (name, points) in enumerate(curves.items()):
        colour = ("#2166ac", "#b35806", "#1b7837")[number]
        out.append(
            f'<path d="M{"L".join(at(*one) for one in points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        out.append(f'<text x="{LEFT + 10}" y="{TOP + 16 + 16 * number}" fill="{colour}">{name}</text>')
    foot = f"hours of a run with 50 operations a second on five nodes; dashed: {LIMIT_MB} MB"
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{foot}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="sim")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("runs/bench-long"))
    parser.add_argument("--run", type=Path, help="a stored run, in place of a new one")
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        sys.stdout.buffer.write(msgspec.json.encode(judge_here(options.run, options.judge)))
        return
    if options.run:
        samples = stored(options.samples) if options.samples else []
    else:
        samples = run_it(options.on, options.hours, options.out)
    rows = []
    for share in (8, 4, 2, 1):
        row = judged(options.run or options.out, share)
        rows.append((row.hours, row.peak_mb))
        print(
            f"{row.hours:6.2f} h  {row.events:>10,} events  judged in {row.took_s:6.1f} s"
            f" ({row.events / row.took_s:>7,.0f} a second), at most {row.peak_mb:4.0f} MB "
            f" {row.disk_bytes / row.operations:4.0f} bytes an operation, {row.disk_bytes / row.events:.1f} an event"
            f"  {row.outcome}",
            flush=True,
        )
    if samples:
        print(f"the harness held at most {max(mb for _, mb in samples):.0f} MB while it ran")
    if options.plot:
        curves = {"judging, at most": rows, "the harness, while it runs": samples}
        options.plot.write_text(plot({name: points for name, points in curves.items() if points}))


if __name__ == "__main__":
    main()
