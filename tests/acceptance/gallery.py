"""The gallery for hours: without faults nothing is found, and campaigns show what each setting breaks.

Items by system and setting, on three nodes of this machine's Docker. Quiet: five minutes without faults pass.
Operations: ten thousand of each workload without faults pass. Campaign: ten runs of ninety seconds under all faults
that the system's promise covers, up to five at a time; it holds when the harness had no trouble. What it showed is for
the table. Everything is kept below ``runs/accept/gallery`` and not done again.

    .venv/bin/python tests/accept.py gallery-nats-always    run one campaign (resumable, run by run)
    cd tests && ../.venv/bin/python -m acceptance.gallery   write the table of docs/gallery.md from what is kept

Leaves out whether a finding is the system's fault: certificates are read, replayed and shrunk by hand.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.real_systems import Cluster, many, quiet
from tests.acceptance.simulated import OUT, ROOT, Item, Unfinished, Until, command
from tests.acceptance.tables import Block, Table

KEPT = OUT / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
NODES = 3
RUNS = 10
LIMIT_S = 90
AT_ONCE = 5


class Setting(NamedTuple):
    """One way to run a system of the gallery; ``words`` choose it."""

    system: str
    name: str = "default"
    words: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """What is kept of its campaign."""
        return KEPT / f"{self.system}-{self.name}"


SETTINGS = (
    Setting("redis-sentinel"),
    Setting("redis-sentinel", "min-replicas", ("--set", "min_replicas=1")),
    Setting("nats"),
    Setting("nats", "always", ("--set", "sync=always")),
    Setting("nats-2.12.1"),
    Setting("hashicorp-raft"),
    Setting("hashicorp-raft", "no-pre-vote", ("--set", "pre_vote=false")),
    Setting("pysyncobj"),
    Setting("pysyncobj-0.3.14"),
    Setting("ovsdb"),
    Setting("ceph-mon"),
    Setting("jraft"),
    Setting("jraft", "lease-reads", ("--set", "lease_reads=true")),
    Setting("jraft-1.3.14"),
    Setting("ratis"),
    Setting("kazoo-election"),
    Setting("kazoo-election", "no-listener", ("--set", "listens=false")),
    Setting("mysql"),
    Setting("mysql", "after", ("--set", "consistency=AFTER")),
    Setting("opensearch"),
    Setting("patroni"),
    Setting("patroni", "synchronous", ("--set", "synchronous=true")),
    Setting("patroni", "strict", ("--set", "synchronous=true", "--set", "strict=true")),
)
WORKLOADS: Mapping[str, tuple[str, ...]] = {
    "redis-sentinel": ("log", "register"),
    "nats": ("log", "set"),
    "hashicorp-raft": ("log", "register"),
    "pysyncobj": ("log",),
    "ovsdb": ("register", "set"),
    "ceph-mon": ("set",),
    "jraft": ("log", "register"),
    "ratis": ("log", "register"),
    "kazoo-election": ("log",),
    "mysql": ("log", "register"),
    "opensearch": ("register", "set"),
    "patroni": ("log", "register"),
}
"""What the clients of a system serve."""


def words_of(setting: Setting) -> list[str | Path]:
    """The campaign of this setting; seeds that are done are not run again."""
    pace = ("--nodes", str(NODES), "--seeds", f"0..{RUNS - 1}", "--jobs", str(AT_ONCE), "--time-limit", f"{LIMIT_S}s")
    return ["campaign", setting.system, "--on", "docker", *pace, *setting.words, "--out", setting.place]


# --- what was shown -------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A setting. ``broken``: checker → runs in which it found something that is promised; ``noisy``, ``unsure``: runs
    without a verdict because of noise of the machine, and for want of evidence."""

    system: str
    setting: str
    day: str
    runs: int
    passed: int
    noisy: int
    unsure: int
    broken: Mapping[str, int]
    excused: int
    faults: int
    elections: int
    operations: int


def gathered(setting: Setting, rows: Sequence[Mapping[str, Any]], *, day: str) -> Row:
    """The row of these runs."""
    outcomes = Counter(str(row["outcome"]) for row in rows)
    noisy = sum(row["outcome"] == "unknown" and row["by_noise"] for row in rows)
    failing = [row for row in rows if row["outcome"] == "fail"]
    return Row(
        setting.system,
        setting.name,
        day,
        runs=len(rows),
        passed=outcomes["pass"],
        noisy=noisy,
        unsure=outcomes["unknown"] - noisy,
        broken=Counter(name for row in failing for name in {text.partition(":")[0] for text in row["findings"]}),
        excused=sum(row["excused"] for row in rows),
        faults=sum(row["faults"] for row in rows),
        elections=sum(row["elections"] for row in rows),
        operations=sum(row["ops_ok"] for row in rows),
    )


COLUMNS = (
    "system",
    "setting",
    "runs",
    "passed",
    "no verdict: noise",
    "no verdict: evidence",
    "promised and broken (runs)",
    "excused findings",
    "faults",
    "elections",
    "operations",
    "measured",
)
TABLE = Table(
    Block("campaigns"),
    (f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"),
    [(setting.system, setting.name) for setting in SETTINGS],
)


def line(row: Row) -> str:
    """A row of the table."""
    broken = ", ".join(f"{name} ({count})" for name, count in sorted(row.broken.items())) or "nothing"
    cells = (row.system, row.setting, row.runs, row.passed, row.noisy, row.unsure, broken, row.excused, row.faults)
    return f"| {' | '.join(map(str, (*cells, row.elections, f'{row.operations:,}', row.day)))} |"


def kept_row(setting: Setting) -> Row | None:
    """What is kept of it; None: nothing yet."""
    file = setting.place / "rows.jsonl"
    rows = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    if not rows:
        return None
    began = json.loads((Path(rows[-1]["run_dir"]) / "run.json").read_text(encoding="utf-8"))["started_at"]
    return gathered(setting, rows, day=str(began)[:10])


# --- items ----------------------------------------------------------------------------------------------------------


def campaign(setting: Setting) -> Item:
    """Ten runs under faults, each with its verdict."""

    def item(until: Until) -> tuple[bool, str]:
        found = command(words_of(setting), until=until)
        row = kept_row(setting)
        if found.get("interrupted") or row is None or row.runs < RUNS:
            raise Unfinished(f"{0 if row is None else row.runs} of {RUNS} runs")
        return not found["trouble"], "; ".join([line(row), *found["trouble"]])

    item.__doc__ = f"{setting.system}, {setting.name}: {RUNS} runs of {LIMIT_S} s under faults, without trouble."
    return item


def items() -> dict[str, Item]:
    """By name."""
    out = {f"gallery-{setting.place.name}": campaign(setting) for setting in SETTINGS}
    for system, workloads in WORKLOADS.items():
        for nodes in (3, 5):
            cluster = Cluster(system, nodes, "", workloads, kept=KEPT)
            out[f"gallery-{cluster.name}-quiet"] = quiet(cluster)
        out[f"gallery-{system}-operations"] = many(Cluster(system, 3, "", workloads, kept=KEPT))
    return out


def main() -> int:
    """Write the table."""
    rows = [row for setting in SETTINGS if (row := kept_row(setting)) is not None]
    PAGE.write_text(TABLE.merged(PAGE.read_text(encoding="utf-8"), [line(row) for row in rows]), encoding="utf-8")
    print(f"{len(rows)} settings, {sum(row.runs for row in rows)} runs: {PAGE.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
