"""The report of a run of hours: how large its page and its side files are, what drawing it takes, how fast it opens.

    python -m tests.benchmarks.bench_reports [--run DIR] [--times 48] [--out DIR]

A stored run (without one, ten simulated minutes of raft) is repeated as often as asked, moved in time, as one long
history that is never held in memory: 48 times ten minutes are eight hours. Where there is ``node``, the page's script
runs there as it does in a browser, but on a canvas that draws nothing: what that takes is data handling, not painting.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.events import Begin, End, FaultEvent, Invoke, NodeProcess, Observed, Return, Traced
from dethrone.harness.core.history import Reading
from dethrone.harness.core.history_files import history_at, stream
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.store import PLAN, read_json
from dethrone.harness.report import report_files
from dethrone.harness.report.rundir import RunFiles, read_judgement

RUN = (
    "run",
    "raft",
    "--on",
    "sim",
    "--time-limit",
    "600s",
    "--rate",
    "50",
    "--faults",
    "partition,kill,pause",
    "--quiet",
)
PAGE_JS = Path(__file__).parents[1] / "report" / "page.js"


class Repeated:
    """A stored history, several times, one after another; read from disk each time."""

    damage = None

    def __init__(self, path, times):
        self.path, self.times = path, times
        self.begin = next(iter(stream(path, Reading())))

    def __iter__(self):
        seq = begun = ops = faults = terms = incarnations = 0
        for turn in range(self.times):
            last = [0, 0, 0, 0]
            for event in stream(self.path, Reading()):
                kind, t = type(event), event.t + begun
                if (kind is Begin and turn) or (kind is End and turn < self.times - 1):
                    end = t
                    continue
                fields = {"seq": seq, "t": t}
                if (span := getattr(event, "span", None)) is not None:
                    fields["span"] = Span(span.lo + begun, span.hi + begun)
                if kind in (Invoke, Return):
                    last[0] = max(last[0], event.op + 1)
                    fields["op"] = event.op + ops
                elif kind is FaultEvent:
                    last[1] = max(last[1], event.fault + 1)
                    fields["fault"] = event.fault + faults
                elif kind in (Observed, Traced, NodeProcess):
                    last[3] = max(last[3], event.incarnation)
                    fields["incarnation"] = event.incarnation + incarnations
                    if kind is not NodeProcess:
                        last[2] = max(last[2], event.term)
                        fields["term"] = event.term + terms
                    if kind is Traced and "term" in event.data:
                        fields["data"] = {**event.data, "term": event.data["term"] + terms}
                seq += 1
                end = t
                yield msgspec.structs.replace(event, **fields)
            begun = end + SECOND
            ops, faults, terms, incarnations = (
                was + more for was, more in zip((ops, faults, terms, incarnations), last, strict=True)
            )


def measured(run, times, out):
    """Draw the report of the long run into ``out``; its figures."""
    history = Repeated(history_at(run), times)
    files = RunFiles(
        directory=None, history=history, plan=read_json(run / PLAN, Plan), judgement=read_judgement(run), run={}
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = time.perf_counter(), time.process_time()
    page = report_files.write_html(files, out / "report.html")
    sizes = [file.stat().st_size for file in (out / "report-details").glob("*.js")]
    return {
        "page_bytes": page.stat().st_size,
        "side_files": len(sizes),
        "side_bytes": sum(sizes),
        "largest_side_file": max(sizes, default=0),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "rss_before_mib": before // 1024,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def opened(page):
    """What opening the page and looking around in it takes; {} without node."""
    node = shutil.which("node")
    if node is None:
        return {}
    done = subprocess.run([node, PAGE_JS, page, "look"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--times", type=int, default=48)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out, run = asked.out or Path(scratch), asked.run or Path(scratch, "run")
        if asked.run is None:
            subprocess.run([sys.executable, "-m", "dethrone.harness.cli", *RUN, "--out", run], check=False)
        for name, figure in (measured(run, asked.times, out) | opened(out / "report.html")).items():
            print(f"{name:24} {figure:,}")


if __name__ == "__main__":
    main()
