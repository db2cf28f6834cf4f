"""Which build of a described system a run tested: recorded in its plan, history, corpus and reports."""

import json

import msgspec
import pytest

from dethrone.clusters.own.system import load
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Versioned
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.campaign.options_record import told
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft, with_plan
from dethrone.harness.report.screens import cluster_words
from tests.clusters.own.described import TEXT


def described(tmp_path, line):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace('name = "mine"', f'name = "mine"\n{line}'))
    return load(file)


def test_a_version_is_said_or_printed_by_a_command_in_the_descriptions_folder(tmp_path):
    (tmp_path / "VERSION").write_text("\n1.4.2-g1f3a\nand more\n")
    assert described(tmp_path, 'version = "1.4.1"').version() == "1.4.1"
    found = described(tmp_path, 'version_command = "cat VERSION"')
    assert isinstance(found, Versioned)
    assert found.version() == "1.4.2-g1f3a"
    assert described(tmp_path, "").version() == ""


@pytest.mark.parametrize(
    ("command", "why"), [("cat NONE", "exit code 1"), ("true", "no output"), ("no-such-program", "No such file")]
)
def test_a_command_that_does_not_say_it_is_named(tmp_path, command, why):
    with pytest.raises(ConfigError, match=why) as error:
        described(tmp_path, f'version_command = "{command}"').version()
    assert "mine.toml" in error.value.where


def test_there_is_one_source_of_the_version(tmp_path):
    with pytest.raises(ConfigError, match="both version and version_command"):
        described(tmp_path, 'version = "1"\nversion_command = "true"')


def test_a_build_is_named_wherever_the_system_is():
    drafted = draft(RunOptions(system="raft", backend="sim", nodes=3, tags={"commit": "1f3a"}), seed=1)
    plan = with_plan(drafted, system_version="1.4.2").plan
    assert cluster_words(plan) == "raft 1.4.2 (profile raft), 3 nodes on sim, commit 1f3a"
    old = json.loads(msgspec.json.encode(plan))
    del old["system_version"], old["tags"]
    assert msgspec.convert(old, Plan).tags == {}


def test_a_campaign_without_tags_resumes_one_of_a_version_that_had_none():
    assert not {"tags", "checkers"} & set(told(RunOptions(system="raft"), version="1"))
    assert told(RunOptions(system="raft", tags={"commit": "1f3a"}), version="1")["tags.commit"] == "1f3a"
