"""Shrinking from the command line: which failure it keeps, and a scenario that runs again."""

import pytest

from dethrone.harness.commands.shrink import _named, _scenario, _wanted
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.engine.replay.stored_run import Stored
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.own.described import TEXT


def test_the_failure_that_heads_the_verdict_is_kept_unless_another_is_named():
    failed = ("acknowledged-survives", "leader-has-majority")
    assert _wanted(failed, (), where="run") == ("acknowledged-survives",)
    assert _wanted(failed, ("leader-has-majority",), where="run") == ("leader-has-majority",)
    with pytest.raises(ConfigError, match="crash did not fail") as error:
        _wanted(failed, ("crash",), where="run")
    assert "leader-has-majority" in error.value.next_step


def test_a_shrunk_run_of_a_described_system_is_a_scenario_that_runs(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace("[promise]", '[knobs]\nquick = false\npassword = ""\n[promise]'))
    settings = {"quick": "true", "password": "opensesame"}
    options = RunOptions(system=str(file), nodes=3, seed=7, settings=settings)
    plan = draft(options, seed=7).plan
    stored = Stored(options=options, plan=plan, planned=plan.schedule, realised=None)
    text = scenario_toml(_scenario(options, stored, plan.schedule, ["crash"]))
    assert 'system = "./mine.toml"' in text
    assert "opensesame" not in text
    (tmp_path / "scenario.toml").write_text(text)
    done = call("run", "mine.toml", "--scenario", "scenario.toml", "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    assert '"quick":"true"' in done.stdout.replace(": ", ":")
    assert call("run", "other.toml", "--scenario", "scenario.toml", "--dry-run").exit_code == 64
    assert _named("raft") == "raft"
