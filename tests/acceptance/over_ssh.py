"""One scenario file of etcd has the same verdict on containers and on machines with a real SSH server.

Raft's on every backend is a test of its own (``tests/clusters/ssh/test_runs.py``). Three seeds, a run on each; each is
kept below ``runs/accept/ssh`` and not done again. Needs Docker.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.acceptance.kept import run
from tests.acceptance.simulated import OUT, Item, Until

SEEDS = (1, 2, 3)
SCENARIO = """
source = "etcd's failure model"
title = "a leader is cut off, another is killed, a third paused"
text = "Whatever becomes of its leader, etcd 3.4 elects another one and loses nothing that it acknowledged."
system = "etcd"
nodes = 3
workload = "log"
time_limit = "75s"
[expected]
verdict = "pass"
holds = ["one-leader-per-term", "term-never-decreases", "step-down-without-quorum", "leader-when-owed"]
[[step]]
gap = "12s"
[[step.fault]]
kind = "partition"
victims = "leader"
params = { shape = "isolate" }
hold = "12s"
[[step]]
gap = "12s"
[[step.fault]]
kind = "kill"
victims = "leader"
hold = "3s"
[[step]]
gap = "2s"
[[step.fault]]
kind = "pause"
victims = "leader"
hold = "4s"
"""


def etcd(until: Until) -> tuple[bool, str]:
    """etcd under one scenario file, docker and ssh: the same verdict, three seeds."""
    from tests.clusters.ssh.field import made

    place = OUT / "ssh"
    place.mkdir(parents=True, exist_ok=True)
    scenario = place / "etcd.toml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    verdicts: dict[int, dict[str, str]] = {seed: {} for seed in SEEDS}
    with tempfile.TemporaryDirectory(prefix="field-") as directory:
        fields = made(Path(directory), "etcd")
        try:
            hosts = ("--hosts", next(fields).file)
            for seed in SEEDS:
                for backend, more in (("docker", ()), ("ssh", hosts)):
                    words = ("--scenario", scenario, "--on", backend, *more, "--seed", str(seed))
                    said = run(place / f"{backend}-{seed}", words, until=until)
                    verdicts[seed][backend] = f"{said['verdict']}{' in trouble' if said['trouble'] else ''}"
        finally:
            fields.close()
    same = all(len(set(found.values())) == 1 for found in verdicts.values())
    return same and "pass" in verdicts[SEEDS[0]].values(), str(verdicts)


def items() -> dict[str, Item]:
    """Name → item."""
    return {"etcd-docker-ssh": etcd}
