"""The workflow that docs/ hands out, its steps executed one after another as a runner would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
STEP_LIMIT_S = 300


def the_job() -> dict:
    workflow = yaml.safe_load((ROOT / "docs" / "github-actions.yml").read_text(encoding="utf-8"))
    assert list(workflow["jobs"]) == ["elections"]
    return workflow["jobs"]["elections"]


@pytest.mark.nightly("exports images; each of its commands has tests of its own")
@pytest.mark.docker
def test_every_step_of_the_workflow_works_and_the_gate_is_green_with_evidence(tmp_path):
    site, bin_dir = tmp_path / "site", Path(sys.executable).parent
    (site / "tests").mkdir(parents=True)
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    test = text.split("```python\n")[1].split("```")[0]
    (site / "tests" / "test_elections.py").write_text(test, encoding="utf-8")
    git = ["git", "-C", str(site), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "elections"], check=True)
    job = the_job()
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_", "DETHRONE_"))
    }
    env |= job["env"] | {"IMAGES": str(tmp_path / "images"), "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    ran = []
    for step in job["steps"]:
        if "run" in step:
            assert "${{" not in step["run"], "a step must run anywhere"
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=site,
                env=env,
                capture_output=True,
                text=True,
                timeout=STEP_LIMIT_S,
                check=False,
            )
            assert done.returncode == 0, f"{step['name']}:\n{done.stdout}\n{done.stderr}"
            ran.append(step["name"])
    assert len(ran) == 5
    suite = ET.parse(site / "chaos" / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own output
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "2",
        "0",
        "0",
        "0",
    )
    runs = sorted((site / "chaos").glob("*/run-*"))
    assert len(runs) == 1, "both tests are of one cluster and one run"
    assert (runs[0] / "report.html").is_file()
    assert (tmp_path / "images" / "hosts.tar").stat().st_size > 10**7


def test_actions_are_pinned_and_artifacts_are_kept_even_when_red():
    steps = the_job()["steps"]
    used = [step["uses"] for step in steps if "uses" in step]
    assert all("@v" in one for one in used)
    (upload,) = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact")]
    assert upload["if"] == "always()"
    (heal,) = [step for step in steps if step.get("run") == "dethrone heal"]
    assert heal["if"] == "always()"
