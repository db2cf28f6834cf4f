"""Several versions of one described system: what each node gets, how it starts as each, and what it says it is."""

import json
import re
from pathlib import Path

import pytest

from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import Upgradable
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.own.described import TEXT, described, specs

COMMAND = "command = \"/opt/mine --id {name} --peers {members} --log '{log_dir}/x y'\""
TWO = TEXT.replace(COMMAND, 'command = "{run_dir}/{version}/mine --id {name}"').replace(
    'term = "raft.term"', 'term = "raft.term"\nversion = "build.version"'
)
VERSIONS = """
[versions."1.4"]
files = { "{run_dir}/{version}/mine" = "old" }
[versions."2.0"]
files = { "{run_dir}/{version}/mine" = "new" }
texts = { "{run_dir}/{version}/conf" = "I am {version} of {name}" }
env = { LEVEL = "debug" }
reports = "v2.0"
"""


def read(name):
    return FileRead({"old": b"\x7fELF1", "new": b"\x7fELF2"}[name], executable=True)


def system(*changes, text=TWO + VERSIONS):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return OwnSystem(parse(text, path="my.toml", read=read))


def test_each_version_has_files_of_its_own_and_a_command_of_its_own():
    found = system()
    node = specs(found)["n1"]
    files = found.files(node)
    assert files["/r/1.4/mine"] == b"\x7fELF1"
    assert files["/r/2.0/mine"] == b"\x7fELF2"
    assert files["/r/2.0/conf"] == b"I am 2.0 of n1"
    commands = found.commands(node)
    assert list(commands) == ["1.4", "2.0"]
    assert commands["1.4"].argv[-3:] == ("/r/1.4/mine", "--id", "n1")
    assert commands["2.0"].argv[-3:] == ("/r/2.0/mine", "--id", "n1")
    assert commands["2.0"].env["LEVEL"] == "debug"
    assert "LEVEL" not in commands["1.4"].env


def test_nodes_begin_with_the_newest_version_unless_the_file_or_the_knob_says_otherwise():
    found = system()
    assert isinstance(found, Upgradable)
    assert found.versions() == ("1.4", "2.0")
    assert found.version() == found.begins_with(found.knobs({}, profile=None, variant=None)) == "2.0"
    for word, version in (("1.4", "1.4"), ("oldest", "1.4"), ("newest", "2.0")):
        assert found.begins_with(found.knobs({"version": word}, profile=None, variant=None)) == version
    older = system(('name = "mine"', 'name = "mine"\nversion = "1.4"'))
    assert older.version() == older.knobs({}, profile=None, variant=None)["version"] == "1.4"
    node = specs(older)["n1"]
    assert older.command(node) == older.commands(node)["1.4"]
    with pytest.raises(ConfigError, match="version '3'"):
        found.knobs({"version": "3"}, profile=None, variant=None)


def test_what_a_node_reports_is_called_by_the_versions_name():
    found = system()
    node = specs(found)["n1"]

    def said(version):
        body = {"raft": {"state": "leader", "term": 3, "leader": "n1", "commit": 1}, "build": {"version": version}}
        return found.reading(node, json.dumps(body).encode()).version

    assert (said("1.4"), said("v2.0"), said("2.0"), said("9"), said(None)) == ("1.4", "2.0", "2.0", "9", None)


def test_generated_files_of_two_versions_do_not_overwrite_each_other():
    found = system((COMMAND.replace(COMMAND, 'command = "{run_dir}/{version}/mine --id {name}"'), ""), text=SEVERAL)
    node = specs(found)["n1"]
    configs = {
        place: json.loads(text) for place, text in found.files(node).items() if place.endswith("supervisor.json")
    }
    assert {place: one["processes"][0]["argv"][0] for place, one in configs.items()} == {
        "/r/1.4/supervisor.json": "/r/1.4/mine",
        "/r/2.0/supervisor.json": "/r/2.0/mine",
    }
    assert "/r/1.4/supervisor.json" in found.commands(node)["1.4"].argv


SEVERAL = (
    TWO
    + VERSIONS
    + """
[[process]]
name = "mine"
command = "{run_dir}/{version}/mine"
[[process]]
name = "other"
command = "/opt/other"
"""
).replace("[trace]", '[trace]\nfile = "{log_dir}/mine.log"')


def test_a_system_without_versions_is_as_before():
    found = OwnSystem(described())
    assert found.versions() == ()
    assert found.begins_with({}) == ""
    assert "version" not in found.knobs({}, profile=None, variant=None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([('version = "build.version"', "")], "does not say which of the versions it is"),
        ([('"{run_dir}/{version}/mine" = "old"', '"{run_dir}/mine" = "old"')], "would be a file of every version"),
        ([('[versions."1.4"]', '[versions."a/b"]')], "no name of a version"),
        ([('[versions."1.4"]', '[versions."oldest"]')], "no name of a version"),
        ([('name = "mine"', 'name = "mine"\nversion = "1"')], "unknown version '1'"),
        ([('name = "mine"', 'name = "mine"\nversion_command = "true"')], "both .versions. and version_command"),
        ([("[probe]", "[knobs]\nversion = 1\n[probe]")], "a knob 'version'"),
        ([('reports = "v2.0"', 'reports = "1.4"')], "two versions report '1.4'"),
        ([('files = { "{run_dir}/{version}/mine" = "old" }', "files = 3")], "wrong form"),
        ([('name = "mine"', 'name = "mine"\npython = "x"')], "wrong form"),
        ([("ports = {", "files = 3\nports = {")], "wrong form"),
        ([('env = { LEVEL = "debug" }', 'envs = { LEVEL = "debug" }')], "unknown key 'envs'"),
        ([("{version}/mine --id", "{versoin}/mine --id")], "unknown word '{versoin}'"),
    ],
)
def test_a_mistake_in_versions_is_named(changes, why):
    with pytest.raises(ConfigError, match=why):
        system(*changes)


def test_one_version_needs_no_table():
    with pytest.raises(ConfigError, match="1 versions"):
        system(text=TWO + VERSIONS.partition('[versions."2.0"]')[0])


def test_the_reference_shows_two_versions_that_are_right():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```toml\n(# of two versions.*?)^```$", page, re.MULTILINE | re.DOTALL)
    text = block + TEXT[TEXT.index("[promise]") :]
    found = parse(text, path="page.toml", read=lambda _: FileRead(b"", executable=True))
    assert list(found.versions) == ["1.4", "2.0"]
    assert found.version == "2.0"
    assert found.reports == {"1.4": "1.4", "v2.0": "2.0"}
    assert found.versions["1.4"].contents == {"{run_dir}/1.4/server": b""}
    assert found.versions["2.0"].node.go == {"{run_dir}/2.0/server": "cmd/server"}


def planned(tmp_path, *, text=TWO + VERSIONS, seed=1, **more):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    return draft(RunOptions(system=str(path), backend="docker", nodes=3, **more), seed=seed).plan


def test_the_plan_says_which_versions_there_are_and_with_which_one_nodes_begin(tmp_path):
    plan = planned(tmp_path, settings={"version": "oldest"}, faults=("upgrade",))
    assert plan.versions == ("1.4", "2.0")
    assert plan.system_version == plan.knobs["version"] == "1.4"
    assert "upgrade" in plan.schedule.kinds


def test_a_run_that_can_change_no_version_is_refused_before_it_begins(tmp_path):
    with pytest.raises(MissingCapability, match=r"begin with 2\.0, the newest") as error:
        planned(tmp_path, faults=("upgrade",))
    assert "--set version=oldest" in error.value.next_step
    with pytest.raises(MissingCapability, match="the oldest of its versions"):
        planned(tmp_path, faults=("downgrade",), settings={"version": "1.4"})
    with pytest.raises(MissingCapability, match="only one version"):
        draft(RunOptions(system="raft", backend="docker", nodes=3, faults=("upgrade",)), seed=1)
    with pytest.raises(MissingCapability, match="its hosts lack versions"):
        draft(RunOptions(system=str(tmp_path / "mine.toml"), backend="attach", nodes=3, faults=("upgrade",)), seed=1)


def test_a_schedule_that_names_a_version_that_is_not_at_hand_is_refused(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[step]]\n[[step.fault]]\nkind = "upgrade"\nvictims = "node:n1"\nparams = { to = "2.1" }\n')
    with pytest.raises(ConfigError, match=r"unknown version '2.1'"):
        planned(tmp_path, schedule=plan, settings={"version": "1.4"})


@pytest.mark.parametrize("seed", range(8))
def test_a_drawn_schedule_changes_first_what_the_first_version_allows(tmp_path, seed):
    for version, first in (("oldest", "upgrade"), ("newest", "downgrade")):
        more = {"settings": {"version": version}, "faults": ("upgrade", "downgrade", "kill")}
        schedule = planned(tmp_path, seed=seed, **more).schedule
        kinds = [fault.kind for step in schedule.steps for fault in step.faults if fault.kind != "kill"]
        assert kinds[0] == first
        assert set(kinds) == {"upgrade", "downgrade"}
