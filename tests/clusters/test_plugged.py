"""Bugs of somebody's own: a class in a file, refused before anything starts if it is none of the protocol's rules."""

from __future__ import annotations

import pytest

from clusters.protocols.plugged import plugged, shipped_file
from clusters.protocols.raft.rules import Rules
from clusters.systems.kraft import SYSTEM as KRAFT
from clusters.systems.raft import SYSTEM as RAFT
from harness.cli.exam import own_bug
from harness.core.clock import SECOND
from harness.core.errors import ConfigError
from harness.engine.exam_jobs import run_exam, tasks_for

SOURCE = '''
from clusters.protocols.raft.rules import Rules


class ClingsToPower(Rules):
    """Leads on, whoever answers."""

    def steps_down(self, age):
        return False


class NoRules:
    pass
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bugs.py"
    path.write_text(SOURCE)
    return path


def test_a_class_in_a_file_is_a_variant(file):
    rules = plugged(f"{file}:ClingsToPower", Rules)
    assert issubclass(rules, Rules)
    assert RAFT.knobs({}, profile=None, variant=f"{file}:ClingsToPower")


def test_what_is_no_class_of_rules_of_that_protocol_is_refused(file):
    with pytest.raises(ConfigError, match="no class of rules"):
        plugged(f"{file}:NoRules", Rules)
    with pytest.raises(ConfigError, match="ClingsToPower"):
        plugged(f"{file}:Missing", Rules)
    with pytest.raises(ConfigError, match="no file"):
        plugged(f"{file.parent}/none.py:X", Rules)
    with pytest.raises(ConfigError, match="no class of rules"):
        KRAFT.knobs({}, profile=None, variant=f"{file}:ClingsToPower")


def test_a_file_that_cannot_be_imported_says_why(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import there_is_no_such_module\n")
    with pytest.raises(ConfigError, match="there_is_no_such_module"):
        plugged(f"{broken}:X", Rules)


def test_a_host_gets_the_file(file):
    content, name = shipped_file(f"{file}:ClingsToPower")
    assert content == file.read_bytes()
    assert name == "ClingsToPower"
    assert shipped_file("28-never-steps-down") is None


def test_the_exam_finds_a_bug_that_is_in_no_list(file, tmp_path):
    own = own_bug(f"{file}:ClingsToPower", ("step-down-without-quorum",), nodes_min=3)
    tasks = tasks_for(["raft"], own=own, strategy="triggered", budget_ns=60 * SECOND)
    (row,), _ = run_exam(tasks, tmp_path / "exam", jobs=1, on_row=lambda *_: None)
    assert row.found.by == "step-down-without-quorum"


def test_a_variant_without_an_expected_checker_is_refused(file):
    with pytest.raises(ConfigError, match="belong together"):
        own_bug(f"{file}:ClingsToPower", (), nodes_min=3)
    with pytest.raises(ConfigError, match="unknown checker"):
        own_bug(f"{file}:ClingsToPower", ("one-vote",), nodes_min=3)
