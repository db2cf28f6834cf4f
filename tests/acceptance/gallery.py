"""The gallery for hours: without faults nothing is found, and campaigns show what each setting breaks.

Items by system and setting, on this machine's Docker. Quiet: five minutes without faults on three nodes and on five
pass, and as many runs more as ten thousand operations take. Campaign: at least ten runs on three nodes under the faults
that the system itself names, or under others, as long and as many at a time as its pace says; it holds when the harness
had no trouble. What it showed is for the table. All is kept below ``runs/accept/gallery`` and not done again.

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

from tests.acceptance.real_systems import OPERATIONS, QUIET, QUIET_S, Cluster, operations, passed, told
from tests.acceptance.simulated import OUT, ROOT, Item, Unfinished, Until, command
from tests.acceptance.tables import Block, Table

KEPT = OUT / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
NODES = 3
QUIET_MAX = 6
"""Runs without faults, at most, for the operations that are wanted."""


class Pace(NamedTuple):
    """Of the runs of a system. ``workloads``: what its clients serve; ``limit_s``: of a run, so that a slow system sees
    more than one fault; ``at_once``: runs that two processors carry without noise; ``rate``: operations a second."""

    workloads: tuple[str, ...]
    limit_s: int = 90
    at_once: int = 5
    rate: int | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Of its rate."""
        return () if self.rate is None else ("--rate", str(self.rate))


PACES: Mapping[str, Pace] = {
    "redis-sentinel": Pace(("log", "register"), limit_s=180, at_once=10),
    "nats": Pace(("log", "set"), limit_s=150, at_once=2, rate=8),  # a list is read message by message
    "hashicorp-raft": Pace(("log", "register"), at_once=10),
    "pysyncobj": Pace(("log",), limit_s=120, at_once=6),
    "ovsdb": Pace(("register", "set"), at_once=10),
    "ceph-mon": Pace(("set",), limit_s=120, at_once=2),
    "jraft": Pace(("log", "register"), at_once=3, rate=15),
    "ratis": Pace(("log", "register"), at_once=2, rate=15),
    "kazoo-election": Pace(("log",), limit_s=120, at_once=3),
    "mysql": Pace(("log", "register"), limit_s=240, at_once=2),
    "opensearch": Pace(("register", "set"), limit_s=150, at_once=1),
    "patroni": Pace(("log", "register"), limit_s=240, at_once=2),
}
"""By system; another release of it goes at the same pace."""


class Setting(NamedTuple):
    """One way to run a system of the gallery; ``words`` choose it."""

    system: str
    name: str = "default"
    words: tuple[str, ...] = ()
    runs: int = 10

    @property
    def pace(self) -> Pace:
        """Of its system, whichever release."""
        return next(pace for system, pace in PACES.items() if self.system.startswith(system))

    @property
    def place(self) -> Path:
        """What is kept of its campaign."""
        return KEPT / f"{self.system}-{self.name}"

    @property
    def cuts(self) -> bool:
        """Whether its campaign is of every shape of a partition."""
        return self.name.endswith(SHAPES)


SHAPES = "shapes"
SHAPES_RUNS = 8
"""They play every shape once."""

SHAPES_AT_ONCE = 4
"""At most, for they have more clients."""


def shapes_of(system: str, name: str = "", *words: str) -> Setting:
    """Every shape of a partition, under which lists are kept where the system has them, by clients enough that some are
    free while others wait."""
    chosen = ("--strategy", SHAPES, "--concurrency", "12", *words)
    return Setting(system, f"{name}-{SHAPES}" if name else SHAPES, chosen, SHAPES_RUNS)


MORE_FAULTS: Mapping[str, str] = {
    "redis-sentinel": "link,clock,transfer",
    "nats": "link,clock,transfer,powerloss",
    "nats-2.12.1": "link,clock,transfer,upgrade",
    "hashicorp-raft": "link,clock,powerloss,member,transfer",
    "pysyncobj": "link,clock",
    "ovsdb": "link,clock,powerloss",
    "ceph-mon": "link,powerloss",
    "jraft": "link,powerloss",
    "ratis": "link,clock,powerloss",
    "kazoo-election": "link,pause",
    "mysql": "link,pause",
    "opensearch": "link,clock,powerloss",
    "patroni": "link,clock,pause",
}
"""Faults beside those that a system names, and beside partitions, without which no leader is seen to step down: under
most it is promised to stay safe; findings under the others, which are worth knowing, are excused."""

MANY = 40
"""Runs of the settings that looked most promising after ten."""

SETTINGS = (
    Setting("redis-sentinel"),
    Setting("redis-sentinel", "min-replicas", ("--set", "min_replicas=1")),
    Setting("redis-sentinel", "wait", ("--set", "wait=1")),
    Setting("nats"),
    Setting("nats", "always", ("--set", "sync=always")),
    Setting("nats-2.12.1"),
    Setting("hashicorp-raft"),
    Setting("hashicorp-raft", "no-pre-vote", ("--set", "pre_vote=false")),
    Setting("pysyncobj"),
    Setting("pysyncobj-0.3.14", runs=MANY),
    Setting("ovsdb"),
    Setting("ceph-mon"),
    Setting("jraft"),
    Setting("jraft", "lease-reads", ("--set", "lease_reads=true")),
    Setting("jraft-1.3.14"),
    Setting("ratis", runs=MANY),
    Setting("ratis-3.2.0"),
    Setting("ratis-3.2.0", "own-timeouts", ("--set", "timeout_min=150", "--set", "timeout_max=300")),
    Setting("kazoo-election"),
    Setting("kazoo-election", "no-listener", ("--set", "listens=false"), MANY),
    Setting("mysql"),
    Setting("mysql", "after", ("--set", "consistency=AFTER")),
    Setting("opensearch"),
    Setting("patroni"),
    Setting("patroni", "synchronous", ("--set", "synchronous=true")),
    Setting("patroni", "strict", ("--set", "synchronous=true", "--set", "strict=true")),
    Setting("kazoo-election", "busy", ("--concurrency", "100"), MANY),
    *(shapes_of(system) for system in PACES),
    shapes_of("redis-sentinel", "min-replicas", "--set", "min_replicas=1"),
    shapes_of("kazoo-election", "no-listener", "--set", "listens=false"),
    *(Setting(system, "more-faults", ("--faults", f"partition,{kinds}")) for system, kinds in MORE_FAULTS.items()),
)


def words_of(setting: Setting) -> list[str | Path]:
    """The campaign of this setting; seeds that are done are not run again."""
    at_once = min(setting.pace.at_once, SHAPES_AT_ONCE) if setting.cuts else setting.pace.at_once
    seeds = ("--seeds", f"0..{setting.runs - 1}", "--jobs", str(at_once))
    pace = ("--time-limit", f"{setting.pace.limit_s}s", *setting.pace.words)
    cluster = ("--nodes", str(NODES), *pace, *setting.words)
    return ["campaign", setting.system, "--on", "docker", *cluster, *seeds, "--out", setting.place]


# --- what was shown -------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A setting. ``broken``: checker → runs in which it found something that is promised; ``noisy``, ``unsure``: runs
    without a verdict because of noise of the machine, and for want of evidence."""

    system: str
    setting: str
    day: str
    limit_s: int
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
        setting.pace.limit_s,
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
    "each (s)",
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
    verdicts = (row.passed, row.noisy, row.unsure, broken, row.excused)
    cells = (row.system, row.setting, row.runs, row.limit_s, *verdicts, row.faults, row.elections)
    return f"| {' | '.join(map(str, (*cells, f'{row.operations:,}', row.day)))} |"


def kept_row(setting: Setting) -> Row | None:
    """What is kept of it; None: nothing yet."""
    rows = kept_rows(setting)
    return gathered(setting, rows, day=began(rows)) if rows else None


def kept_rows(setting: Setting) -> list[dict[str, Any]]:
    """The runs of its campaign so far."""
    file = setting.place / "rows.jsonl"
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def began(rows: Sequence[Mapping[str, Any]]) -> str:
    """The day on which the last of these runs began."""
    return str(json.loads((Path(rows[-1]["run_dir"]) / "run.json").read_text(encoding="utf-8"))["started_at"])[:10]


# --- items ----------------------------------------------------------------------------------------------------------


def campaign(setting: Setting) -> Item:
    """Ten runs under faults, each with its verdict."""

    def item(until: Until) -> tuple[bool, str]:
        found = command(words_of(setting), until=until)
        row = kept_row(setting)
        if found.get("interrupted") or row is None or row.runs < setting.runs:
            raise Unfinished(f"{0 if row is None else row.runs} of {setting.runs} runs")
        return not found["trouble"], "; ".join([line(row), *found["trouble"]])

    what = f"{setting.system}, {setting.name}: {setting.runs} runs of {setting.pace.limit_s} s under faults"
    item.__doc__ = f"{what}, without trouble."
    return item


def quiet(system: str, pace: Pace) -> Item:
    """Runs of five minutes without faults, on three nodes, on five, and on three again: ten thousand operations."""

    def item(until: Until) -> tuple[bool, str]:
        lines, held, done = [], True, 0
        for number in range(QUIET_MAX):
            cluster = Cluster(system, (3, 5)[number % 2], "", pace.workloads, kept=KEPT)
            name = f"{cluster.name}-quiet" + (f"-{number // 2}" if number > 1 else "")
            words = ("--workload", pace.workloads[number % len(pace.workloads)], *QUIET, *pace.words)
            result = cluster.run(name, number + 1, *words, until=until)
            held &= passed(result)
            done += operations(KEPT / name)
            lines.append(f"{cluster.nodes} nodes: {told(result)}")
            if number and done >= OPERATIONS:
                break
        return held and done >= OPERATIONS, f"{done} operations, {QUIET_S} s each without faults, {'; '.join(lines)}"

    item.__doc__ = f"{system} passes {QUIET_S} s without faults on 3 and on 5 nodes, and {OPERATIONS} operations."
    return item


def items() -> dict[str, Item]:
    """By name."""
    out = {f"gallery-{setting.place.name}": campaign(setting) for setting in SETTINGS}
    return out | {f"gallery-{system}-quiet": quiet(system, pace) for system, pace in PACES.items()}


def main() -> int:
    """Write the table."""
    rows = [row for setting in SETTINGS if (row := kept_row(setting)) is not None]
    TABLE.write(PAGE, [line(row) for row in rows])
    runs, hours = sum(row.runs for row in rows), sum(row.runs * row.limit_s for row in rows) / 3600
    print(f"{len(rows)} settings, {runs} runs, {hours:.1f} hours: {PAGE.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
