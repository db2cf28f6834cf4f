"""Noise of a host whose leader was cut off: stepping down takes no votes, so it is only late, and by how much."""

from __future__ import annotations

from dethrone.checkers.noise import Disturbance, Stretch
from dethrone.checkers.step_down_without_quorum import CHECKER as STEPS_DOWN
from tests.checkers.histories import Tale, plan, promise


def test_what_a_timer_alone_decides_is_late_by_the_stretches_and_by_one_round_in_all():
    noise = Disturbance([Stretch(at, at + 60, "n1", "stall") for at in (100, 200, 300)], round_ns=100)
    assert noise.charged(("n1",), 0, 1000) == 360
    assert noise.late(("n1",), 0, 1000) == 3 * 60 + 100
    assert noise.late(("n1",), 0, 130) == noise.charged(("n1",), 0, 130) == 30
    assert noise.late(("n2",), 0, 1000) == 0


def test_a_claim_that_outlasts_its_charge_fails():
    tale = Tale(3).up().polls(500, 1, "n1")
    tale.isolate("n1", "n1")
    tale.polls(600, 1, "n1").noise("n1", 100).polls(1000, 1, "n1")
    assert STEPS_DOWN.check(tale.end(), promise(), plan()).outcome == "fail"


def test_a_claim_that_outlasts_all_stalls_fails_though_each_is_within_a_round_of_the_next():
    def clinging(times):
        tale = Tale(3).up().polls(500, 1, "n1")
        tale.isolate("n1", "n1")
        for _ in range(times):
            tale.noise("n1", 60).polls(140, 1, "n1")
        return STEPS_DOWN.check(tale.end(), promise(), plan())

    assert (clinging(6).outcome, clinging(6).evidence["unknown_by"]) == ("unknown", "noise")
    assert clinging(20).outcome == "fail"
