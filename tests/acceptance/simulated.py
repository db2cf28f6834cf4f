"""Items of the acceptance that run in simulation, in slices: stopped at any time, they go on where they were.

Each goes through the command line, as a user would, into a directory of its own; rows that stand there are not done
again. Memory stays bounded because a slice ends its processes. Promises: an item that was stopped is ``Unfinished``,
never held and never not held. Leaves out what needs Docker (``tests/accept.py``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dethrone.harness.engine.exam.exam_tasks import examinable
from tests.acceptance import shrinks

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "runs" / "accept"
DETHRONE = Path(sys.executable).with_name("dethrone")

BUDGET_S = 60
CLEAN = 10_000
"""Runs a protocol on builds of which nothing may be said: half on the one without bugs, half on the harmless ones."""

MATRIX_SEEDS = 200
SOONER = 5
"""How much sooner triggered schedules must find bugs than the same faults at uniform times."""

SITTINGS = "5"
TIMES_REAL_TIME = 2000
JOBS = str(os.cpu_count() or 1)

Until = float | None
"""When this slice ends, on the monotonic clock; None: never."""

Item = Callable[[Until], tuple[bool, str]]


class Unfinished(Exception):  # noqa: N818 - it is no error: the slice is over
    """The item goes on another time; the text says how far it is."""


def command(
    words: Sequence[str | Path], *, until: Until, program: Sequence[str | Path] = (DETHRONE,)
) -> dict[str, Any]:
    """The JSON object of one command, interrupted as by Ctrl-C when the slice is over."""
    left = None if until is None else until - time.monotonic()
    if left is not None and left <= 0:
        raise Unfinished("not begun")
    process = subprocess.Popen(
        [*program, *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=sys.stderr, start_new_session=True
    )
    try:
        stdout, _ = process.communicate(timeout=left)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=120)
        if isinstance(stop, KeyboardInterrupt):
            raise
    try:
        return json.loads(stdout)
    except ValueError:
        return {"trouble": [f"exit {process.returncode}"], "interrupted": True}


def exam_words(system: str) -> list[str | Path]:
    """The exam of one protocol; its rows are shared by the items that need them."""
    out = OUT / "exam" / system
    return ["exam", "--system", system, "--budget", f"{BUDGET_S}s", "--jobs", JOBS, "--out", out]


def exam(system: str) -> Item:
    """Every planted bug is found by the checker named for it."""

    def item(until: Until) -> tuple[bool, str]:
        found = command(exam_words(system), until=until)
        if found.get("interrupted"):
            raise Unfinished(f"{found.get('found', '?')} found so far")
        missed = [bug["bug"] for bug in found["bugs"] if not bug["found"]]
        held = found["found"] == found["total"] and not found["alarms"] and not found["trouble"]
        return held, (
            f"{found['found']}/{found['total']} found, median {found['median_find_s']} s, 95 % within"
            f" {found['p95_find_s']} s, {len(found['alarms'])} alarms"
            f"{'; missed: ' + ', '.join(missed) if missed else ''}{'; trouble: ' if found['trouble'] else ''}"
            f"{'; '.join(found['trouble'])}"
        )

    item.__doc__ = f"{system}: {exam.__doc__}"
    return item


def clean(system: str) -> Item:
    """No checker fails on the build without bugs or on a harmless one."""

    def item(until: Until) -> tuple[bool, str]:
        found = command([*exam_words(system), "--clean", str(CLEAN // 2)], until=until)
        runs = sum(found.get("clean_runs", {}).values())
        if found.get("interrupted"):
            raise Unfinished(f"{runs} of {CLEAN} runs, {len(found.get('alarms', ()))} alarms so far")
        alarms = [f"{one['build']} seed {one['seed']} {one['checker']}" for one in found["alarms"]]
        held = runs >= CLEAN and not alarms and not found["trouble"]
        unknown = found["clean_unknown"]
        return (
            held,
            f"{runs} runs, {len(alarms)} alarms, {unknown} unknown{'; ' + '; '.join(alarms[:5]) if alarms else ''}",
        )

    item.__doc__ = f"{system}: {clean.__doc__}"
    return item


def sooner(until: Until) -> tuple[bool, str]:
    """State-triggered schedules find planted bugs at least five times sooner than the same faults at uniform times."""
    words = ("--other", "random-twin", "--sittings", SITTINGS, "--budget", f"{BUDGET_S}s", "--jobs", JOBS)
    program = (sys.executable, "-m", "tests.twins")
    found = command([*words, "--out", OUT / "sooner-simulated"], until=until, program=program)
    if found.get("interrupted"):
        raise Unfinished(f"{found.get('total', '?')} bugs begun")
    first, second = found["found"]
    said = [_sooner_words("simulated", found["simulated"]), _sooner_words("core", found)]
    factor = found["simulated"]["median_factor"]
    return factor is not None and factor >= SOONER, (
        f"{found['total']} bugs, {SITTINGS} sittings each; {'; '.join(said)}; found {first} against {second}"
    )


def _sooner_words(measure: str, figures: dict[str, Any]) -> str:
    one, other = ("above what was tried" if s is None else f"{s} s" for s in figures["median_find_s"])
    return (
        f"{measure} time: median {one} against {other}, median factor {figures['median_factor']},"
        f" {figures[f'at_least_{SOONER}']} of {figures['factors']} at least {SOONER}"
    )


def matrix(until: Until) -> tuple[bool, str]:
    """The verdict matrix: what holds holds, what is broken by design is exposed by its sequence."""
    words = ("--seeds", str(MATRIX_SEEDS), "--jobs", JOBS, "--out", OUT / "matrix")
    found = command(words, until=until, program=(sys.executable, "-m", "tests.matrix"))
    if found.get("interrupted"):
        raise Unfinished(f"{found.get('runs', 0)} runs so far")
    bad = [f"{cell['column']} {cell['invariant']}" for cell in found["matrix"] if not cell["ok"]]
    proofs = [proof for cell in found["matrix"] for proof in cell["proofs"]]
    held = sum(proof["ok"] for proof in proofs if proof["says"] == "holds")
    broken = sum(proof["ok"] for proof in proofs if proof["says"] == "broken")
    return not bad and not found["trouble"], (
        f"{held} things held, {broken} shown broken, {found['runs']} runs, {MATRIX_SEEDS} drawn schedules each"
        f"{'; NOT: ' + ', '.join(bad) if bad else ''}"
    )


def shrink(until: Until) -> tuple[bool, str]:
    """Failing schedules of 20 steps and more shrink to five (median), a certificate of two leaders to twelve events."""

    def said(row: shrinks.Shrunken | None, name: str) -> None:
        print(f"  shrink: {name}: {'no case' if row is None else f'{row.steps} -> {row.left}'}", file=sys.stderr)
        if until is not None and time.monotonic() > until:
            raise Unfinished(f"{name} was the last")

    held, lines = shrinks.told(shrinks.rows_of(OUT / "shrink", on_row=said))
    print("\n".join(f"  {line}" for line in lines[:-1]))
    return held, lines[-1]


def oracles(until: Until) -> tuple[bool, str]:
    """Election times agree with the formula and with the published figures."""
    done = _bench("bench_elections", until)
    figures = re.findall(
        r"^(\d+ live servers|\S+):? .*?measured +([\d.]+) ms(?: \((\S+) %\))?", done.stdout, re.MULTILINE
    )
    return done.returncode == 0, "; ".join(
        f"{name}: {ms} ms{f' ({off} %)' if off else ''}" for name, ms, off in figures
    )


def speed(until: Until) -> tuple[bool, str]:
    """Simulated Raft, five nodes, a fault every 2 s: at least 2,000 times real time on one core."""
    done = _bench("bench_sim", until)
    found = re.findall(r"^(raft\S*) +(.+?) +(\d+) x real time", done.stdout, re.MULTILINE)
    wanted = [int(times) for profile, load, times in found if profile == "raft" and load == "a fault every 2 s"]
    held = bool(wanted) and min(wanted) >= TIMES_REAL_TIME
    return held, "; ".join(f"{profile}, {load}: {times} x" for profile, load, times in found)


def _bench(name: str, until: Until) -> subprocess.CompletedProcess[str]:
    if until is not None and time.monotonic() > until:
        raise Unfinished("not begun")
    module = f"tests.benchmarks.{name}"
    return subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, check=False)


def items() -> dict[str, Item]:
    """All of them, by name, the quick ones first."""
    out: dict[str, Item] = {"oracles": oracles, "speed": speed, "shrink": shrink, "matrix": matrix}
    out |= {f"exam-{system}": exam(system) for system in examinable()}
    out["sooner"] = sooner
    out |= {f"clean-{system}": clean(system) for system in examinable()}
    return out
