"""ZooKeeper and etcd for hours: quiet runs have no finding, campaigns end with a verdict, ruined ones do not pass.

Items by system, release and number of nodes. Quiet: five minutes without faults pass. Operations: ten thousand without
faults, for each workload that its client serves, pass. Campaign: twenty minutes with partitions, kills, pauses, clock
steps (where the system can suffer them) and faults on what the nodes do; it holds when every run of it came to a
verdict. Which one is for the system to earn, and stands in the line. Each run is kept below ``runs/accept/real`` and
not done again. Needs Docker; an image that is not there is built.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from dethrone.harness.core.events import Return
from dethrone.harness.core.history_files import history_at, read_history
from tests.acceptance.kept import of, run
from tests.acceptance.simulated import OUT, Item, Until

UNSAFE = Path(__file__).resolve().parents[1] / "systems_unsafe"

QUIET_S = 300
QUIET = ("--faults", "none", "--time-limit", f"{QUIET_S}s")
OPERATIONS = 10_000
RATE = 250
"""Operations a second asked for; a slow machine answers fewer, so the time is longer than it need be."""

OPERATIONS_S = 180
CAMPAIGN_S = 200
SEEDS = 6
"""Runs of a campaign: twenty minutes under faults."""


class Cluster(NamedTuple):
    """What an item is about. ``faults``: what it can suffer; ``workloads``: what its clients serve."""

    system: str
    nodes: int
    faults: str
    workloads: tuple[str, ...] = ("register", "lock", "log")
    kept: Path = OUT / "real"

    @property
    def name(self) -> str:
        """Of its items."""
        return f"{self.system}-{self.nodes}"

    def run(self, name: str, seed: int, *words: str, until: Until) -> dict[str, Any]:
        """The result of a run of it."""
        asked = (self.system, "--nodes", str(self.nodes), "--seed", str(seed), *words)
        return run(self.kept / name, asked, until=until)


_STATIC = "partition,kill,pause"
"""For static binaries, whose clocks cannot be stepped one by one."""

CLUSTERS = (
    Cluster("zookeeper", 3, f"{_STATIC},clock"),
    Cluster("zookeeper", 5, f"{_STATIC},clock"),
    Cluster("etcd", 3, _STATIC),
    Cluster("etcd-3.5", 3, _STATIC),
    Cluster("etcd-3.7", 3, _STATIC),
    Cluster("etcd-3.7", 5, _STATIC),
    Cluster("zk-ephemeral-zookeeper", 4, f"{_STATIC},clock", ("log",)),
)


class Ruined(NamedTuple):
    """A system that an operator has ruined, the schedule that shows it, and the checker that must fail."""

    system: str
    schedule: str
    time_limit: str
    by: str = ""


RUINED = (
    Ruined("zookeeper-unsafe", "forget_n2.json", "18s"),
    Ruined("etcd-3.5-unsafe", "restart_n1.json", "70s"),
    Ruined("etcd-3.7-unsafe", "restart_n1.json", "70s"),
)


def told(result: dict[str, Any]) -> str:
    """The verdict, and what failed or stayed unknown."""
    parts = [f"{verdict}: {', '.join(names)}" for verdict in ("fail", "unknown") if (names := of(result, verdict))]
    return "; ".join([result["verdict"], *parts, *result["trouble"]])


def passed(result: dict[str, Any]) -> bool:
    """It passes, and the harness had no trouble."""
    return result["verdict"] == "pass" and not result["trouble"]


def operations(run: Path) -> int:
    """Operations that were answered."""
    return sum(event.status != "info" for event in read_history(history_at(run)).of(Return))


def quiet(cluster: Cluster) -> Item:
    """Five minutes without faults."""

    def item(until: Until) -> tuple[bool, str]:
        words = ("--workload", cluster.workloads[0], *QUIET)
        result = cluster.run(f"{cluster.name}-quiet", 1, *words, until=until)
        return passed(result), f"{QUIET_S} s without faults: {told(result)}"

    item.__doc__ = f"{cluster.system} on {cluster.nodes} nodes passes {QUIET_S} s without faults."
    return item


def many(cluster: Cluster) -> Item:
    """Ten thousand operations a workload without faults."""
    pace = ("--faults", "none", "--rate", str(RATE), "--time-limit", f"{OPERATIONS_S}s")

    def item(until: Until) -> tuple[bool, str]:
        lines, held = [], True
        for workload in cluster.workloads:
            name = f"{cluster.system}-{workload}-operations"
            result = cluster.run(name, 2, "--workload", workload, *pace, until=until)
            done = operations(cluster.kept / name)
            held &= passed(result) and done >= OPERATIONS
            lines.append(f"{workload} {done}: {told(result)}")
        return held, f"operations without faults: {'; '.join(lines)}"

    item.__doc__ = f"{cluster.system} serves {OPERATIONS} operations of each workload without a finding."
    return item


def campaign(cluster: Cluster) -> Item:
    """Twenty minutes under faults, each run with a verdict."""
    chaos = ("--faults", cluster.faults, "--strategy", "mixed", "--time-limit", f"{CAMPAIGN_S}s")

    def item(until: Until) -> tuple[bool, str]:
        lines, held = [], True
        for seed in range(SEEDS):
            workload = cluster.workloads[seed % len(cluster.workloads)]
            name = f"{cluster.name}-seed-{seed}"
            result = cluster.run(name, seed, "--workload", workload, *chaos, until=until)
            held &= not result["trouble"] and result["verdict"] in {"pass", "fail", "unknown"}
            lines.append(f"{seed} {workload}: {told(result)}")
        return held, f"{SEEDS} runs of {CAMPAIGN_S} s: {'; '.join(lines)}"

    item.__doc__ = f"{cluster.system} on {cluster.nodes} nodes: a campaign of 20 minutes with a verdict a run."
    return item


def ruined(one: Ruined, kept: Path = OUT / "real") -> Item:
    """What an operator has ruined does not pass."""

    def item(until: Until) -> tuple[bool, str]:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(UNSAFE), os.environ.get("PYTHONPATH"))))
        words = (one.system, "--nodes", "3", "--schedule", str(UNSAFE / one.schedule), "--seed", "1")
        result = run(kept / one.system, (*words, "--time-limit", one.time_limit), until=until)
        failed = of(result, "fail")
        return bool(failed) and (one.by or failed[0]) in failed and not result["trouble"], told(result)

    item.__doc__ = f"{one.system}, ruined by its operator, does not pass."
    return item


def items() -> dict[str, Item]:
    """By name."""
    out: dict[str, Item] = {}
    for cluster in CLUSTERS:
        out[f"{cluster.name}-quiet"] = quiet(cluster)
        out[f"{cluster.name}-campaign"] = campaign(cluster)
        out.setdefault(f"{cluster.system}-operations", many(cluster))
    for one in RUINED:
        out[f"{one.system}-fails"] = ruined(one)
    return out
