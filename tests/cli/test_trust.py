"""A stranger's run directory or scenario runs nothing that it names, unless the user says that he trusts it."""

import json
import os
import shutil

import msgspec
import pytest

from dethrone.harness.core import owned
from dethrone.harness.core.scenario import Expected, Scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.engine.run.file_trust import named_by
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

SPY = """
from pathlib import Path

from dethrone.clusters.targets.raft.rules import Rules

Path(__file__).with_name("executed").touch()


class Bug(Rules):
    pass
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A short simulated run."""
    out = tmp_path_factory.mktemp("runs") / "honest"
    options = RunOptions(system="raft", backend="sim", nodes=3, seed=1, time_limit_ns=5_000_000_000, faults=(), out=out)
    return run(options, Silence()).run_dir


@pytest.fixture
def strangers(honest, tmp_path):
    """The run in a directory of somebody else, changed by ``forge``; and the file that must not be executed."""

    place = tmp_path / "strangers"
    shutil.copytree(honest, place)
    spy = place / "v.py"
    spy.write_text(SPY)

    def forge(**options):
        record = json.loads((place / "run.json").read_text())
        record["options"] |= options
        (place / "run.json").write_text(json.dumps(record))
        plan = json.loads((place / "plan.json").read_text())
        plan |= {name: options[name] for name in ("variant",) if name in options}
        (place / "plan.json").write_text(json.dumps(plan))
        return place

    return forge, f"{spy}:Bug", place / "executed"


@pytest.mark.parametrize("words", [["replay"], ["shrink"], ["replay", "--node", "n1"]])
def test_a_variant_in_a_file_that_a_run_directory_names_is_not_executed(call, strangers, words):
    forge, variant, executed = strangers
    place = forge(variant=variant)
    verb, *more = words
    done = call(verb, str(place), *more)
    assert done.exit_code == 64
    assert "would be executed with your rights" in done.stderr
    assert "--trust" in done.stderr
    assert not executed.exists()


def test_a_run_directory_that_is_trusted_is_replayed(call, strangers, tmp_path):
    forge, variant, executed = strangers
    place = forge(variant=variant)
    done = call("replay", str(place), "--trust", "--out", str(tmp_path / "again"), "-q")
    assert done.exit_code in {0, 1, 2}
    assert executed.exists()


@pytest.mark.parametrize("words", [["check"], ["report"]])
def test_judging_and_drawing_a_run_directory_execute_nothing(call, strangers, words):
    forge, variant, executed = strangers
    place = forge(variant=variant, system=str(executed.with_name("evil.toml")))
    done = call(*words, str(place))
    assert done.exit_code in {0, 1, 2}
    assert not executed.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"system": "/x/evil.toml"},
        {"base": "evil/image:latest"},
        {"hosts": "/x/hosts.toml", "backend": "ssh"},
        {"host": ["n1=root@192.0.2.1"], "backend": "ssh"},
        {"host": ["shop"], "backend": "attach"},
    ],
)
def test_descriptions_images_and_hosts_that_a_run_directory_names_are_refused_too(call, strangers, options):
    forge, _, _ = strangers
    done = call("replay", str(forge(**options)))
    assert done.exit_code == 64
    assert "would be executed with your rights" in done.stderr


def test_a_run_on_hosts_that_the_user_names_does_not_ask_for_the_stored_ones():
    options = RunOptions(system="raft", backend="ssh", host=("n1=root@192.0.2.1",))
    assert named_by(options)
    assert named_by(options, hosts_given=True) == []


def test_a_plan_that_names_another_variant_than_the_options_is_refused(call, strangers):
    forge, variant, executed = strangers
    place = forge(variant=variant)
    record = json.loads((place / "run.json").read_text())
    record["options"]["variant"] = None
    (place / "run.json").write_text(json.dumps(record))
    assert call("replay", str(place), "--node", "n1").exit_code != 0
    assert not executed.exists()


def test_the_journals_own_choice_of_a_build_is_not_a_plans_to_make(call, strangers):
    forge, variant, executed = strangers
    place = forge(variant="as it ran")
    (place / "nodes" / "n1").mkdir(parents=True)
    head = {"head": 1, "node": "n1", "variant": variant}
    (place / "nodes" / "n1" / "journal.jsonl").write_text(json.dumps(head) + "\n")
    done = call("replay", str(place), "--node", "n1")
    assert done.exit_code == 64
    assert not executed.exists()


def test_a_scenarios_file_that_names_code_is_refused_unless_the_user_names_it_too(call, strangers, tmp_path):
    _, variant, executed = strangers
    shrunk = tmp_path / "scenario.toml"

    def write(**more):
        made = Scenario(
            name="s", source="x", title="t", text="t", system="raft", nodes=3, time_limit_ns=5_000_000_000,
            schedule=Schedule(seed=1, strategy="none", steps=()), expected=Expected(verdict="pass"),
        )  # fmt: skip

        shrunk.write_text(scenario_toml(msgspec.structs.replace(made, **more), comment="c"))

    write(variant=variant)
    words = ["run", "--scenario", str(shrunk), "--on", "sim", "--dry-run"]
    refused = call(*words)
    assert refused.exit_code == 64
    assert "would be executed with your rights" in refused.stderr
    assert not executed.exists()
    assert call(*words, "--variant", variant).exit_code == 0
    assert call(*words, "--trust").exit_code == 0
    write(system="/x/evil.toml")
    refused = call(*words)
    assert refused.exit_code == 64
    assert "would be executed with your rights" in refused.stderr


def test_a_configuration_file_cannot_trust_a_file(call, tmp_path):
    (tmp_path / "dethrone.toml").write_text("[run]\ntrust = true\n")
    done = call("run", "raft", "--on", "sim", "--dry-run")
    assert done.exit_code == 64
    assert "cannot trust" in done.stderr


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a variant of its own, named by its ``dethrone.toml``; and the file that says it was executed."""
    place = tmp_path / "project"
    place.mkdir()
    place.chmod(0o755)
    (place / "bugs.py").write_text(SPY)
    (place / "dethrone.toml").write_text('[run]\non = "sim"\nnodes = 3\nvariant = "bugs.py:Bug"\n')
    (place / "dethrone.toml").chmod(0o644)
    monkeypatch.chdir(place)
    return place, place / "executed"


def test_a_project_of_ones_own_names_its_variant_in_its_settings(call, project):
    _, executed = project
    assert call("run", "raft", "--dry-run").exit_code == 0
    assert executed.exists()


@pytest.mark.parametrize("whose", ["another's", "anybody's file", "anybody's directory"])
def test_a_variant_that_the_settings_of_somebody_else_name_is_not_executed(call, project, monkeypatch, whose):
    place, executed = project
    if whose == "another's":
        monkeypatch.setattr(owned, "selves", lambda _env: frozenset({os.geteuid() + 1}))
    elif whose == "anybody's file":
        (place / "dethrone.toml").chmod(0o666)
    else:
        place.chmod(0o777)
    for words in (
        ["run", "raft", "--dry-run"],
        ["run", "raft", "--dry-run", "--config", str(place / "dethrone.toml")],
        ["campaign", "raft", "--seeds", "0..1", "--out", "o"],
    ):
        refused = call(*words)
        assert refused.exit_code == 64
        assert "would be executed with your rights: the variant bugs.py:Bug" in refused.stderr
        assert "dethrone.toml" in refused.stderr
        assert "--trust" in refused.stderr
    assert not executed.exists()
    assert "bugs.py:Bug" in call("run", "raft", "--show-config").stdout, "looking is what the message asks for"
    assert call("run", "raft", "--dry-run", "--variant", "28-never-steps-down").exit_code == 0
    assert not executed.exists()
    assert call("run", "raft", "--dry-run", "--trust").exit_code == 0
    assert executed.exists()


def test_a_file_in_the_directory_of_somebody_else_is_not_ones_own_by_a_name_without_a_directory(call, project):
    place, executed = project
    settings = place.parent / "mine.toml"
    (place / "dethrone.toml").rename(settings)
    place.chmod(0o777)
    assert call("run", "raft", "--dry-run", "--config", str(settings)).exit_code == 64
    assert not executed.exists()
    settings.write_text(f'[run]\non = "sim"\nvariant = "{place}/bugs.py:Bug"\n')
    assert call("run", "raft", "--dry-run", "--config", str(settings)).exit_code == 0


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('on = "docker"\nbase = "evil/image:latest"', "the image evil/image:latest"),
        ('on = "ssh"\nhost = ["n1=root@192.0.2.1"]', "the hosts n1=root@192.0.2.1"),
    ],
)
def test_images_and_hosts_that_the_settings_of_somebody_else_name_are_refused_too(call, project, line, named):
    place, _ = project
    (place / "dethrone.toml").write_text(f"[run]\n{line}\n")
    place.chmod(0o777)
    refused = call("run", "raft", "--dry-run")
    assert refused.exit_code == 64
    assert f"would be executed with your rights: {named}" in refused.stderr


def test_all_else_that_the_settings_of_somebody_else_say_counts(call, project):
    place, _ = project
    (place / "dethrone.toml").write_text('[run]\non = "sim"\nnodes = 3\nvariant = "28-never-steps-down"\n')
    place.chmod(0o777)
    done = call("run", "raft", "--dry-run", "--json")
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["plan"]["nodes"]) == 3


def test_the_command_that_runs_a_run_again_is_quoted_for_a_shell(call, strangers):
    forge, _, _ = strangers
    place = forge(variant="x; touch /tmp/owned; $(id)")
    done = call("check", str(place))
    assert "'x; touch /tmp/owned; $(id)'" in " ".join((done.stdout + done.stderr).split())
