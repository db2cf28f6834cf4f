"""Bugs of somebody's own: a class in a file, refused before anything starts if it is none of the protocol's rules."""

from __future__ import annotations

import os

import msgspec
import pytest

from dethrone.checkers.crash import CHECKER as CRASH
from dethrone.clusters.systems.kraft import SYSTEM as KRAFT
from dethrone.clusters.systems.raft import SYSTEM as RAFT
from dethrone.clusters.targets.plugged import plugged, shipped_file
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.harness.cli.exam import own_bug
from dethrone.harness.core import renamed
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import BrokenVariant, ConfigError
from dethrone.harness.engine.exam.exam_tasks import run_exam, tasks_for
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse

SOURCE = '''
from dethrone.clusters.targets.raft.rules import Rules


class ClingsToPower(Rules):
    """Keeps leading without a quorum of answers."""

    def steps_down(self, age):
        return False


class CannotBeMade(Rules):
    def __init__(self, knobs):
        raise ValueError("no")


class CrashesAtStart(Rules):
    def grants_vote(self, **_):
        return [][0]


class CrashesLater(Rules):
    def truncates(self, own_term, new_term):
        raise KeyError("boom")


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
    with pytest.raises(BrokenVariant, match="there_is_no_such_module") as error:
        plugged(f"{broken}:X", Rules)
    assert error.value.exit_code == 3


@pytest.mark.parametrize("what", ["fifo", "zero", "directory", "endless"])
def test_a_file_that_is_nothing_to_read_to_its_end_is_refused_at_once(tmp_path, what):
    path = tmp_path / "bugs.py"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "zero":
        path.symlink_to("/dev/zero")
    elif what == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    for read in (lambda name: plugged(name, Rules), shipped_file):
        with pytest.raises(ConfigError, match="cannot be read: it is") as error:
            read(f"{path}:X")
        assert error.value.where == f"the variant {path}:X"


def test_a_file_is_executed_as_python_reads_it(tmp_path):
    path = tmp_path / "bugs.py"
    path.write_bytes(
        b"# coding: latin-1\nfrom dethrone.clusters.targets.raft.rules import Rules\n"
        b"NAME = '\xe9'\nclass Own(Rules):\n    def of(self, x: int): ...\n    place = __file__, __name__\n"
    )
    own = plugged(f"{path}:Own", Rules)
    assert own.of.__annotations__ == {"x": int}, "no future of the file that executes it"
    assert own.place == (str(path), "dethrone_variant_bugs")
    assert own.of.__globals__["NAME"] == "é"


def test_a_file_of_an_earlier_version_finds_the_modules_that_it_imports(file, monkeypatch):
    monkeypatch.setattr(renamed, "MODULES", {"clusters.of_old": Rules.__module__.removeprefix("dethrone.")})
    file.write_text(SOURCE.replace(Rules.__module__, "clusters.of_old"))
    assert "from clusters.of_old import Rules" in file.read_text()
    assert issubclass(plugged(f"{file}:ClingsToPower", Rules), Rules)


def test_a_host_gets_the_file(file):
    content, name = shipped_file(f"{file}:ClingsToPower")
    assert content == file.read_bytes()
    assert name == "ClingsToPower"
    assert shipped_file("28-never-steps-down") is None


@pytest.mark.slow
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


def test_a_variant_whose_constructor_raises_is_trouble_before_anything_starts(file):
    with pytest.raises(BrokenVariant, match="ValueError: no"):
        RAFT.knobs({}, profile=None, variant=f"{file}:CannotBeMade")


def test_a_variant_that_crashes_at_start_is_trouble_of_the_exam_and_not_a_bug_that_was_missed(file, tmp_path):
    own = own_bug(f"{file}:CrashesAtStart", ("one-vote-per-term",), nodes_min=3)
    tasks = tasks_for(["raft"], own=own, strategy="triggered", budget_ns=60 * SECOND)
    (row,), _ = run_exam(tasks, tmp_path / "exam", jobs=1, on_row=lambda *_: None)
    assert row.found.runs == 1
    assert "crashes before the first fault" in row.found.trouble
    assert "IndexError: list index out of range" in row.found.trouble


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "reason"), [("CrashesAtStart", "first-failure"), ("CrashesLater", "complete")])
def test_a_core_that_raises_in_a_rule_fails_the_crash_checker_and_nothing_else_is_needed(file, variant, reason):
    options = RunOptions(system="raft", backend="sim", variant=f"{file}:{variant}", faults=("partition",), seed=3)
    done = rehearse(options, {"crash": CRASH}, seed=3)
    assert done.history.end.reason == reason
    (verdict,) = done.judgement.verdicts
    assert (verdict.outcome, done.judgement.outcome) == ("fail", "fail")
    assert "exited on its own with code 71" in verdict.findings[0].sentence
    assert verdict.findings[0].data["log"]
    honest = rehearse(msgspec.structs.replace(options, variant=None), {"crash": CRASH}, seed=3)
    assert honest.judgement.verdicts[0].outcome == "pass"
    assert honest.judgement.outcome == "unknown", "crash alone is evidence neither for safety nor for liveness"


@pytest.mark.slow
def test_the_exam_finds_a_crash_by_the_checker_that_is_named_for_it(file, tmp_path):
    own = own_bug(f"{file}:CrashesLater", ("crash",), nodes_min=3)
    tasks = tasks_for(["raft"], own=own, strategy="triggered", budget_ns=60 * SECOND)
    (row,), _ = run_exam(tasks, tmp_path / "exam", jobs=1, on_row=lambda *_: None)
    assert (row.found.by, row.found.base) == ("crash", "pass")


def test_a_path_without_a_directory_is_another_file_in_another_place(tmp_path, monkeypatch):
    found = []
    for name in ("one", "two"):
        place = tmp_path / name
        place.mkdir()
        (place / "bugs.py").write_text(SOURCE)
        monkeypatch.chdir(place)
        found.append(plugged("bugs.py:ClingsToPower", Rules))
    assert found[0] is not found[1]
