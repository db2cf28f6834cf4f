"""A margin in words, as a plot and as a row; and the page of the documentation is what its stored rows make."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.harness.commands.margin import table
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.margin.dose_search import Answer, Search
from dethrone.harness.engine.margin.margin import Margin, MarginRow, Question, read_margin
from dethrone.harness.report.margin import BEGIN, END, answer_words, markdown, plot, put_into, table_row
from dethrone.harness.report.terminal import Screen

DOCS = Path(__file__).parents[2] / "docs"


def margin(answer, *rows):
    asked = Question(
        fault="pause",
        breaks="leader-lost",
        victims="leader",
        hold_ns=SECOND,
        per_run=10,
        search=Search(least=50 * MS, most=2 * SECOND),
        options={"system": "raft", "on": "docker"},
    )
    return Margin(question=asked, rows=rows, answer=answer)


def row(dose_ms, broke, held, spoiled=0, **more):
    return MarginRow(dose=dose_ms * MS, seed=1, broke=broke, held=held, spoiled=spoiled, **more)


ROWS = (row(100, 0, 12, load=3.5, day="2026-01-02"), row(400, 18, 0, spoiled=2, why={"noise": 2}, load=12.0))


def test_the_answer_names_both_ends_and_what_is_undecided():
    found = margin(Answer(lo=100 * MS, hi=400 * MS, undecided=(200 * MS,)), *ROWS)
    said = answer_words(found)
    assert said == (
        "leader-lost by pause of leader: between 100 ms (holds) and 400 ms (breaks), confidence 95 %; "
        "undecided at 200 ms"
    )
    assert "not up to 2 s" in answer_words(margin(Answer(lo=2 * SECOND, hi=None)))
    assert "at 50 ms already" in answer_words(margin(Answer(lo=None, hi=50 * MS)))


def test_a_search_that_is_not_over_shows_no_answer():
    assert "no answer yet" in answer_words(margin(None, *ROWS))
    assert table_row(margin(None, ROWS[0]))[4:6] == ("100 ms (not finished)", "not finished")


def test_a_search_that_was_stopped_claims_nothing_of_doses_that_it_did_not_decide():
    stopped = margin(Answer(lo=None, hi=400 * MS, why="30 trials were spoiled"), ROWS[1])
    assert table_row(stopped)[4:6] == ("stopped: spoiled", "400 ms (stopped: spoiled)")
    assert "stopped; certain is 400 ms (breaks)" in answer_words(stopped)


def test_a_search_that_tried_all_its_doses_shows_its_certain_ends_and_that_the_rest_is_undecided():
    tried = Answer(lo=100 * MS, hi=400 * MS, undecided=(200 * MS,), why="the search tried all its doses")
    ends = ("100 ms (undecided in between)", "400 ms (undecided in between)")
    assert table_row(margin(tried, *ROWS))[4:6] == ends


def test_a_plot_has_a_line_a_dose_with_its_counts():
    first, second = plot(margin(None, *ROWS))
    assert first.startswith("100 ms  ░")
    assert "broke 0 of 12: holds" in first
    assert second.count("█") == 20
    assert "broke 18 of 18, 2 spoiled" in second


def test_a_row_of_the_table_states_how_many_trials_at_which_load():
    found = table_row(margin(Answer(lo=100 * MS, hi=400 * MS), *ROWS))
    assert found[4:] == ("100 ms", "400 ms", "30 (2)", "3.5 to 12", "2026-01-02")


def test_a_table_replaces_the_one_of_a_page_and_a_page_without_a_place_is_refused():
    text = markdown([margin(Answer(lo=100 * MS, hi=None), *ROWS)])
    page = put_into(f"a\n{BEGIN}\nold\n{END}\nb\n", text, where="x.md")
    assert page == f"a\n{BEGIN}\n{text}\n{END}\nb\n"
    with pytest.raises(ConfigError, match="no place"):
        put_into("a", text, where="x.md")


def test_the_table_of_the_documentation_is_what_its_stored_rows_make(tmp_path):
    page = tmp_path / "margins.md"
    page.write_text((DOCS / "margins.md").read_text())
    assert table([DOCS / "margins"], page, Screen(level=-1)) == 0
    assert page.read_text() == (DOCS / "margins.md").read_text()


def test_a_stored_margin_with_an_answer_has_only_rows_that_lead_to_it():
    stored = [read_margin(place.parent) for place in (DOCS / "margins").rglob("margin.json")]
    assert stored
    for one in stored:
        assert sum(row.broke + row.held for row in one.rows) > 0
        assert msgspec.json.encode(one)


def test_a_directory_without_margins_is_said(tmp_path):
    with pytest.raises(ConfigError, match="no margin is stored"):
        table([tmp_path], None, Screen(level=-1))
