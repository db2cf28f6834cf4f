"""Simulated runs of raft, each judged twice: in memory, and from columns on disk, in parts of any size.

    python -m tests.core.differential --seeds 2000 --first 0

Guarantees: a seed is one run, with or without a planted bug, drawn from the seed alone. Out of scope: which of the two
is right where they differ.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from dethrone.harness.core import parquet, registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.history import History
from dethrone.harness.core.long_history import LongHistory, Part
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.campaign.worker_processes import spread
from dethrone.harness.engine.run.judge import judge, load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse

SYSTEM = "raft"
WORKLOADS = ("log", "log", "register", "set", "list-append", "lease", "lock", "membership")
"""``log`` twice: it is what raft is asked by default."""
FAULTS = ("partition", "kill", "pause", "restart", "clock", "link", "powerloss", "disk", "wipe")
CHUNK = 10
"""Seeds of one task of a worker."""


class Compared(NamedTuple):
    """One seed. ``differs``: the checkers whose verdicts are not the same, or ``headline``."""

    seed: int
    variant: str | None
    workload: str
    events: int
    outcome: str
    findings: int
    differs: tuple[str, ...]
    whole: bool
    """Whether it was read into memory after all."""


def options_of(seed: int) -> RunOptions:
    """The run that this seed draws: 12 to 20 simulated seconds."""
    rng = Rng(seed).stream("options")
    planted = sorted(registry.load(registry.SYSTEMS, SYSTEM).planted().items())
    variant, settings = None, {}
    if rng.chance(1, 2):
        variant, bug = rng.choice(planted)
        settings = dict(bug.settings)
    workload = rng.choice(WORKLOADS)
    if workload == "membership":
        settings.setdefault("membership", "single_server")
    return RunOptions(
        system=SYSTEM,
        backend="sim",
        seed=seed,
        nodes=rng.choice((3, 5)),
        workload=workload,
        variant=variant,
        settings=settings,
        faults=tuple(rng.sample(FAULTS, rng.between(1, 4))),
        strategy=rng.choice(("random", "triggered")),
        time_limit_ns=rng.between(12, 20) * SECOND,
        nemesis_interval_ns=rng.choice((1, 2)) * SECOND,
        rate_per_s=rng.choice((None, 60)),
        conclusive=False,
        stop_at_first_failure=False,
    )


def stored(events: Sequence[Any], place: Path, rng: Rng) -> list[Part]:
    """These events as files of columns, cut anywhere; the last part may be lines that are not sealed yet."""
    cuts = sorted({rng.between(1, len(events) - 1) for _ in range(rng.below(4))})
    borders = [0, *cuts, len(events)]
    parts = []
    for first, end in itertools.pairwise(borders):
        some = events[first:end]
        if end == len(events) and rng.chance(1, 3):
            parts.append(Part(first, len(some), some, ""))
            continue
        path = place / f"{first:012}.parquet"
        parquet.write_events(some, path)
        block = parquet.block_of(path, first)
        assert block is not None
        parts.append(Part(first, len(some), path, "", block.groups))
    return parts


def compare(seed: int) -> Compared:
    """Run one seed and judge it twice."""
    options = options_of(seed)
    rng = Rng(seed).stream("parts")
    done = rehearse(options, {}, seed=seed)
    events = done.history.events
    checkers = load_checkers()
    read: list[bool] = []

    def slowly() -> History:
        read.append(True)
        return History(list(events))

    with (
        tempfile.TemporaryDirectory(prefix="dethrone-differential-") as place,
        mock.patch.object(parquet, "BATCH", rng.choice((256, 1_000, 4_096, 16_384))),
    ):
        long = LongHistory(stored(events, Path(place), rng), slowly)
        found = judge(long, done.plan, checkers)
    expected = judge(History(list(events)), done.plan, checkers)
    differs = [one.checker for one, other in zip(found.verdicts, expected.verdicts, strict=True) if one != other]
    if found != expected and not differs:
        differs.append("headline")
    return Compared(
        seed=seed,
        variant=options.variant,
        workload=str(options.workload),
        events=len(events),
        outcome=expected.outcome,
        findings=sum(map(_findings, expected.verdicts)),
        differs=tuple(differs),
        whole=bool(read),
    )


def _findings(verdict: Verdict) -> int:
    return len(verdict.findings)


def _chunk(seeds: range) -> list[Compared]:
    return [compare(seed) for seed in seeds]


def told(rows: Sequence[Compared]) -> str:
    """The sum of these in one line."""
    outcomes = Counter(row.outcome for row in rows)
    return (
        f"{len(rows)} seeds, {sum(row.events for row in rows):,} events, {sum(row.findings for row in rows)} findings,"
        f" {sum(row.variant is not None for row in rows)} with a planted bug, {dict(sorted(outcomes.items()))},"
        f" {sum(row.whole for row in rows)} read into memory: {sum(bool(row.differs) for row in rows)} differ"
    )


def main() -> int:
    """Many seeds: each that differs, as it comes, and the sum. 1: one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    end = asked.first + asked.seeds
    rows: list[Compared] = []

    def keep(some: list[Compared]) -> None:
        rows.extend(some)
        for row in some:
            if row.differs:
                print(f"seed {row.seed} ({row.workload}, {row.variant or 'no bug'}): {', '.join(row.differs)}")
        print(told(rows), flush=True)

    spread(
        _chunk, [range(at, min(at + CHUNK, end)) for at in range(asked.first, end, CHUNK)], jobs=asked.jobs, keep=keep
    )
    return int(any(row.differs for row in rows))


if __name__ == "__main__":
    sys.exit(main())
