"""Findings that the faults excuse: announced wherever a verdict stands, and an exit code for who wants none of them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec
import pytest

from dethrone.harness.commands import check
from dethrone.harness.core.verdict import Finding, excused_findings
from dethrone.harness.engine.run.exit_status import exit_code
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import github, json_objects, junit, page_data
from dethrone.harness.report.html import sections
from dethrone.harness.report.words import verdict_parts

WORDS = "PASS, with 3 findings under faults that the system does not promise to tolerate"


def lost(number: int) -> Finding:
    return Finding(
        sentence=f"write {number} is lost", certificate=(3,), excused="wipe on n1 is not among the tolerated"
    )


@pytest.fixture
def judgement(synthetic):
    found = [lost(number) for number in range(3)]
    verdicts = (
        synthetic.verdict("acknowledged-survives", "safety", "pass", findings=found, judged=7),
        synthetic.verdict("leader-when-owed", "liveness", "pass", windows=3),
    )
    return Judgement(outcome="pass", reason="held", verdicts=verdicts)


def test_a_verdict_that_lists_only_some_of_them_counts_all(synthetic):
    many = synthetic.verdict("lock", "safety", "pass", findings=[lost(1)], judged=1, excused=40)
    assert excused_findings([many]) == 40


def test_the_first_line_of_every_surface_announces_them(judgement, passing):
    files = msgspec.structs.replace(passing, judgement=judgement)
    assert "".join(text for text, _ in verdict_parts(judgement)).startswith(WORDS)
    assert WORDS in sections.header(files, page_data.drawn(files), [])
    assert WORDS.removeprefix("PASS") in github.summary(judgement, files, [], report=None).splitlines()[0]
    assert any(
        WORDS in line and line.startswith("::warning") for line in github.annotation_lines(judgement, [], name="x")
    )
    document = junit.render([junit.Suite(name="run", judgement=judgement)])
    suite = ET.fromstring(document).find("testsuite")  # noqa: S314 - our own document
    assert suite.find("properties/property").attrib == {"name": "excused", "value": WORDS}
    case = suite.find("testcase[@name='acknowledged-survives']")
    assert "write 2 is lost (excused: wipe on n1" in case.find("system-out").text
    assert case.find("failure") is None
    assert json_objects.judged(judgement, None)["excused"] == 3


def test_a_run_without_any_and_a_failing_run_announce_none(passing, failing):
    for files in (passing, failing):
        assert "does not promise to tolerate" not in "".join(text for text, _ in verdict_parts(files.judgement))
    assert json_objects.judged(passing.judgement, None)["excused"] == 0


@pytest.mark.parametrize(
    ("outcome", "excused", "fail_on", "expected"),
    [
        ("pass", 3, "unknown", 0),
        ("pass", 3, "violation", 0),
        ("pass", 3, "excused", 1),
        ("pass", 0, "excused", 0),
        ("unknown", 0, "excused", 2),
        ("unknown", 1, "excused", 1),
        ("fail", 0, "excused", 1),
        (None, 0, "violation", 2),
    ],
)
def test_only_fail_on_excused_makes_them_a_violation(outcome, excused, fail_on, expected):
    assert exit_code(outcome=outcome, trouble=False, interrupted=False, fail_on=fail_on, excused=excused) == expected


def test_trouble_stands_above_them():
    assert exit_code(outcome="pass", trouble=True, interrupted=False, fail_on="excused", excused=3) == 3


def test_check_judges_again_and_exits_by_them(tmp_path, synthetic, judgement, monkeypatch):
    directory = synthetic.passing_run(tmp_path / "run")
    monkeypatch.setattr("dethrone.harness.engine.run.judge.judge", lambda *_, **__: judgement)
    codes = {word: check.check(directory, fail_on=word).code for word in ("unknown", "violation", "excused")}
    assert codes == {"unknown": 0, "violation": 0, "excused": 1}
    assert check.check(directory).as_object()["excused"] == 3
