"""Kafka and RocketMQ's DLedger for hours: quiet runs have no finding, campaigns end with a verdict.

Two items a system, release and number of nodes. Quiet: five minutes without faults, and ten thousand operations without
faults. Campaign: twenty minutes with partitions, kills, pauses, clock steps and faults on what the nodes do; it holds
when every run of it came to a verdict. Which one is for the system to earn, and stands in the line. Each run is kept
below ``runs/accept/jvm`` and not done again. Needs Docker; an image that is not there is built.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.kept import of, run
from tests.acceptance.simulated import DETHRONE, OUT, ROOT, Item, Unfinished, Until

KEPT = OUT / "jvm"
QUIET = ("--faults", "none", "--time-limit", "5m")
MANY = ("--faults", "none", "--time-limit", "8m", "--rate", "40", "--concurrency", "6")
OPERATIONS = 10_000
CAMPAIGN = ("--faults", "partition,kill,pause,clock", "--strategy", "mixed", "--time-limit", "200s")
COMPARED_ANEW = ("--faults", "partition,kill,pause,clock", "--nemesis-interval", "10s", "--time-limit", "60s")
LOST_IN_TURN = ROOT / "tests" / "live" / "leaders_lost_in_turn.json"
COMPARED_BEFORE = ("--schedule", LOST_IN_TURN, "--time-limit", "120s", "--concurrency", "100")
SEEDS = 6
"""Of 200 s each: twenty minutes under faults."""


class Cluster(NamedTuple):
    """What an item is about."""

    system: str
    nodes: int


CLUSTERS = (
    Cluster("kafka-kraft", 3),
    Cluster("kafka-kraft", 5),
    Cluster("kafka-kraft-3.9", 3),
    Cluster("rocketmq-dledger", 3),
    Cluster("rocketmq-dledger", 5),
    Cluster("rocketmq-dledger-0.3.2", 3),
    Cluster("rocketmq-dledger-0.2.2", 3),
)


def calm(result: dict[str, Any]) -> bool:
    """No finding and no trouble; whatever is unknown was not exercised, as without faults little is."""
    unknown = [result["checkers"][name].get("reason", "") for name in of(result, "unknown")]
    exercised = "acknowledged-survives" in of(result, "pass") and "leader-when-owed" in of(result, "pass")
    quiet = all(reason.startswith("not exercised") for reason in unknown)
    return not result["trouble"] and not of(result, "fail") and exercised and quiet


def acknowledged(result: dict[str, Any]) -> int:
    """Operations that were answered: writes that were acknowledged, and reads."""
    evidence = result["checkers"]["acknowledged-survives"].get("evidence", {})
    return int(evidence.get("appends_acknowledged", 0)) + int(evidence.get("reads", 0))


def quiet(cluster: Cluster) -> Item:
    """Five minutes without faults, and ten thousand operations without faults: no finding."""

    def item(until: Until) -> tuple[bool, str]:
        base = (cluster.system, "--nodes", str(cluster.nodes), "--seed", "1")
        name = f"{cluster.system}-{cluster.nodes}"
        still = run(KEPT / f"{name}-quiet", (*base, *QUIET), until=until)
        many = run(KEPT / f"{name}-many", (*base, *MANY), until=until)
        done = acknowledged(many)
        held = calm(still) and calm(many) and done >= OPERATIONS
        findings = [*of(still, "fail"), *of(many, "fail")]
        return held, f"5 min and {done} operations without faults: findings {findings or 'none'}"

    item.__doc__ = f"{cluster.system} on {cluster.nodes} nodes without faults: 5 minutes and {OPERATIONS} operations."
    return item


def campaign(cluster: Cluster) -> Item:
    """Twenty minutes under faults, each run with a verdict."""

    def item(until: Until) -> tuple[bool, str]:
        words, held = [], True
        for seed in range(SEEDS):
            base = (cluster.system, "--nodes", str(cluster.nodes), "--seed", str(seed), *CAMPAIGN)
            result = run(KEPT / f"{cluster.system}-{cluster.nodes}-seed-{seed}", base, until=until)
            held &= not result["trouble"] and result["verdict"] in {"pass", "fail", "unknown"}
            failed = of(result, "fail")
            words.append(f"{seed}: {result['verdict']}{' ' + ', '.join(failed) if failed else ''}")
        return held, f"{SEEDS} runs of 200 s: {'; '.join(words)}"

    item.__doc__ = f"{cluster.system} on {cluster.nodes} nodes: a campaign of 20 minutes with a verdict a run."
    return item


def truncates(system: str, *words: str | Path) -> Item:
    """A finding of the track record, once more."""

    def item(until: Until) -> tuple[bool, str]:
        told = run(KEPT / f"{system}-truncates", (system, "--nodes", "3", "--seed", "1", *words), until=until)
        found = told["checkers"]["commit-never-regresses"]
        sentences = [one["sentence"] for one in found.get("findings", [])]
        return found["verdict"] == "fail", f"commit-never-regresses: {found['verdict']}; {'; '.join(sentences[:2])}"

    item.__doc__ = f"{system} truncates committed entries of a follower after a change of leader (docs/systems-jvm.md)."
    return item


def wiped(system: str) -> Item:
    """Disks that keep nothing do not pass."""

    def item(until: Until) -> tuple[bool, str]:
        if until is not None and time.monotonic() > until:
            raise Unfinished("not begun")
        unsafe, place = ROOT / "tests" / "systems_unsafe", KEPT / system
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        words = ("--nodes", "3", "--schedule", unsafe / "kill_all.json", "--time-limit", "10s", "--seed", "1")
        done = subprocess.run(
            [DETHRONE, "run", system, *words, "--json", "--out", place],
            env={**os.environ, "PYTHONPATH": str(unsafe)},
            capture_output=True,
            check=False,
        )
        result = json.loads(done.stdout)
        failed = of(result, "fail")
        held = result["verdict"] == "fail" and "acknowledged-survives" in failed and not result["trouble"]
        return held, f"{result['verdict']}: {', '.join(failed)}"

    item.__doc__ = f"{system}, whose nodes restart on an empty disk, does not pass."
    return item


def items() -> dict[str, Item]:
    """Two items a cluster, what is known to be wrong, and what is made wrong."""
    out: dict[str, Item] = {
        "rocketmq-dledger-truncates": truncates("rocketmq-dledger", *COMPARED_ANEW),
        "rocketmq-dledger-0.3.2-truncates": truncates("rocketmq-dledger-0.3.2", *COMPARED_BEFORE),
        "rocketmq-dledger-0.2.2-truncates": truncates("rocketmq-dledger-0.2.2", *COMPARED_BEFORE),
        **{name: wiped(name) for name in ("kafka-kraft-wiped", "rocketmq-dledger-wiped")},
    }
    for cluster in CLUSTERS:
        name = f"{cluster.system}-{cluster.nodes}"
        out[f"{name}-quiet"] = quiet(cluster)
        out[f"{name}-campaign"] = campaign(cluster)
    return out
