"""A long run's page: an overview, and details in side files next to it, which are drawn where a reader zooms in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from html import unescape
from pathlib import Path

import msgspec
import pytest

from dethrone.harness.core.events import FaultEvent, Invoke, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.long_history import LongHistory, Part
from dethrone.harness.report import html, page_data, report_files, screens, side_files
from dethrone.harness.report.side_files import Folder, ReportError
from tests.report.test_html import HOSTILE, shape

PAGE_JS = Path(__file__).with_name("page.js")


@pytest.fixture
def every_run_is_long(monkeypatch):
    """Side files of a few seconds each, for runs of a minute."""
    monkeypatch.setattr(side_files, "EMBEDDED_MAX", 1_000)
    monkeypatch.setattr(side_files, "FILE_BYTES", 1_500)


@pytest.fixture
def long_page(passing, every_run_is_long, tmp_path):
    """The page of the run that passes, as a long one."""
    return report_files.write_html(passing, tmp_path / "report.html")


def data_of(page):
    return json.loads(shape(page.read_text()).data)


def side_file(path):
    """Number, digest and rows of a side file."""
    text = path.read_text()
    number, digest, rows = re.fullmatch(r'dethroneDetails\((\d+),"([0-9a-f]+)",(.*)\);\n', text, re.DOTALL).groups()
    return int(number), digest, json.loads(rows)


def side_rows(page, kind):
    """All rows of one kind in all side files of a page."""
    folder = page.parent / data_of(page)["details"]["folder"]
    return [row for path in sorted(folder.iterdir()) for row in side_file(path)[2].get(kind, [])]


def in_node(page, *steps):
    """What the page's script answers to these steps."""
    if shutil.which("node") is None and not os.environ.get("CI"):
        pytest.skip("node is not installed")
    done = subprocess.run(["node", PAGE_JS, page, json.dumps(steps)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_short_run_stays_one_file(passing, tmp_path):
    page = report_files.write_html(passing, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert page.read_text() == html.render(passing)
    assert "details" not in data_of(page)
    assert "file:" not in page.read_text()


def test_a_long_run_has_a_folder_next_to_its_page(long_page):
    assert sorted(path.name for path in long_page.parent.iterdir()) == ["report-details", "report.html"]
    listed = data_of(long_page)["details"]["files"]
    names = sorted(path.name for path in (long_page.parent / "report-details").iterdir())
    assert names == [f"{number:04}.js" for number in range(len(listed))]
    assert len(names) > 10


def test_every_detail_of_a_long_run_is_in_exactly_one_side_file(passing, long_page):
    whole = page_data.page(passing)
    assert Counter(mark[4] for mark in side_rows(long_page, "marks")) == Counter(mark[4] for mark in whole["marks"])
    assert sorted(side_rows(long_page, "ops")) == sorted(whole["ops"])
    assert [row["fault"] for row in side_rows(long_page, "faults")] == [row["fault"] for row in whole["faults"]]
    for kind in ("roles", "troubles"):
        mine = Counter((row[0], *row[1:3]) for row in side_rows(long_page, kind))
        assert mine == Counter((lane, *row[:2]) for lane, of in enumerate(whole["lanes"]) for row in of[kind])


def test_the_page_knows_which_time_each_side_file_covers(long_page):
    listed = data_of(long_page)["details"]["files"]
    for path in sorted((long_page.parent / "report-details").iterdir()):
        number, digest, rows = side_file(path)
        lo, hi, known = listed[number]
        assert known == digest
        times = [t for kind in ("roles", "troubles") for row in rows.get(kind, []) for t in row[1:3]]
        times += [mark[0] for mark in rows.get("marks", [])] + [t for op in rows.get("ops", []) for t in op[:2]]
        times += [t for fault in rows.get("faults", []) for t in fault["span"] if t is not None]
        assert lo == min(times)
        assert hi == max(times)


def test_a_side_file_is_not_larger_than_its_bound(long_page):
    sizes = [path.stat().st_size for path in (long_page.parent / "report-details").iterdir()]
    assert max(sizes) < 1_500 + 500


def test_hostile_texts_stay_texts_in_side_files(passing, every_run_is_long, tmp_path):
    events = list(passing.history)
    for event in events:
        if type(event) is Traced and event.name == "vote":
            data = {**event.data, "candidate": HOSTILE}
            events[event.seq] = msgspec.structs.replace(event, role=HOSTILE, data=data)
        elif type(event) is Invoke:
            events[event.seq] = msgspec.structs.replace(event, f=HOSTILE)
        elif type(event) is FaultEvent:
            events[event.seq] = msgspec.structs.replace(event, why=HOSTILE)
    files = msgspec.structs.replace(passing, history=History(events))
    page = report_files.write_html(files, tmp_path / "report.html")
    assert "<script>alert" not in page.read_text()
    for path in (tmp_path / "report-details").iterdir():
        assert not set(path.read_text()) & set("<>&\u2028\u2029")
    for kind, place in (("roles", 6), ("marks", 5), ("ops", 4), ("faults", "why")):
        assert any("</script>" in row[place] for row in side_rows(page, kind)), "the text is there, and harmless"
    t = next(event.span.hi for event in events if type(event) is Traced and event.name == "vote") // 1000
    *_, state = in_node(page, ["show", t - 1_000_000, t + 1_000_000], ["load"], ["state"])
    assert any("</script>" in mark[5] for mark in state["marks"])


def test_making_a_page_again_leaves_no_side_file_of_the_earlier_one(passing, failing, every_run_is_long, tmp_path):
    page = report_files.write_html(passing, tmp_path / "report.html")
    before = len(list((tmp_path / "report-details").iterdir()))
    report_files.write_html(failing, page)
    after = {path.name for path in (tmp_path / "report-details").iterdir()}
    assert after == {f"{number:04}.js" for number in range(len(data_of(page)["details"]["files"]))}
    assert len(after) < before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report-details", "report.html"]


def test_making_a_page_again_gives_the_same_bytes(passing, long_page):
    def content():
        return {path: path.read_bytes() for path in long_page.parent.rglob("*") if path.is_file()}

    first = content()
    report_files.write_html(passing, long_page)
    assert content() == first


def test_what_a_killed_report_left_is_removed(passing, every_run_is_long, tmp_path):
    for name in (".report-details.new", ".report-details.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0000.js").write_text('dethroneDetails(0,"00",{')
    report_files.write_html(passing, tmp_path / "report.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report-details", "report.html"]


def test_a_page_of_a_short_run_takes_the_folder_of_a_long_one_away(passing, long_page, monkeypatch):
    monkeypatch.setattr(side_files, "EMBEDDED_MAX", 10_000_000)
    report_files.write_html(passing, long_page)
    assert [path.name for path in long_page.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["notes.txt", "0000.js"])
def test_a_folder_of_someone_else_is_not_touched(passing, every_run_is_long, tmp_path, name):
    (tmp_path / "report-details").mkdir()
    mine = tmp_path / "report-details" / name
    mine.write_text("mine")
    with pytest.raises(ReportError, match="not a report's"):
        report_files.write_html(passing, tmp_path / "report.html")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "report.html").exists()


def test_a_short_run_needs_no_folder_and_leaves_one_of_someone_else_alone(failing, tmp_path):
    mine = tmp_path / "report-details" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert report_files.write_html(failing, tmp_path / "report.html").exists()
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["report-details", ".report-details.new"])
def test_a_link_in_place_of_the_folder_is_not_followed(passing, every_run_is_long, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "0000.js").write_text("dethroneDetails(")
    (tmp_path / name).symlink_to(elsewhere)
    with pytest.raises(ReportError):
        report_files.write_html(passing, tmp_path / "report.html")
    assert (elsewhere / "0000.js").exists()


def test_a_disk_that_refuses_is_reported_as_such(passing, every_run_is_long, tmp_path):
    (tmp_path / "no").write_text("")
    with pytest.raises(ReportError, match="cannot write report-details"):
        report_files.write_html(passing, tmp_path / "no" / "report.html")


def test_the_page_names_its_folder_and_says_what_a_missing_one_means(long_page):
    page = unescape(re.sub(r"</?code>", "", long_page.read_text()))
    assert "Its details are in the folder report-details next to this page" in page
    assert re.search(r'id="missing" hidden>The folder report-details next to this page is missing', page)


def test_a_page_may_load_scripts_of_its_own_disk_only_if_it_has_side_files(passing, long_page):
    policy = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
    assert "script-src 'unsafe-inline' 'self' file:;" in policy.search(long_page.read_text())[1]
    assert "script-src 'unsafe-inline';" in policy.search(html.render(passing))[1]
    assert not re.search(r"https?:|//[a-z]+\.[a-z]", long_page.read_text())


def test_the_details_of_a_window_are_those_that_a_short_runs_page_draws(passing, long_page):
    whole = page_data.page(passing)
    lo, hi = 19_000_000, 21_000_000
    before, _, asked, loaded, state = in_node(long_page, ["state"], ["show", lo, hi], ["state"], ["load"], ["state"])
    assert before["overview"]
    assert asked["overview"], "not loaded yet"
    assert loaded["files"] < len(data_of(long_page)["details"]["files"])
    assert not state["overview"]
    assert not state["missing"]

    def within(rows):
        return [row for row in rows if row[0] <= hi and row[1] >= lo]

    for mine, theirs in zip(state["lanes"], whole["lanes"], strict=True):
        assert within(mine["roles"]) == within(theirs["roles"])
        assert within(mine["troubles"]) == within(theirs["troubles"])
    assert [mark[:7] for mark in state["marks"] if lo <= mark[0] <= hi] == [
        mark for mark in whole["marks"] if lo <= mark[0] <= hi
    ]
    assert state["faults"] >= 1


def test_a_page_without_its_folder_shows_the_overview_and_the_message(long_page):
    shutil.rmtree(long_page.parent / "report-details")
    _, _, state = in_node(long_page, ["load"], ["show", 19_000_000, 21_000_000], ["state"])
    assert state["missing"]
    assert state["overview"]
    assert "folder of the details is missing" in state["where"]


def test_a_side_file_of_another_page_is_not_drawn(passing, failing, every_run_is_long, tmp_path):
    page = report_files.write_html(passing, tmp_path / "report.html")
    other = report_files.write_html(failing, tmp_path / "other.html")
    (tmp_path / "report-details").rename(tmp_path / "aside")
    (tmp_path / "other-details").rename(tmp_path / "report-details")
    _, _, _, state = in_node(page, ["load"], ["show", 1_000_000, 2_000_000], ["load"], ["state"])
    assert state["missing"]
    assert state["overview"]
    assert other.exists()


def test_zooming_out_draws_the_overview_again(long_page):
    show = [["show", 19_000_000, 21_000_000], ["load"], ["state"], ["show", 0, 61_000_000], ["state"]]
    *_, near, _, far = in_node(long_page, *show)
    assert not near["overview"]
    assert far["overview"]


@pytest.mark.parametrize("canvas", ["lanes", "terms", "rate", "latency", "elections", "availability"])
def test_every_drawing_of_the_overview_answers_a_pointer(long_page, canvas):
    (found,) = in_node(long_page, ["hover", canvas, 700, 170])
    assert found["text"]


def test_marks_that_a_witness_says_better_are_not_drawn(passing, every_run_is_long, tmp_path):
    """The end of a history decides that: a core's word ``vote`` counts until a witness says ``vote``, too."""
    events = list(passing.history)
    words = [event for event in events if getattr(event, "name", "") == "vote"]
    events[words[0].seq] = msgspec.structs.replace(words[0], source="core")
    files = msgspec.structs.replace(passing, history=History(events))
    page = report_files.write_html(files, tmp_path / "report.html")
    assert data_of(page)["details"]["dropped"] == ["vote"]
    t = words[0].span.hi // 1000
    *_, state = in_node(page, ["show", t - 1_000_000, t + 1_000_000], ["load"], ["state"])
    assert words[0].seq not in {mark[4] for mark in state["marks"]}
    assert words[1].seq in {mark[4] for mark in state["marks"]}


def test_reports_of_a_history_that_stays_on_disk_leave_it_there(passing, failing, tmp_path):
    for files in (passing, failing):
        events = list(files.history)
        long = LongHistory((Part(0, len(events), events, ""),), lambda: pytest.fail("it was read into memory"))
        on_disk = msgspec.structs.replace(files, directory=tmp_path, history=long)
        page = report_files.write_run(on_disk)
        assert page.read_text() == html.render(files)
        assert screens.failover_lines(on_disk) == screens.failover_lines(files)


def test_a_folder_holds_its_page_name(tmp_path):
    assert Folder(tmp_path / "a.report.html").path == tmp_path / "a.report-details"
