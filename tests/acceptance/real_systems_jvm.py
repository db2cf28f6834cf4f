"""Kafka and RocketMQ's DLedger for hours: quiet runs have no finding, campaigns end with a verdict.

Two items a system, release and number of nodes. Quiet: five minutes without faults, and ten thousand operations without
faults. Campaign: twenty minutes with partitions, kills, pauses, clock steps and faults on what the nodes do; it holds
when every run of it came to a verdict. Which one is for the system to earn, and stands in the line. Each run is kept
below ``runs/accept/jvm`` and not done again. Needs Docker; an image that is not there is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.kept import of, run
from tests.acceptance.real_systems import OPERATIONS, QUIET, Cluster, Ruined, campaign, ruined
from tests.acceptance.simulated import OUT, ROOT, Item, Until

KEPT = OUT / "jvm"
FAULTS = "partition,kill,pause,clock"
MANY = ("--faults", "none", "--time-limit", "8m", "--rate", "40", "--concurrency", "6")
COMPARED_ANEW = ("--faults", FAULTS, "--nemesis-interval", "10s", "--time-limit", "60s")
LOST_IN_TURN = ROOT / "tests" / "live" / "leaders_lost_in_turn.json"
COMPARED_BEFORE = ("--schedule", LOST_IN_TURN, "--time-limit", "120s", "--concurrency", "100")

CLUSTERS = tuple(
    Cluster(system, nodes, FAULTS, ("log",), KEPT)
    for system, nodes in (
        ("kafka-kraft", 3),
        ("kafka-kraft", 5),
        ("kafka-kraft-3.9", 3),
        ("rocketmq-dledger", 3),
        ("rocketmq-dledger", 5),
        ("rocketmq-dledger-0.3.2", 3),
        ("rocketmq-dledger-0.2.2", 3),
    )
)

WIPED = tuple(
    Ruined(system, "kill_all.json", "10s", by="acknowledged-survives")
    for system in ("kafka-kraft-wiped", "rocketmq-dledger-wiped")
)
"""Disks that keep nothing."""


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
        still = cluster.run(f"{cluster.name}-quiet", 1, *QUIET, until=until)
        many = cluster.run(f"{cluster.name}-many", 1, *MANY, until=until)
        done = acknowledged(many)
        held = calm(still) and calm(many) and done >= OPERATIONS
        findings = [*of(still, "fail"), *of(many, "fail")]
        return held, f"5 min and {done} operations without faults: findings {findings or 'none'}"

    item.__doc__ = f"{cluster.system} on {cluster.nodes} nodes without faults: 5 minutes and {OPERATIONS} operations."
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


def items() -> dict[str, Item]:
    """Two items a cluster, what is known to be wrong, and what is made wrong."""
    out: dict[str, Item] = {
        "rocketmq-dledger-truncates": truncates("rocketmq-dledger", *COMPARED_ANEW),
        "rocketmq-dledger-0.3.2-truncates": truncates("rocketmq-dledger-0.3.2", *COMPARED_BEFORE),
        "rocketmq-dledger-0.2.2-truncates": truncates("rocketmq-dledger-0.2.2", *COMPARED_BEFORE),
        **{one.system: ruined(one, KEPT) for one in WIPED},
    }
    for cluster in CLUSTERS:
        out[f"{cluster.name}-quiet"] = quiet(cluster)
        out[f"{cluster.name}-campaign"] = campaign(cluster)
    return out
