from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dethrone.harness.report import meter
from tests import stored


@pytest.fixture
def run_dir(templates):
    return Path(shutil.copytree(templates["fail"], "run"))


def test_a_stored_run_is_judged_again_by_the_real_checkers(call, run_dir):
    done = call("check", str(run_dir), "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == value["exit_code"] == 1
    assert value["verdict"] == "fail"
    assert value["checkers"]["one-leader-per-term"]["verdict"] == "fail"
    assert value["seed"] == 42
    assert not (run_dir / "report.html").exists()


@pytest.mark.parametrize(("flags", "shown"), [((), False), (("-v",), True), (("-v", "--json"), True), (("-q",), False)])
def test_progress_is_shown_on_stderr_and_never_in_what_was_asked_for(flags, shown, call, run_dir, monkeypatch):
    monkeypatch.setattr(meter, "EVERY_NS", -1)
    done = call("check", str(run_dir), *flags)
    assert (" checkers, " in done.stderr and "a second, about" in done.stderr) == shown
    assert "a second" not in done.stdout


def test_a_limit_on_memory_is_for_runs_too(call, run_dir):
    done = call("check", str(run_dir), "--memory", "200", "--json")
    assert json.loads(done.stdout)["verdict"] == "fail"
    assert call("check", str(run_dir), "--memory", "200", "--model", "kv").exit_code != 1


def test_a_history_file_alone_is_enough_beside_its_plan(call, run_dir):
    value = json.loads(call("check", str(stored.older(run_dir)), "--json").stdout)
    assert value["verdict"] == "fail"
    assert value["run_dir"] is None


def test_the_history_of_a_run_names_the_run(call, run_dir):
    value = json.loads(call("check", str(run_dir / "history"), "--json").stdout)
    assert (value["verdict"], value["run_dir"]) == ("fail", str(run_dir))


def test_update_stores_the_verdict_and_redraws(call, run_dir):
    (run_dir / "verdict.json").unlink()
    call("check", str(run_dir), "--update")
    assert json.loads((run_dir / "verdict.json").read_text())["judgement"]["outcome"] == "fail"
    assert (run_dir / "report.html").exists()


def test_a_truncated_history_is_said_and_never_passes(call, templates):
    run_dir = Path(shutil.copytree(templates["pass"], "cut"))
    path = stored.older(run_dir)
    path.write_bytes(path.read_bytes()[:-300])
    done = call("check", str(run_dir), "--json")
    value = json.loads(done.stdout)
    assert value["verdict"] != "pass"
    assert "cut off" in value["damage"]
    assert done.exit_code != 0
    assert "damage: line" in done.stderr


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"type":"end"}\n', b"\xff\xfe\x00"])
def test_a_foreign_file_is_trouble(call, content):
    Path("foreign.jsonl").write_bytes(content)
    done = call("check", "foreign.jsonl", "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 3
    assert (value["verdict"], value["checkers"]) == (None, {})
    assert value["trouble"]


def test_one_bad_path_does_not_hide_the_others(call, run_dir):
    Path("empty").mkdir()
    done = call("check", "empty", str(run_dir), "--json", "--junit-xml", "j.xml")
    value = json.loads(done.stdout)
    assert [run["verdict"] for run in value["runs"]] == [None, "fail"]
    assert (done.exit_code, value["verdict"]) == (3, "fail")
    root = ET.parse("j.xml").getroot()  # noqa: S314 - our own output
    assert len(root) == 2
    assert root.get("errors") != "0"


def test_report_draws_and_prints_its_path_only(call, run_dir):
    done = call("report", str(run_dir))
    assert done.stdout == f"{run_dir}/report.html\n"
    assert (run_dir / "junit.xml").exists()
    value = json.loads(call("report", str(run_dir), "--json", "--out", "x.html").stdout)
    assert value["report"] == "x.html"
    assert value["checkers"]["one-leader-per-term"]["findings"][0]["events"]


def test_a_report_is_the_same_bytes_each_time(call, run_dir):
    call("report", str(run_dir))
    first = (run_dir / "report.html").read_bytes()
    call("report", str(run_dir))
    assert (run_dir / "report.html").read_bytes() == first


def test_report_judges_what_was_never_judged(call, run_dir):
    (run_dir / "verdict.json").unlink()
    assert json.loads(call("report", str(run_dir), "--json").stdout)["verdict"] == "fail"


@pytest.fixture
def signatures(call, run_dir):
    """The signatures of the findings that fail the stored run."""
    checkers = json.loads(call("check", str(run_dir), "--json").stdout)["checkers"]
    found = [
        finding["signature"]
        for checker in checkers.values()
        for finding in checker["findings"]
        if checker["verdict"] == "fail" and not finding["excused"]
    ]
    assert found
    return list(dict.fromkeys(found))


def listed(*signatures):
    entries = [f'[[known]]\nsignature = "{one}"\nwhy = "planted"\n' for one in signatures]
    Path("known.toml").write_text("\n".join(entries))
    return "known.toml"


def test_findings_that_are_listed_are_shown_and_do_not_fail_a_check(call, run_dir, signatures):
    done = call("check", str(run_dir), "--known", listed(*signatures), "--fail-on", "violation", "--json")
    value = json.loads(done.stdout)
    assert value["verdict"] != "fail"
    assert value["exit_code"] != 1
    assert f"{len(signatures)} known finding" in value["reason"]
    assert value["checkers"]["one-leader-per-term"]["findings"][0]["known"] == "planted"


def test_a_finding_that_is_not_listed_fails_a_check_beside_those_that_are(call, run_dir, signatures):
    file = listed("raft/one-leader-per-term/0000000000")
    assert call("check", str(run_dir), "--known", file).exit_code == 1
    assert len(signatures) > 1
    done = call("check", str(run_dir), "--known", listed(*signatures[1:]), "--json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (1, "fail")


def test_an_update_stores_what_was_known(call, run_dir, signatures):
    call("check", str(run_dir), "--known", listed(*signatures), "--update")
    stored = (run_dir / "verdict.json").read_text()
    assert json.loads(stored)["judgement"]["outcome"] != "fail"
    assert '"known":"planted"' in stored.replace(" ", "")
    assert "known: planted" in (run_dir / "report.html").read_text()


def test_a_list_of_known_findings_that_is_none_is_refused_before_anything_is_judged(call, run_dir):
    Path("known.toml").write_text("[[know]]\n")
    done = call("check", str(run_dir), "--known", "known.toml")
    assert done.exit_code == 64
    assert "cannot parse known findings" in done.stderr
    assert call("check", str(run_dir), "--known", "missing.toml").exit_code == 64


def test_known_findings_are_for_runs_alone(call):
    Path("h.jsonl").write_text("")
    done = call("check", "h.jsonl", "--format", "jsonl", "--model", "register", "--known", "known.toml")
    assert "--known is for runs" in done.stderr
