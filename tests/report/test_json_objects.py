from __future__ import annotations

import json

import pytest

from dethrone.harness.core.errors import ClusterError
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.report import json_objects


def test_the_object_of_a_run_has_what_programs_need(failing, failing_dir):
    result = RunResult(
        run_dir=failing_dir, seed=42, plan=failing.plan, judgement=failing.judgement, trouble=("slow",),
        interrupted=False, exit_code=1, figures={"elections": 3},
    )  # fmt: skip
    value = json.loads(
        json_objects.encode(json_objects.run_object(result, failing, report=failing_dir / "report.html"))
    )
    assert value["schema"] == 1
    assert (value["verdict"], value["trouble"], value["exit_code"], value["seed"]) == ("fail", ["slow"], 1, 42)
    assert value["run_dir"] == str(failing_dir)
    found = value["checkers"]["one-leader-per-term"]["findings"][0]
    assert found["sentence"] == "n2 and n4 were both elected leader of term 7"
    assert [event["at"] for event in found["events"]] == ["+13.008 s", "+14.130 s"]
    assert value["checkers"]["term-never-decreases"]["findings"][0]["excused"]
    assert value["figures"] == {"elections": 3}


def test_an_error_is_an_object_of_the_same_shape():
    value = json_objects.error_object(ClusterError("gone", next_step="dethrone doctor"), message="gone", exit_code=3)
    assert {"schema", "verdict", "trouble", "checkers", "run_dir", "seed", "exit_code"} <= set(value)
    assert value["error"]["next"] == "dethrone doctor"


@pytest.mark.parametrize(
    ("codes", "worst"), [([], 0), ([0, 2], 2), ([2, 130], 130), ([130, 1], 1), ([1, 3], 3), ([0, 64], 3)]
)
def test_several_exit_codes_at_once(codes, worst):
    assert json_objects.worst_code(codes) == worst


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([], None),
        ([None], None),
        (["pass", None], "unknown"),
        (["pass", "fail", "unknown"], "fail"),
        (["pass"], "pass"),
    ],
)
def test_several_verdicts_at_once(outcomes, worst):
    assert json_objects.worst_outcome(outcomes) == worst


def test_a_campaign_lists_its_runs(tmp_path):
    row = CampaignRow(
        seed=3, outcome="unknown", exit_code=3, run_dir="seed-3", elapsed_ns=1, elections=0, faults=0, ops_ok=0,
        reason="gone",
    )  # fmt: skip
    value = json_objects.campaign_object([row], out=tmp_path, exit_code=3)
    assert value["trouble"] == ["seed 3: gone"]
    assert json.loads(json_objects.encode(value))["runs"][0]["seed"] == 3
    brought = {"url": "c", "campaign": "x", "rows": 1, "trouble": ["seed-3: refused"]}
    value = json_objects.campaign_object(
        [row], out=tmp_path, exit_code=3, counts={"pass": 9, "unknown": 1}, corpus=brought
    )
    assert (value["verdict"], value["listed"], value["counts"]["pass"]) == ("unknown", 1, 9)
    assert value["trouble"] == ["seed 3: gone", "seed-3: refused"]
