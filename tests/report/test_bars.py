"""Operations as bars in plain text: each bar in its place, and nothing from data that only looks like ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.report.bars import LABEL_MAX, ROWS_MAX, STEP, WIDTH_MAX, lines


def bar(process, call, ret, label="read", **more):
    return {"process": process, "label": label, "call": call, "ret": ret, "status": "ok", "role": "", **more}


def test_bars_stand_where_calls_and_returns_are_in_their_order():
    bars = [bar(0, 10, 900, "write 1"), bar(1, 11, None, "write 2", status="info"), bar(2, 950, 951, role="stuck")]
    assert lines({"bars": bars, "stuck_at": 951}) == [
        "0: write 1  ├───────┤",
        "1: write 2      ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▷",
        "2: read                 ├─╳─┤",
        "                            ▲ no valid order extends past this point",
    ]


def test_each_edge_of_a_cycle_has_its_line():
    edges = [{"from": "T1", "to": "T2", "kind": "rw", "why": "it was late"}]
    assert lines({"edges": edges}) == ["T1 ─rw→ T2  it was late"]


def test_of_many_operations_the_last_are_drawn_and_the_others_counted():
    drawn = lines({"bars": [bar(at, at, at + 1) for at in range(ROWS_MAX + 5)]})
    assert len(drawn) == ROWS_MAX + 1
    assert drawn[-1] == "(5 earlier operations are in the report)"


places = st.integers(0, 50)
bars = st.lists(
    st.builds(
        lambda process, call, more, label: bar(process, call, None if more is None else call + more, label),
        st.integers(0, 9),
        places,
        st.none() | st.integers(1, 50),
        st.text(max_size=80),
    ),
    min_size=1,
    max_size=40,
)


@given(bars, st.none() | places)
def test_lines_are_never_too_wide_and_no_bar_is_missing(bars, stuck_at):
    drawn = lines({"bars": bars, "stuck_at": stuck_at})
    assert sum("├" in line for line in drawn) >= min(len(bars), ROWS_MAX)
    assert all(len(line) <= LABEL_MAX + 2 + WIDTH_MAX + STEP + 40 for line in drawn)
    assert all("\n" not in line for line in drawn)


@pytest.mark.parametrize("data", [{}, {"bars": 7}, {"bars": [7]}, {"bars": [{"call": 1}]}, {"edges": [{"why": 1}]}])
def test_what_is_no_drawing_draws_nothing(data):
    assert lines(data) == []
