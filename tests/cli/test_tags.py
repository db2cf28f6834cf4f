"""Tags of a run: what it is found by later."""

import json

from dethrone.harness.core.events import Mark
from dethrone.harness.core.history_files import read_history


def test_a_run_records_its_tags_in_plan_history_and_reports(call, tmp_path):
    words = ("raft", "--on", "sim", "--nodes", "3", "--seed", "1", "--time-limit", "8s", "--faults", "none")
    out = tmp_path / "run"
    done = call("run", *words, "--tag", "commit=1f3a", "--tag", "branch=main", "--out", str(out), "--json")
    assert json.loads(done.stdout)["tags"] == {"commit": "1f3a", "branch": "main"}
    assert json.loads((out / "plan.json").read_text())["tags"] == {"commit": "1f3a", "branch": "main"}
    (start,) = [mark for mark in read_history(out / "history").of(Mark) if mark.name == "start"]
    assert start.data == {"tags": {"commit": "1f3a", "branch": "main"}}
    assert "branch main, commit 1f3a" in (out / "report.html").read_text()
    assert call("run", *words, "--tag", "a b=c").exit_code == 64
