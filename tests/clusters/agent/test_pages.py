"""Figures on pages of metrics: read, and compared with what was known before."""

from __future__ import annotations

import pytest

from dethrone.clusters.agent.host.pages import SearchedPage, SoughtFigure, figure_in

PAGE = b"""# TYPE beats counter
beats 12
beats_by{who="me"} 3.5 1700000000
odd NaN
word five
last 7"""


@pytest.mark.parametrize(
    ("series", "value"),
    [
        ("beats", 12),
        ('beats_by{who="me"}', 3.5),
        ("last", 7),
        ("odd", None),
        ("word", None),
        ("beat", None),
        ("# TYPE", None),
        ("", None),
        ("ast", None),
    ],
)
def test_a_series_is_its_whole_line_up_to_the_value(series, value):
    assert figure_in(PAGE, series) == value
    assert figure_in(PAGE.replace(b"\n", b"\n\n"), series) == value


def test_the_first_line_counts():
    assert figure_in(b"beats 1", "beats") == 1
    assert figure_in(b"", "beats") is None
    assert figure_in(b"beats ", "beats") is None


def sought(above=None, below=None):
    return SoughtFigure("x", "beats", above, below)


def seen(values, **bounds):
    """The changes that are reported of these values in turn; None: no page."""
    found = []
    page = SearchedPage("127.0.0.1", 1, "/metrics", [sought(**bounds)], found.append)
    for moment, value in enumerate(values):
        page.look(moment, b"" if value is None else b"beats %d" % value)
    return [(one["before"], one["now"], one["lo"]) for one in found]


def test_the_first_value_is_no_change_and_each_change_is_reported_since_the_last_page():
    assert seen([4, 4, 5, 5, 3]) == [(4, 5, 1), (5, 3, 3)]


def test_a_page_that_cannot_be_had_changes_nothing():
    assert seen([4, None, None, 5]) == [(4, 5, 0)]


def test_a_number_is_crossed_once_in_its_direction():
    assert seen([1, 3, 4, 3, 9], above=3) == [(3, 4, 1), (3, 9, 3)]
    assert seen([4, 3, 2, 1, 9, 0], below=3) == [(3, 2, 1), (9, 0, 4)]
