"""How far a long command is, and when it will be done."""

from __future__ import annotations

import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.report.meter import JudgingMeter, Meter
from dethrone.harness.report.terminal import Screen


class Clock:
    """Stands until it is moved."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_meter_says_every_two_seconds_how_much_is_done_and_left(clock, capsys):
    meter = Meter(Screen(json=True), "runs", clock=clock)
    for second, done in ((1, 10), (2, 20), (3, 30), (4, 40), (9, 100)):
        clock.now = second * SECOND
        meter(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "20 of 100 runs, 10.0 a second, about 8 s left",
        "40 of 100 runs, 10.0 a second, about 6 s left",
    ]


def test_what_comes_after_is_a_part_of_what_is_left(clock, capsys):
    meter = Meter(Screen(json=True), "events", after=0.5, clock=clock)
    meter(0, 100)
    clock.now = 5 * SECOND
    meter(50, 100)
    assert capsys.readouterr().err == "50 of 100 events, 10.0 a second, about 10 s left\n"


def test_what_reading_took_says_how_long_the_checkers_will_take(clock, capsys):
    meter = JudgingMeter(Screen(level=1, json=True), clock=clock)
    meter("events", 0, 10)
    clock.now = 50 * SECOND
    for second, done in ((50, 0), (60, 1), (95, 19)):
        clock.now = second * SECOND
        meter("checkers", done, 20)
    assert capsys.readouterr().err.splitlines() == [
        "1 of 20 checkers, 0.1 a second, about 30 s left",
        "19 of 20 checkers, 0.4 a second, about 2 s left",
    ]


@pytest.mark.parametrize(("level", "lines"), [(-1, 0), (0, 0), (1, 2)])
def test_judging_is_shown_without_a_terminal_only_where_more_is_asked_for(level, lines, clock, capsys):
    meter = JudgingMeter(Screen(level=level, json=True), clock=clock)
    for what in ("events", "checkers"):
        meter(what, 0, 4)
        clock.now += 3 * SECOND
        meter(what, 3, 4)
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", lines)
