"""Run directories that earlier versions wrote are read, judged as they were, and drawn.

``tests/golden/runs`` holds them as they were written, by the day of the version: short runs on simulated hosts.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from dethrone.harness.core.earlier_rules import earlier
from dethrone.harness.core.signature import fold

RUNS = sorted((Path(__file__).resolve().parents[1] / "golden" / "runs").glob("*.tar.xz"))
CODES = {"pass": 0, "fail": 1, "unknown": 2}


@pytest.fixture(params=RUNS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def older(request, tmp_path):
    """A run directory as it was written, and the judgement that was stored then."""
    place = tmp_path / "older"
    with tarfile.open(request.param) as tar:
        tar.extractall(place, filter="data")
    return place, json.loads((place / "verdict.json").read_text())["judgement"]


def test_a_run_of_an_earlier_version_is_judged_as_it_was(call, older):
    place, then = older
    done = call("check", str(place), "--json")
    now = json.loads(done.stdout)
    assert (now["verdict"], done.exit_code, now["trouble"], now["damage"]) == (
        then["outcome"],
        CODES[then["outcome"]],
        [],
        None,
    )
    judged = {name: now["checkers"][name]["verdict"] for name in (verdict["checker"] for verdict in then["verdicts"])}
    assert judged == {verdict["checker"]: verdict["outcome"] for verdict in then["verdicts"]}
    younger = {name: one["verdict"] for name, one in now["checkers"].items() if name not in judged}
    assert set(younger.values()) <= {"pass", "n/a"}, "a checker that is new finds nothing in what was found sound"


def test_a_finding_of_an_earlier_version_is_found_again_with_its_proof(call, older):
    place, then = older
    checkers = json.loads(call("check", str(place), "--json").stdout)["checkers"]
    for verdict in then["verdicts"]:
        found = [(_rule(one["sentence"]), one["certificate"]) for one in checkers[verdict["checker"]]["findings"]]
        assert found == [(_rule(one["sentence"]), one["certificate"]) for one in verdict["findings"]]


def _rule(sentence):
    """What a sentence says: findings are worded anew, but their rule, nodes and terms are those of "
    "the earlier version."""
    nodes = tuple(f"n{number}" for number in range(1, 10))
    return earlier(fold(sentence, nodes)), re.findall(r"\bn\d\b|\bterm \d+\b", sentence)


def test_a_run_of_an_earlier_version_is_drawn_with_what_was_stored_of_it(call, older):
    place, then = older
    value = json.loads(call("report", str(place), "--json").stdout)
    assert value["verdict"] == then["outcome"]
    assert "</html>" in (place / "report.html").read_text()


def test_there_are_runs_of_each_outcome():
    outcomes = set()
    for run in RUNS:
        with tarfile.open(run) as tar:
            outcomes.add(json.load(tar.extractfile("verdict.json"))["judgement"]["outcome"])
    assert outcomes == set(CODES)
