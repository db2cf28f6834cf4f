"""What no system of the gallery promises, and what surprises users all the same: how much, how long, how often.

Measured by the campaigns ``gallery-NAME-shapes``: every shape of a partition of three nodes, around each of its
victims (``--strategy shapes``). Of the cuts under which a majority could talk to each other all the time: whether
someone led in the last third, and the longest time without an acknowledged write. Of all cuts: how long two nodes
certainly claimed to lead different terms. Of all runs: how many acknowledged appends are missing at the end, where
that is not promised.

    .venv/bin/python tests/accept.py gallery-nats-shapes      run such a campaign (resumable, run by run)
    cd tests && ../.venv/bin/python -m acceptance.surprises   write the table of docs/findings.md from what is kept

Promises: runs that noise of the machine kept from a verdict do not count, nor do cuts that were not certainly in force,
or that flapped: they lasted less than half as long as the longest.
Leaves out what is promised and broken, which is the table of campaigns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dethrone.harness.core.clock import SECOND, Ns
from tests.acceptance.findings import PAGE
from tests.acceptance.gallery import SETTINGS, SHAPES, Setting, began, kept_rows
from tests.acceptance.tables import Block, Table

SURVIVAL = "acknowledged-survives"


def named(setting: Setting) -> str:
    """What the table calls it."""
    return setting.name.removesuffix(SHAPES).removesuffix("-") or "default"


class Row(NamedTuple):
    """A setting. ``cuts``: in force, for at most ``held_ns``; ``whole``: those that left a majority whole, of which
    ``leaderless`` had no leader in the last third, and each was ``silent_ns`` without a write; ``exposed_ns``: of those
    with two leaders at once; ``lost``: of acknowledged appends, None where none may be."""

    system: str
    setting: str
    day: str
    cuts: int
    held_ns: Ns
    whole: int
    leaderless: Sequence[str]
    silent_ns: Sequence[Ns]
    exposed_ns: Sequence[Ns]
    lost: tuple[int, int] | None


def gathered(
    setting: Setting, rows: Sequence[Mapping[str, Any]], losses: Sequence[Mapping[str, int]], *, day: str
) -> Row:
    """The row of these runs. ``losses``: what the checker of survival counted where writes may be lost."""
    counted = [cut for row in rows if not row["by_noise"] for cut in row.get("cuts", ())]
    cuts = [cut for cut in counted if cut["outcome"] == "installed"]
    longest = max((cut["held_ns"] for cut in cuts), default=0)
    cuts = [cut for cut in cuts if 2 * cut["held_ns"] >= longest]
    whole = [cut for cut in cuts if cut["majority"]]
    return Row(
        setting.system,
        named(setting),
        day,
        cuts=len(cuts),
        held_ns=longest,
        whole=len(whole),
        leaderless=sorted({cut["cut"] for cut in whole if not cut["leader_after"]}),
        silent_ns=sorted(cut["silent_ns"] for cut in whole),
        exposed_ns=sorted(cut["exposed_ns"] for cut in cuts if cut["exposed_ns"]),
        lost=(sum(one["lost"] for one in losses), sum(one["of"] for one in losses)) if losses else None,
    )


COLUMNS = (
    "system",
    "setting",
    "cuts (of at most)",
    "a majority was whole",
    "of these no leader in the last third",
    "longest without a write: median, most",
    "two leaders at once",
    "acknowledged appends lost",
    "measured",
)
TABLE = Table(
    Block("surprises"),
    (f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"),
    [(one.system, named(one)) for one in SETTINGS if one.cuts],
)


def line(row: Row) -> str:
    """A row of the table."""
    silent = f"{_s(row.silent_ns[len(row.silent_ns) // 2])}, {_s(row.silent_ns[-1])}" if row.silent_ns else "-"
    exposed = f"{len(row.exposed_ns)}, for up to {_s(row.exposed_ns[-1])}" if row.exposed_ns else "none"
    lost = "promised not to be" if row.lost is None else _share(*row.lost)
    cuts, leaderless = f"{row.cuts} ({_s(row.held_ns)})", ", ".join(row.leaderless) or "none"
    cells = (row.system, row.setting, cuts, row.whole, leaderless, silent, exposed, lost, row.day)
    return f"| {' | '.join(map(str, cells))} |"


def _share(lost: int, acknowledged: int) -> str:
    return f"{lost:,} of {acknowledged:,} ({100 * lost / max(1, acknowledged):.1f} %)"


def _s(ns: Ns) -> str:
    return f"{ns / SECOND:.1f} s"


def kept_row(setting: Setting) -> Row | None:
    """What is kept of it; None: nothing yet."""
    rows = kept_rows(setting)
    if not rows:
        return None
    losses = [loss for row in rows if not row["by_noise"] and (loss := _loss(Path(row["run_dir"]))) is not None]
    return gathered(setting, rows, losses, day=began(rows))


def _loss(run: Path) -> Mapping[str, int] | None:
    verdicts = json.loads((run / "verdict.json").read_text(encoding="utf-8"))["judgement"]["verdicts"]
    return next((one["metrics"] for one in verdicts if one["checker"] == SURVIVAL and "of" in one["metrics"]), None)


def main() -> int:
    """Write the table."""
    rows = [row for setting in SETTINGS if setting.cuts and (row := kept_row(setting)) is not None]
    TABLE.write(PAGE, [line(row) for row in rows])
    print(f"{len(rows)} settings, {sum(row.cuts for row in rows)} cuts: {PAGE.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
