"""How fast linearizability is judged: check time and peak memory for every cell, each in a process of its own.

    python tests/benchmarks/bench_linear.py [--most 100000] [--seconds 15] [--porcupine PATH] [kind …]

Cells: registers with unique values and cas over five values; n operations, c clients, unknown outcomes, a violation at
99 %. Prints every cell; an ``unknown`` is printed as one. CPU seconds, so that a busy machine tells the same.
``PATH`` is what ``tests/benchmarks/porcupine`` builds; it is given the same histories.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CELLS = list(itertools.product((1_000, 10_000, 100_000), (5, 10, 30), (0.0, 0.01), (False, True)))
MEMORY = 8 << 30
MODEL = {"register": "register", "cas": "cas-register", "queue": "fifo-queue"}


def write(path, kind, cell):
    """One history in the JSON-lines format that both read."""
    from linear_histories import events

    n, clients, unknown, violation = cell
    with path.open("w") as file:
        for event in events(kind, n, clients=clients, unknown=unknown, violation=violation, seed=1):
            file.write(json.dumps(event) + "\n")


def one(path, kind, seconds):
    """Judge one file, here and now; the JSON line that the parent reads."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began = time.process_time()
    import msgspec

    from checkers.linearizability.answer import Budget
    from checkers.linearizability.decide import decide
    from checkers.models import model
    from checkers.models.ops import Row, encode

    imported = time.process_time()
    decoder = msgspec.json.Decoder(list[Row])
    read = decoder.decode(b"[" + b",".join(Path(path).read_bytes().splitlines()) + b"]")
    parsed = time.process_time()
    ops = encode(read)
    coded = time.process_time()
    budget = Budget(time_ns=int(seconds * 1e9), memory_bytes=MEMORY // 2)
    answer = decide(ops, model(MODEL[kind]), budget=budget, elapsed=lambda: int((time.process_time() - coded) * 1e9))
    done = time.process_time()
    print(
        json.dumps(
            {
                "outcome": answer.outcome,
                "check_s": done - coded,
                "whole_s": done,
                "import_s": imported - began,
                "parse_s": parsed - imported,
                "encode_s": coded - parsed,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "reason": answer.undecided[0].reason if answer.undecided else "",
                "came": answer.undecided[0].returns_done if answer.undecided else 0,
            }
        )
    )


def porcupine(binary, path, seconds):
    """The same by Porcupine; None if it is not there."""
    if binary is None:
        return None
    try:
        done = subprocess.run([binary, path, str(seconds)], capture_output=True, check=False, timeout=seconds * 8 + 60)
        return json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return {"outcome": "unknown", "check_s": float("nan"), "peak_mb": float("nan")}


def told(found):
    """A few figures of one answer."""
    if found is None:
        return ""
    return f"{found['outcome']:8} {found['check_s'] * 1e3:10.1f} ms {found['peak_mb']:7.0f} MB"


def stopped(found):
    """Why it gave up, if it did."""
    return f" {found['reason']} after {found['came']} returns" if found["reason"] else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["register", "cas"])
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--porcupine")
    parser.add_argument("--one")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parents[1])]
    if options.one:
        one(options.one, options.kinds[0], options.seconds)
        return 0
    wrong = 0
    for kind in options.kinds:
        print(f"{kind}: n, clients, unknown, violation: outcome, check, peak memory (whole process)")
        for cell in CELLS:
            if cell[0] > options.most:
                continue
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "history.jsonl"
                write(path, kind, cell)
                arguments = [sys.executable, __file__, kind, "--one", path, "--seconds", str(options.seconds)]
                done = subprocess.run(arguments, capture_output=True, check=False)
                try:
                    ours = json.loads(done.stdout)
                except ValueError:
                    tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
                    print(f"  {cell}: died: {tail}")
                    wrong += 1
                    continue
                theirs = porcupine(options.porcupine, path, options.seconds)
            expected = "fail" if cell[3] else "pass"
            wrong += ours["outcome"] not in (expected, "unknown")
            if theirs is not None and "unknown" not in (ours["outcome"], theirs["outcome"]):
                wrong += theirs["outcome"] != ours["outcome"]
            n, clients, unknown, violation = cell
            print(
                f"  {n:7,} {clients:3} {unknown:4.0%} {'bad ' if violation else 'good'} {told(ours)}"
                f" (whole {ours['whole_s']:.2f} s, encode {ours['encode_s'] * 1e3:.0f} ms)"
                f"{stopped(ours)}   {told(theirs)}",
                flush=True,
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
