"""How fast linearizability is judged, cell by cell, beside Porcupine on the same files.

    python -m tests.benchmarks.bench_linear [--most 100000] [--seconds 15] [--porcupine PATH] [--answers FILE]
                                            [--markdown FILE] [--plot FILE.svg] [kind …]

Cells: registers with unique values and cas over five values; n operations, c clients, unknown outcomes, a violation at
99 %. Figures are CPU seconds, so that a busy machine tells the same:

* check: the best of three judgements (one, if it takes more than a second) in a process that has read the file and,
  where numba is installed, loaded the kernel; of Porcupine: its one check;
* whole and peak: ``dethrone check FILE`` from its start to its end; of Porcupine: its program, on the same file.

Both have 8 GB of address space and the given seconds a check. ``PATH`` is what ``tests/benchmarks/porcupine`` builds;
its answers are kept in ``--answers`` and not asked for again. ``--plot`` draws check time against n instead. Exit code
1 on any wrong or contradicting verdict; an ``unknown`` is printed as one, and is a loss.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CELLS = list(itertools.product((1_000, 10_000, 100_000), (5, 10, 30), (0.0, 0.01), (False, True)))
MEMORY = 8 << 30
MODEL = {"register": "register", "cas": "cas-register", "queue": "fifo-queue"}
PLOTTED = {"register": (1_000, 100_000), "queue": (1_000, 100_000), "cas": (1_000, 100_000)}
REPEATS = 3


def write(path, kind, cell):
    """One history in the JSON-lines format that both read."""
    from tests.benchmarks.linear_histories import events

    n, clients, unknown, violation = cell
    with path.open("w") as file:
        for event in events(kind, n, clients=clients, unknown=unknown, violation=violation, seed=1):
            file.write(json.dumps(event) + "\n")


def one(path, kind, seconds):
    """Judge one file, here and now; the JSON line that the parent reads."""
    bounded()
    from dethrone.checkers.linear_models import LinearModel, _row
    from dethrone.checkers.linearizability import fast
    from dethrone.checkers.linearizability.answer import Budget
    from dethrone.checkers.linearizability.decide import decide
    from dethrone.checkers.models import model
    from dethrone.checkers.models.ops import encode
    from dethrone.harness.core.foreign.reading import read_file

    gc.disable()
    judge = LinearModel(MODEL[kind])
    operations = read_file(Path(path), "jsonl", judge.functions())
    ops = encode(map(_row, operations.rows))
    if fast.there():
        fast.load()
    took = []
    while len(took) < REPEATS and sum(took) < 1:
        began = time.process_time()
        budget = Budget(time_ns=int(seconds * 1e9), memory_bytes=MEMORY // 2)
        answer = decide(
            ops, model(MODEL[kind]), budget=budget, elapsed=lambda began=began: int((time.process_time() - began) * 1e9)
        )
        took.append(time.process_time() - began)
    undecided = answer.undecided[0] if answer.undecided else None
    print(
        json.dumps(
            {
                "outcome": answer.outcome,
                "check_s": min(took),
                "reason": undecided.reason if undecided else "",
                "came": undecided.returns_done if undecided else 0,
            }
        )
    )


def bounded():
    """This process may have no more memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def spent(arguments, timeout):
    """(stdout, CPU seconds, peak MB) of one process. Byte code is kept, as it is where Dethrone is installed."""
    kept = Path(tempfile.gettempdir()) / f"dethrone-bench-{os.getuid()}"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(kept)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        preexec_fn=bounded,  # noqa: PLW1509 - no threads
    ) as process:
        killer = threading.Timer(timeout, process.kill)
        killer.start()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        killer.cancel()
    return out, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def ours(path, kind, seconds):
    """Our answer: check time from one process, whole time and peak from the command."""
    program = [sys.executable, __file__, kind, "--one", path, "--seconds", str(seconds)]
    found = json.loads(spent(program, seconds * 8 + 60)[0])
    command = [Path(sys.executable).parent / "dethrone", "check", path, "--format", "jsonl", "--model", MODEL[kind]]
    command += ["--limit", f"{seconds:g}s", "--memory", "4000", "--json"]
    out, found["whole_s"], found["peak_mb"] = spent(command, seconds * 8 + 60)
    found["command"] = {0: "pass", 1: "fail", 2: "unknown"}[json.loads(out)["exit_code"]]
    return found


def porcupine(binary, path, seconds):
    """The same by Porcupine. Out of memory, it dies: unknown."""
    out, whole, peak = spent([binary, path, str(seconds)], seconds * 8 + 60)
    try:
        return {**json.loads(out), "whole_s": whole, "peak_mb": peak}
    except ValueError:
        return {"outcome": "unknown", "check_s": None, "whole_s": whole, "peak_mb": peak, "died": True}


def remembered(path):
    """Porcupine's answers of earlier calls, by cell."""
    if path is None or not path.exists():
        return {}
    return {tuple(row["cell"]): row for row in map(json.loads, path.read_text().splitlines())}


def cells(options):
    """Both answers for every cell; each is printed as soon as it is there."""
    known = remembered(options.answers)
    rows = []
    for kind in options.kinds:
        print(f"{kind}: n, clients, unknown, violation: verdict, check, whole process, peak; the same of Porcupine")
        for cell in CELLS:
            if cell[0] > options.most:
                continue
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "history.jsonl"
                write(path, kind, cell)
                mine = ours(path, kind, options.seconds)
                theirs = known.get((kind, *cell))
                if theirs is None and options.porcupine:
                    theirs = {**porcupine(options.porcupine, path, options.seconds), "cell": (kind, *cell)}
                    if options.answers:
                        with options.answers.open("a") as file:
                            file.write(json.dumps(theirs) + "\n")
            rows.append((kind, cell, mine, theirs))
            print("  " + " ".join(f"{word:>10}" for word in told(cell, mine, theirs)), flush=True)
    return rows


def told(cell, mine, theirs):
    """The words of one line."""
    n, clients, unknown, violation = cell
    out = [f"{n:,}", str(clients), f"{unknown:.0%}", "bad" if violation else "good"]
    for found in (mine, theirs):
        if found is None:
            continue
        check = "–" if found.get("check_s") is None else f"{found['check_s'] * 1e3:.1f} ms"
        whole, peak = found.get("whole_s"), found.get("peak_mb")
        verdict = found["outcome"] + (" (dead)" if found.get("died") else "")
        out += [verdict, check, "–" if whole is None else f"{whole:.2f} s", "–" if peak is None else f"{peak:.0f} MB"]
    return out


def table(rows):
    """All cells as Markdown."""
    lines = [
        "| kind | n | clients | unknown | history | verdict | check | whole | peak | Porcupine | check | whole | MB |",
        "|---|--:|--:|--:|---|---|--:|--:|--:|---|--:|--:|--:|",
    ]
    lines += [f"| {kind} | {' | '.join(told(cell, mine, theirs))} |" for kind, cell, mine, theirs in rows]
    return "\n".join(lines)


def wrong(rows):
    """Cells of a wrong verdict, or of two that contradict each other."""
    out = []
    for kind, cell, mine, theirs in rows:
        said = {mine["outcome"], mine["command"], "unknown" if theirs is None else theirs["outcome"]} - {"unknown"}
        if said - {"fail" if cell[3] else "pass"}:
            out.append(f"{kind} {cell}: {mine['outcome']}, {mine['command']}, {theirs and theirs['outcome']}")
    return out


def summary(rows):
    """What all cells say together, a line each."""
    decided = sum(mine["outcome"] != "unknown" for _, _, mine, _ in rows)
    out = [f"a verdict on {decided} of {len(rows)} cells"]
    both = [row for row in rows if row[3] is not None]
    if not both:
        return out
    answered = [row for row in both if row[3]["outcome"] != "unknown"]
    out[0] += f"; Porcupine on {len(answered)} of {len(both)}"
    for kind in dict.fromkeys(row[0] for row in answered):
        ratios = [theirs["check_s"] / mine["check_s"] for k, _, mine, theirs in answered if k == kind]
        large = [
            theirs["check_s"] / mine["check_s"] for k, cell, mine, theirs in answered if k == kind and cell[0] >= 10_000
        ]
        out.append(
            f"{kind}: check time {statistics.median(ratios):.0f} times faster (median of the {len(ratios)} cells that"
            f" Porcupine answers; {min(ratios):.1f} to {max(ratios):.0f};"
            f" of 1e4 operations and more {statistics.median(large or [0]):.0f})"
        )
    peaks = [mine["peak_mb"] / row["peak_mb"] for _, _, mine, row in both if row.get("peak_mb")]
    out.append(
        f"peak memory: {statistics.median(peaks):.3f} of Porcupine's (median; {min(peaks):.3f} to {max(peaks):.1f})"
    )
    timed = [(cell, mine["whole_s"] - row["whole_s"]) for _, cell, mine, row in both if row.get("whole_s")]
    slower = [late for cell, late in timed if cell[0] >= 100_000 and late > 0]
    out.append(
        f"whole process: slower by {max(late for _, late in timed):.2f} s at most;"
        f" slower on {len(slower)} of {sum(cell[0] >= 100_000 for cell, _ in timed)} cells of 1e5 operations"
    )
    return out


def plot(path, seconds):
    """Check time against n on logarithmic axes, with a line of slope one."""
    points = {}
    for kind, (least, most) in PLOTTED.items():
        n = least
        while n <= most:
            with tempfile.TemporaryDirectory() as place:
                file = Path(place) / "history.jsonl"
                write(file, kind, (n, 10, 0.0, False))
                program = [sys.executable, __file__, kind, "--one", file, "--seconds", str(seconds)]
                took = json.loads(spent(program, seconds * 8 + 60)[0])["check_s"]
            points.setdefault(kind, []).append((n, took))
            print(f"{kind:10} {n:9,} {took * 1e3:10.2f} ms {took / n * 1e9:8.0f} ns an operation", flush=True)
            n = n * 3 if str(n).startswith("1") else n // 3 * 10
    path.write_text(drawing(points))


def drawing(points):
    """The SVG."""
    from math import log10

    colours = {"register": "#1f77b4", "queue": "#2ca02c", "cas": "#d62728"}
    words = {
        "register": "register, unique values (zones)",
        "queue": "fifo-queue, unique values",
        "cas": "cas, 5 values",
    }

    def x(n):
        return 70 + (log10(n) - 3) / 2.5 * 460

    def y(took):
        return 330 - (log10(took) + 4) / 4.5 * 300

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 390" font-family="sans-serif" font-size="12">',
        '<rect width="640" height="390" fill="#fff"/>',
    ]
    for power in range(3, 6):
        at = x(10**power)
        out.append(
            f'<path d="M{at:.0f} 30V330" stroke="#ddd"/>'
            f'<text x="{at:.0f}" y="348" text-anchor="middle">1e{power}</text>'
        )
    for power in range(-4, 1):
        at = y(10**power)
        label = {-4: "0.1 ms", -3: "1 ms", -2: "10 ms", -1: "0.1 s", 0: "1 s"}[power]
        out.append(
            f'<path d="M70 {at:.0f}H530" stroke="#ddd"/><text x="64" y="{at + 4:.0f}" text-anchor="end">{label}</text>'
        )
    out.append(
        f'<path d="M{x(1e3):.0f} {y(2e-4):.0f}L{x(3e5):.0f} {y(6e-2):.0f}" stroke="#999" stroke-dasharray="4 4"/>'
    )
    out.append(f'<text x="{x(3e5) + 4:.0f}" y="{y(6e-2) + 4:.0f}" fill="#777">n</text>')
    for place, (kind, row) in enumerate(points.items()):
        line = " ".join(f"{x(n):.1f},{y(took):.1f}" for n, took in row)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colours[kind]}" stroke-width="2"/>')
        out += [f'<circle cx="{x(n):.1f}" cy="{y(took):.1f}" r="3" fill="{colours[kind]}"/>' for n, took in row]
        out.append(f'<text x="84" y="{48 + 17 * place}" fill="{colours[kind]}">{words[kind]}</text>')
    out.append('<text x="300" y="372" text-anchor="middle">operations (10 clients, check time, CPU)</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["register", "cas"])
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--porcupine")
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        one(options.one, options.kinds[0], options.seconds)
        return 0
    if options.plot:
        plot(options.plot, options.seconds)
        return 0
    rows = cells(options)
    lines = summary(rows)
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text(table(rows) + "\n\n" + "\n".join(f"* {line}" for line in lines) + "\n")
    bad = wrong(rows)
    print("\n".join(f"WRONG {line}" for line in bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
