"""What surprises users: which cuts count, and what the table shows of them."""

from __future__ import annotations

from dethrone.harness.core.clock import SECOND
from tests.acceptance.gallery import SETTINGS, Setting
from tests.acceptance.surprises import PAGE, TABLE, gathered, line

SETTING = Setting("nats", "always-shapes")


def cut(name, *, held_s=20, majority=True, leader_after="n1", silent_s=1.0, exposed_s=0.0, outcome="installed"):
    times = {"held_ns": held_s, "silent_ns": silent_s, "exposed_ns": exposed_s}
    return {
        "cut": name,
        "outcome": outcome,
        "majority": majority,
        "leader_after": leader_after,
        **{key: int(s * SECOND) for key, s in times.items()},
    }


def row(*cuts, by_noise=False):
    return {"by_noise": by_noise, "cuts": cuts}


def test_cuts_count_that_were_in_force_long_enough_in_runs_without_noise():
    rows = [
        row(cut("isolate", silent_s=3, exposed_s=2.5), cut("isolate", held_s=2), cut("bridge", leader_after="")),
        row(cut("halves", majority=False, leader_after="", silent_s=20), {"cut": "bridge", "outcome": "skipped"}),
        row(cut("one-link", outcome="indeterminate")),
        row(cut("one-link", leader_after="", silent_s=20), by_noise=True),
        {"by_noise": False},
    ]
    found = gathered(SETTING, rows, [{"lost": 5, "of": 1_000}, {"lost": 0, "of": 1_500}], day="2026-11-28")
    figures = "3 (20.0 s) | 2 | bridge | 3.0 s, 3.0 s | 1, for up to 2.5 s | 5 of 2,500 (0.2 %)"
    assert line(found) == f"| nats | always | {figures} | 2026-11-28 |"
    assert line(found).count("|") == TABLE.head[0].count("|")


def test_a_setting_that_promises_writes_and_shows_nothing_says_so():
    told = line(gathered(SETTING, [row(cut("bridge", silent_s=0.5))], [], day="2026-11-28"))
    assert told == "| nats | always | 1 (20.0 s) | 1 | none | 0.5 s, 0.5 s | none | promised not to be | 2026-11-28 |"
    assert line(gathered(SETTING, [], [], day="2026-11-28")).count("| - |") == 1


def test_the_page_has_a_place_for_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert TABLE.merged(page, []) == page
    assert {system for system, _ in TABLE.order} == {one.system for one in SETTINGS if one.cuts}
