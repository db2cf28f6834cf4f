"""The campaigns of the gallery: how runs become rows, and what the table shows of them."""

from __future__ import annotations

import pytest

from tests.acceptance.gallery import SETTINGS, TABLE, Setting, gathered, line, words_of


def row(outcome="pass", **fields):
    plain = {"by_noise": False, "findings": [], "excused": 0, "faults": 7, "elections": 2, "ops_ok": 700}
    return {"outcome": outcome, **plain, **fields}


def test_runs_are_counted_by_what_they_came_to_and_a_checker_once_a_run():
    twice = ["one-vote-per-term: n1 …", "one-vote-per-term: n2 …", "log: lost"]
    rows = [
        row(),
        row("fail", findings=twice),
        row("unknown", by_noise=True, excused=2),
        row("unknown", findings=["log: excused"]),
    ]
    found = gathered(Setting("nats"), rows, day="2026-11-27")
    assert (found.runs, found.passed, found.noisy, found.unsure, found.excused) == (4, 1, 1, 1, 2)
    assert found.broken == {"one-vote-per-term": 1, "log": 1}
    told = "| nats | default | 4 | 150 | 1 | 1 | 1 | log (1), one-vote-per-term (1) | 2 | 28 | 8 | 2,800 | 2026-11-27 |"
    assert line(found) == told
    assert line(found).count("|") == TABLE.head[0].count("|")


def test_a_row_replaces_that_of_its_setting_and_leaves_the_others():
    old = [line(gathered(setting, [row()], day="2026-01-01")) for setting in SETTINGS[:2]]
    page = "\n".join(["before", TABLE.block.begin, *TABLE.head, *old[::-1], TABLE.block.end, "after"])
    new = line(gathered(SETTINGS[0], [row()] * 3, day="2026-02-02"))
    assert TABLE.merged(page, [new]) == "\n".join(
        ["before", TABLE.block.begin, *TABLE.head, new, old[1], TABLE.block.end, "after"]
    )
    with pytest.raises(ValueError, match="campaigns: begin"):
        TABLE.merged("no markers", [new])


def test_each_setting_has_a_place_of_its_own_and_its_words():
    assert len({setting.place for setting in SETTINGS}) == len(SETTINGS)
    for setting in SETTINGS:
        assert {*setting.words} <= {*map(str, words_of(setting))}
