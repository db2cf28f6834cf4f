"""Default runs on a busy and on a quiet machine: none fails, and most come to a conclusion.

Item ``busy``: sixty default runs over five systems next to a load of six, half of it burning
CPU and half of it syncing: no run fails, and nine in ten are conclusive. Item ``quiet``: the same runs on an idle
machine: none fails, and all are conclusive. A run is conclusive when it passes. Each run is kept below
``runs/accept/busy`` and not done again. Needs Docker.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.acceptance.kept import of, run
from tests.acceptance.simulated import OUT, Item, Until
from tests.load_generator import Load

KEPT = OUT / "busy"
SYSTEMS = ("raft", "kraft", "dledger", "etcd-3.7", "zookeeper")
SEEDS = 12
"""Runs a system: sixty in all."""
CONCLUSIVE_PERCENT_MIN = 90
LOAD_LIMIT_S = 900.0
"""The longest that one run may keep the load; a default run takes some two minutes."""


def not_passed(system: str, seed: int, result: dict[str, Any]) -> str:
    """A run that did not pass, in one line."""
    names = of(result, "fail") or of(result, "unknown")
    return f"{system} seed {seed}: {result['verdict']} ({', '.join(names)}) {'; '.join(result['trouble'])}".strip()


def _item(*, busy: bool, percent_min: int) -> Item:
    def item(until: Until) -> tuple[bool, str]:
        counts: Counter[str] = Counter()
        odd: list[str] = []
        for seed in range(SEEDS):
            for system in SYSTEMS:
                place = KEPT / ("busy" if busy else "quiet") / f"{system}-{seed}"
                result = _loaded(place, system, seed, until) if busy else _run(place, system, seed, until)
                verdict = "trouble" if result["trouble"] else str(result["verdict"])
                counts[verdict] += 1
                if verdict != "pass":
                    odd.append(not_passed(system, seed, result))
        total = counts.total()
        held = counts["fail"] == 0 and 100 * counts["pass"] >= percent_min * total
        figures = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        return held, f"{total} runs: {figures}{'; ' + '; '.join(odd) if odd else ''}"

    item.__doc__ = (
        f"{SEEDS * len(SYSTEMS)} default runs {'next to a load of six' if busy else 'on a quiet machine'}: 0 fail,"
        f" {percent_min} % pass."
    )
    return item


def _loaded(place: Any, system: str, seed: int, until: Until) -> dict[str, Any]:
    with Load(cpu=3, fsync=3, limit_s=LOAD_LIMIT_S):
        return _run(place, system, seed, until)


def _run(place: Any, system: str, seed: int, until: Until) -> dict[str, Any]:
    return run(place, [system, "--seed", str(seed)], until=until)


def items() -> dict[str, Item]:
    """Both, by name."""
    return {
        "busy": _item(busy=True, percent_min=CONCLUSIVE_PERCENT_MIN),
        "quiet": _item(busy=False, percent_min=100),
    }
