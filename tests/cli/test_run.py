from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dethrone.harness.core.errors import ClusterError, Interrupted


def test_a_passing_run_writes_its_reports_and_exits_0(call, engine):
    done = call("run", "raft", "--out", "a", "--nodes", "3", "--faults", "kill", "--set", "x=1", "--concurrency", "2n")
    assert done.exit_code == 0
    (options,) = engine.asked
    assert (options.nodes, options.faults, options.settings, options.processes) == (3, ("kill",), {"x": "1"}, 6)
    for name in ("report.html", "junit.xml"):
        assert (Path("a") / name).stat().st_size > 500
    assert "PASS" in done.stdout
    assert "a/report.html" in done.stdout


def test_a_failing_run_writes_its_reports_all_the_more(call, engine):
    engine.story = "fail"
    done = call("run", "nacos", "--out", "a", "--junit-xml", "b/c.xml", "--json")
    assert done.exit_code == 1
    value = json.loads(done.stdout)
    assert (value["verdict"], value["trouble"], value["run_dir"], value["report"]) == ("fail", [], "a", "a/report.html")
    assert value["checkers"]["one-vote-per-term"]["verdict"] == "fail"
    assert "both were elected" not in done.stdout.split("{", 1)[0]
    assert "n2 and n4 were both elected leader of term 7" in done.stderr
    assert ET.parse("b/c.xml").getroot().get("failures") == "2"  # noqa: S314 - our own output
    assert "n2 and n4 were both elected" in Path("a/report.html").read_text()


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_annotations_are_on_stdout_unless_an_object_is(call, engine, monkeypatch, tmp_path, flag):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    engine.story = "fail"
    done = call("run", "nacos", "--github", *flag)
    stream = done.stderr if flag else done.stdout
    assert "::error title=nacos-seed-42%3A one-leader-per-term::n2 and n4" in stream
    assert (tmp_path / "summary.md").read_text().startswith("### ❌ FAIL")
    if flag:
        json.loads(done.stdout)


def test_trouble_beside_a_violation_is_exit_3_and_both_are_told(call, engine):
    engine.story, engine.trouble = "fail", ("n3 was not healed",)
    value = json.loads((done := call("run", "nacos", "--json")).stdout)
    assert done.exit_code == value["exit_code"] == 3
    assert (value["verdict"], value["trouble"]) == ("fail", ["n3 was not healed"])


def test_an_interrupted_run_has_its_report(call, engine):
    engine.interrupted = True
    done = call("run", "raft", "--out", "a", "--json")
    assert done.exit_code == 130
    assert json.loads(done.stdout)["interrupted"] is True
    assert Path("a/report.html").exists()


@pytest.mark.parametrize(("error", "code"), [(ClusterError("lost n1"), 3), (Interrupted("stopped"), 130)])
def test_an_error_after_the_first_line_still_leaves_a_report(call, engine, error, code):
    engine.raises = error
    done = call("run", "raft", "--out", "a", "--json")
    assert done.exit_code == code
    value = json.loads(done.stdout)
    assert value["run_dir"] == "a"
    assert value["trouble"] == (["lost n1"] if code == 3 else [])
    assert Path("a/report.html").exists()


def test_a_bug_after_the_first_line_still_leaves_a_report(call, engine):
    engine.raises = ZeroDivisionError("oops")
    assert call("run", "raft", "--out", "a").exit_code == 3
    assert "unexpected error" in Path("a/report.html").read_text()


def test_a_report_that_cannot_be_written_is_trouble_and_hides_no_verdict(call, engine):
    Path("file").write_text("")
    done = call("run", "raft", "--out", "a", "--junit-xml", "file/x.xml", "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 3
    assert value["verdict"] == "pass"
    assert "cannot write x.xml" in value["trouble"][0]
    assert Path("a/report.html").exists()


def test_a_dry_run_prints_the_plan_and_touches_nothing(call, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    words = ("run", "raft", "--dry-run", "--seed", "3", "--faults", "partition,kill")
    value = json.loads(call(*words, "--json").stdout)
    assert value["plan"]["schedule"]["steps"]
    assert value["seed"] == 3
    assert value == json.loads(call(*words, "--json").stdout)
    shown = call(*words)
    assert shown.exit_code == 0
    assert "partition" in shown.stdout
    assert not Path("runs").exists()


def test_show_config_prints_the_merged_configuration(call):
    Path("dethrone.toml").write_text("[run]\nnodes = 3\n")
    done = call("run", "raft", "--show-config", "--seed", "4")
    assert "nodes = 3  # dethrone.toml" in done.stdout
    assert "seed = 4  # flag" in done.stdout
    value = json.loads(call("run", "raft", "--show-config", "--json").stdout)
    assert value["config"]["nodes"] == {"value": 3, "origin": "dethrone.toml"}


def test_a_misspelt_variable_is_noted(call, engine, monkeypatch):
    monkeypatch.setenv("DETHRONE_NODE", "3")
    assert "did you mean DETHRONE_NODES?" in call("run", "raft").stderr


def test_fail_on_violation_forgives_doubt(call, engine):
    call("run", "raft", "--fail-on", "violation", "--no-first-failure", "--keep-cluster")
    (options,) = engine.asked
    assert (options.fail_on, options.stop_at_first_failure, options.keep_cluster) == ("violation", False, True)


def test_quiet_shows_the_verdict_and_little_else(call, engine):
    assert call("run", "raft", "-q", "--out", "a").stdout.splitlines() == [
        "PASS  every promised property held, with evidence",
        "report      a/report.html",
    ]
