"""The tutorial's system for longer: under drawn faults a sound store never fails, and a forgetful one is found.

Sound: runs on three and five nodes, each strategy and seed once; none of them has a finding, and most pass. Forgetful:
the tutorial's schedule, with term and vote in memory only, fails every time. The store is built with Go where the runs
are kept. Needs Docker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from dethrone.clusters.docker.programs import find_go
from tests.acceptance.real_systems import of, run, told
from tests.acceptance.simulated import OUT, Item, Until

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
STRATEGIES = ("random", "triggered", "mixed")
NODES = (3, 5)
SEEDS = 2
FORGETFUL = 3
BUILD_LIMIT_S = 600


def built() -> Path:
    """The description, beside its program; built once."""
    place = OUT / "own"
    if not (place / "keep").is_file():
        place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(TUTORIAL, place, ignore=shutil.ignore_patterns("keep"), dirs_exist_ok=True)
        go = find_go((TUTORIAL / "go.mod").read_text(encoding="utf-8"), progress=print)
        env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        subprocess.run([go, "build", "-o", "keep", "."], cwd=place, env=env, check=True, timeout=BUILD_LIMIT_S)
    return place / "keep.toml"


def sound(until: Until) -> tuple[bool, str]:
    """No finding under drawn faults."""
    description, results = built(), []
    for nodes in NODES:
        for strategy in STRATEGIES:
            for seed in range(SEEDS):
                words = (str(description), "--nodes", str(nodes), "--strategy", strategy, "--seed", str(seed))
                results.append(run(OUT / f"own-{nodes}-{strategy}-{seed}", words, until=until))
    failed = [told(result) for result in results if result["verdict"] == "fail" or result["trouble"]]
    passed = sum(result["verdict"] == "pass" for result in results)
    line = f"{passed} of {len(results)} runs pass, {len(failed)} fail or had trouble: {'; '.join(failed) or '-'}"
    return not failed and 2 * passed > len(results), line


def forgetful(until: Until) -> tuple[bool, str]:
    """The store that forgets its votes fails by the checkers of votes and terms."""
    description, found = built(), []
    schedule = description.with_name("break.toml")
    for seed in range(FORGETFUL):
        words = (str(description), "--nodes", "3", "--schedule", str(schedule), "--time-limit", "20s")
        result = run(OUT / f"own-forgetful-{seed}", (*words, "--seed", str(seed), "--set", "forget=true"), until=until)
        found.append({"term-never-decreases", "vote-is-durable"} <= set(of(result, "fail")))
    return all(found), f"{sum(found)} of {FORGETFUL} runs of the store that forgets its votes fail"


def items() -> dict[str, Item]:
    """By name."""
    return {"own-sound": sound, "own-forgetful": forgetful}
