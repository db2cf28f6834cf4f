from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.harness.engine.nightly.night_file import Entry
from dethrone.harness.engine.nightly.night_rows import Drawn, Ended, NightFinding, NightRow
from dethrone.harness.engine.nightly.run_order import Job, cells_of
from dethrone.harness.report import night

ENTRIES = (Entry(system="raft"),)
(CELL,) = cells_of(ENTRIES)
DRAWN = Drawn(name="2026-11-22", began_ns=0, version="1", entries=ENTRIES, jobs=())


def row(outcome: str, code: int, **fields) -> NightRow:
    return NightRow(
        job=Job(number=1, cell=CELL, seed=3, why="due"),
        outcome=outcome,  # type: ignore[arg-type]
        exit_code=code,
        run_dir="0001-raft",
        report="0001-raft/report.html",
        began_ns=0,
        elapsed_ns=10,
        reason="a reason",
        **fields,
    )


PASS, FAIL, UNKNOWN, TROUBLE = row("pass", 0), row("fail", 1), row("unknown", 2), row("unknown", 3)


EXCUSED = row("pass", 0, excused=2)


def ended(*rows: NightRow, **fields) -> Ended:
    return msgspec.structs.replace(
        Ended(directory=Path("/n"), drawn=DRAWN, rows=rows, left=0, interrupted=False, new=()), **fields
    )


@pytest.mark.parametrize(
    ("done", "fail_on", "code"),
    [
        (ended(PASS), "violation", 0),
        (ended(PASS, UNKNOWN), "violation", 0),
        (ended(PASS, UNKNOWN), "unknown", 2),
        (ended(UNKNOWN), "violation", 2),
        (ended(), "violation", 2),
        (ended(PASS, FAIL), "violation", 1),
        (ended(PASS, FAIL), "new", 0),
        (ended(PASS, FAIL, new=("raft/x",)), "new", 1),
        (ended(FAIL, TROUBLE), "violation", 3),
        (ended(PASS, trouble=("the corpus is full",)), "violation", 3),
        (ended(EXCUSED), "violation", 0),
        (ended(EXCUSED), "excused", 1),
        (ended(PASS), "excused", 0),
        (ended(PASS, UNKNOWN), "excused", 2),
        (ended(PASS, interrupted=True), "violation", 130),
        (ended(FAIL, interrupted=True), "violation", 1),
    ],
)
def test_the_exit_code_tells_the_worst_and_a_night_without_evidence_is_not_green(done, fail_on, code):
    assert night.code(done, fail_on) == code


def test_texts_of_the_system_cannot_become_markup():
    nasty = row("fail", 1, findings=(NightFinding(checker="x", sentence="<script>alert(1)</script>"),))
    page = night.page(DRAWN, [nasty], [])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert 'href="0001-raft/report.html"' in page


def test_a_night_announces_what_was_excused():
    assert "2 findings under faults that the system does not promise to tolerate" in night.sums([PASS, EXCUSED], 2)


def test_runs_without_a_turn_are_counted():
    assert night.sums([PASS, FAIL, TROUBLE], 5) == (
        "3 of 5 runs: 1 pass, 1 fail, 1 unknown, 1 with harness trouble, 2 not started"
    )


def test_a_night_says_how_many_runs_went_side_by_side_and_what_that_cost():
    rows = [
        msgspec.structs.replace(PASS, at_once=at_once, noise_percent=noise) for at_once, noise in ((1, 0.5), (3, 1.25))
    ]
    assert night.sums(rows, 2) == "2 of 2 runs: 2 pass, up to 3 at once, 0.875 % of a run charged to noise (median)"
