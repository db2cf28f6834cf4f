"""Random worlds in which something is known to break: it does, and only with the knob that lets it."""

import pytest

from dethrone.harness.core.rng import Rng
from tests.clusters.joyqueue.spec import QUICK, World
from tests.world.chaos import drawn, play


@pytest.mark.slow
def test_late_send_tasks_break_the_original_and_not_the_mended_one():
    broken = {}
    for profile in ("joyqueue", "joyqueue-mended"):
        broken[profile] = 0
        for seed in range(40):
            world = World("ABC", seed=seed, profile=profile, task_delay_max_ms=4000, **QUICK)
            play(world, drawn(World, Rng(seed).stream("late"), "ABC", count=100))
            broken[profile] += bool(world.problems)
    assert broken["joyqueue"] > 0
    assert broken["joyqueue-mended"] == 0


def test_a_crowd_of_groups_elects_each_its_own_leader():
    world = World("ABC", groups=8, **QUICK)
    assert world.run(3000, until=lambda: all(world.settled(number) for number in range(8)))
    assert len({world.leader(number) for number in range(8)}) > 1
    assert world.problems == []


@pytest.mark.slow
def test_reads_answered_from_what_is_applied_may_miss_what_was_acknowledged():
    missed = 0
    for seed in range(40):
        world = World("ABC", seed=seed, reads="local", **QUICK)
        play(world, drawn(World, Rng(seed).stream("local"), "ABC", count=120))
        missed += any("stale read" in problem for problem in world.problems)
    assert missed > 0
