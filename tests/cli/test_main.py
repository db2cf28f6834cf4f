from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dethrone.harness.core.errors import ClusterError, Interrupted

USAGE = [
    (["bogus"], "No such command 'bogus'"),
    ([], "Exit codes:"),
    (["run"], "no system was named"),
    (["run", "raft", "--nope"], "No such option"),
    (["run", "rafft"], "did you mean 'raft'?"),
    (["run", "raft", "--faults", "kil"], "did you mean 'kill'?"),
    (["run", "raft", "--set", "time_faktor=1"], "time_factor"),
    (["run", "raft", "--set", "time_factor"], "does not have the form knob=value"),
    (["run", "raft", "--on", "dokcer"], "did you mean 'docker'?"),
    (["run", "raft", "--workload", "lgo"], "did you mean 'log'?"),
    (["run", "raft", "--strategy", "randum"], "did you mean 'random'?"),
    (["run", "raft", "--profile", "raft-papre"], "did you mean 'raft-paper'?"),
    (["run", "raft", "--variant", "nothing-like-it"], "unknown variant"),
    (["run", "raft", "--time-limit", "60"], "write time-limit like 60s"),
    (["run", "raft", "--time-limit", "1s"], "shorter than one fault"),
    (["run", "raft", "--nodes", "none"], "expected a whole number"),
    (["run", "raft", "--schedule", "nowhere.json"], "nowhere.json"),
    (["run", "raft", "--config", "nowhere.toml"], "nowhere.toml"),
    (["check"], "Missing argument"),
    (["check", "nowhere"], "does not exist"),
    (["campaign", "raft", "--seeds", "9..1", "--out", "x"], "is not a list of seeds"),
    (["campaign", "raft", "--seeds", "1"], "needs --seeds and --out"),
    (["campaign", "raft", "--seeds", "1", "--out", "x", "--seed", "4"], "No such option"),
    (["list", "everything"], "is not one of"),
    (["list", "variants", "--system", "rafft"], "did you mean 'raft'?"),
    (["demo", "--seed", "-3"], "--seed"),
]


@pytest.mark.parametrize(("words", "told"), USAGE)
def test_wrong_usage_exits_64_and_says_what_is_wrong(call, words, told):
    done = call(*words)
    assert done.exit_code == 64
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("words", "told"), [item for item in USAGE if item[0]])
def test_with_json_wrong_usage_is_one_object_too(call, words, told):
    done = call(*words, "--json")
    assert done.exit_code == 64
    value = json.loads(done.stdout)
    assert (value["verdict"], value["exit_code"]) == (None, 64)
    assert value["trouble"]


def test_the_exit_codes_are_in_the_help(call):
    shown = call("--help")
    assert shown.exit_code == 0
    for code in ("0", "1", "2", "3", "64", "130"):
        assert re.search(rf"^ +{code} +\w", shown.stdout, re.MULTILINE)
    assert "3 > 1 > 130 > 2 > 0" in shown.stdout


@pytest.mark.parametrize("verb", ["run", "check", "campaign", "report", "list", "doctor", "heal", "demo"])
def test_every_verb_has_help(call, verb):
    assert call(verb, "--help").exit_code == 0


def test_the_version(call):
    assert call("--version").stdout.startswith("dethrone, version ")


def test_a_bug_of_ours_is_trouble_with_its_traceback_in_a_file(call, engine):
    engine.raises_before = ZeroDivisionError("oops")
    done = call("run", "raft", "--json")
    assert done.exit_code == 3
    assert "unexpected ZeroDivisionError: oops" in done.stderr
    assert "Traceback" not in done.stderr
    place = re.search(r"the traceback is in (\S+),", done.stderr)[1]
    assert "ZeroDivisionError: oops" in Path(place).read_text()
    assert json.loads(done.stdout)["exit_code"] == 3


def test_debug_prints_the_traceback(call, engine):
    engine.raises_before = ZeroDivisionError("oops")
    assert "Traceback" in call("--debug", "run", "raft").stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClusterError("gone", where="n1", cause="no memory", next_step="dethrone doctor"), 3),
        (Interrupted("stopped"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_keeps_its_four_parts_and_its_code(call, engine, error, code):
    engine.raises_before = error
    done = call("run", "raft")
    assert done.exit_code == code
    if isinstance(error, ClusterError):
        assert done.stderr == "dethrone: gone\n  where: n1\n  likely cause: no memory\n  next: dethrone doctor\n"


def test_a_folder_that_shadows_ours_is_said(call, tmp_path, monkeypatch):
    (tmp_path / "dethrone").mkdir()
    (tmp_path / "dethrone" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = call("list", "systems")
    assert done.exit_code == 64
    assert f"{tmp_path / 'dethrone'} shadows dethrone's own package 'dethrone'" in done.stderr


def test_a_folder_named_like_one_of_the_repository_is_nobodys_business(call, tmp_path, monkeypatch):
    (tmp_path / "checkers").mkdir()
    (tmp_path / "checkers" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert call("run", "raft", "--show-config").exit_code == 0


@pytest.mark.parametrize(
    "what", ["systems", "faults", "checkers", "workloads", "variants", "strategies", "triggers", "models", "claims"]
)
def test_lists_show_names_and_where_they_come_from(call, what):
    done = call("list", what, "--json")
    assert done.exit_code == 0
    value = json.loads(done.stdout)
    assert value["rows"]
    assert all(row["from"].startswith("dethrone ") for row in value["rows"])
    assert "cannot be used" not in done.stdout
    assert call("list", what).stdout.strip()


def test_a_plug_in_that_cannot_be_loaded_is_listed_with_its_reason(call, monkeypatch):
    from dethrone.harness.core import registry
    from dethrone.harness.core.errors import ConfigError

    def broken(group, name):
        raise ConfigError("the plug-in cannot be imported: no numpy")

    monkeypatch.setattr(registry, "load", broken)
    value = json.loads(call("list", "faults", "--json").stdout)
    assert all("no numpy" in row["needs"] for row in value["rows"])


def test_only_faults_are_tried_on_a_backend(call):
    done = call("list", "systems", "--on", "docker")
    assert done.exit_code == 64
    assert "belongs to `list faults`" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("margin", "raft", "--fault", "pause"), "needs --fault and --out"),
        (("margin", "raft", "--fault", "pauze", "--out", "x"), "pause"),
        (("margin", "raft", "--fault", "link.loss", "--to", "101%", "--out", "x"), "1 to 100"),
        (("margin", "raft", "--fault", "pause", "--from", "9s", "--to", "1s", "--out", "x"), "below the largest"),
        (("margin", "raft", "--table", "."), "measures nothing"),
    ],
)
def test_a_margin_that_cannot_be_asked_says_why_and_starts_nothing(call, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*words)
    assert done.exit_code == 64
    assert said in done.stderr
    assert not list(tmp_path.iterdir())
