from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clean import for_output
from dethrone.harness.core.verdict import Finding
from dethrone.harness.report import github, report_files


@given(st.text(), st.text())
def test_a_text_can_neither_end_its_command_nor_start_another(title, message):
    line = github.command("error", title, message)
    assert "\n" not in line
    assert "\r" not in line
    head, _, data = line.removeprefix("::error title=").partition("::")
    assert ":" not in head
    assert "," not in head
    assert data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%") == for_output(message)


def test_findings_are_errors_and_doubt_is_a_warning(failing):
    lines = github.annotation_lines(failing.judgement, ["the engine hung"], name="nacos-seed-42")
    assert lines[0] == "::error title=nacos-seed-42%3A harness trouble::the engine hung"
    assert "::error title=nacos-seed-42%3A one-leader-per-term::n2 and n4 were both elected leader of term 7" in lines
    assert "::warning title=nacos-seed-42%3A leader-when-owed is unknown::no window was long enough" in lines
    assert not any("n1 lost a write" in line for line in lines)  # excused


def test_no_more_annotations_than_github_shows_and_the_rest_is_said(failing):
    many = tuple(Finding(sentence=f"finding {i}", certificate=()) for i in range(50))
    verdict = msgspec.structs.replace(failing.judgement.verdicts[0], findings=many)
    lines = github.annotation_lines(msgspec.structs.replace(failing.judgement, verdicts=(verdict,)), [], name="x")
    assert len(lines) == github.ANNOTATIONS_MAX
    assert lines[-1] == "::warning title=x::41 more are in the report"


def test_the_summary_holds_verdict_proof_and_all_properties(failing):
    text = github.summary(failing.judgement, failing, [], report=None)
    assert text.startswith("### ❌ FAIL · nacos (profile raft), 5 nodes on docker")
    assert "n2 was elected leader of term 7 by the votes of n2, n3 and n5  ◀" in text
    assert "| log-matching | ➖ n/a | not observable: this system keeps no log |" in text


@given(st.text())
def test_a_cell_keeps_its_table_whole(text):
    cell = github.cell(text)
    assert "\n" not in cell
    assert "<" not in cell
    assert "|" not in cell.replace("\\|", "")


def test_the_summary_is_appended_where_github_says(tmp_path):
    target = tmp_path / "summary.md"
    target.write_text("before\n")
    report_files.write_summary("text", {"GITHUB_STEP_SUMMARY": str(target)})
    report_files.write_summary("nowhere", {})
    assert target.read_text() == "before\ntext"
