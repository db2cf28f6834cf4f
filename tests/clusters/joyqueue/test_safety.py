"""Random worlds: what must hold holds whatever happens; what is known to break breaks only with late send tasks."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append
from dethrone.harness.core.rng import Rng
from tests.clusters.joyqueue.spec import QUICK, World
from tests.world.chaos import drawn, play, steps

settings.register_profile("joyqueue", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
worlds = settings(settings.get_profile("joyqueue"), max_examples=60)


@pytest.mark.slow
@worlds
@given(steps(World, "ABC"), st.integers(0, 1000))
def test_three_nodes_whose_send_tasks_are_on_time_stay_safe(schedule, seed):
    world = play(World("ABC", seed=seed, **QUICK), schedule)
    assert world.problems == []


@worlds
@given(steps(World, "ABCDE"), st.integers(0, 1000), st.sampled_from([1, 8]))
def test_five_mended_nodes_stay_safe_with_late_tasks_and_small_batches(schedule, seed, batch):
    knobs = {"max_entries_per_append": batch, **QUICK}
    world = World("ABCDE", seed=seed, profile="joyqueue-mended", late_tasks=True, **knobs)
    assert play(world, schedule).problems == []


@pytest.mark.slow
@worlds
@given(steps(World, "ABC"), st.integers(0, 1000))
def test_three_groups_on_three_nodes_stay_safe(schedule, seed):
    world = play(World("ABC", seed=seed, groups=3, **QUICK), schedule)
    assert world.problems == []


@pytest.mark.parametrize("seed", range(30))
def test_hundreds_of_random_steps_stay_safe_and_heal(seed):
    names = ["ABC", "ABCD", "ABCDE"][seed % 3]
    profile = ["joyqueue", "joyqueue-mended"][seed % 2]
    late = profile == "joyqueue-mended"
    knobs = {"max_entries_per_append": [64, 1][seed % 2], **QUICK}
    world = World(names, seed=seed, profile=profile, late_tasks=late, **knobs)
    play(world, drawn(World, Rng(seed).stream("chaos"), names, count=150))
    world.mend()
    assert world.run(1500, until=lambda: world.leader() is not None)
    world.request(world.leader(), Append("k", -1))
    healed = world.run(1000, until=world.converged)
    assert world.problems == []
    assert healed, "no convergence within the bound of the promise"


@pytest.mark.parametrize("seed", range(10))
def test_every_effect_prefix_of_an_election_and_a_write_may_be_the_last(seed):
    for prefix in range(0, 40, 2):
        world = World("ABC", seed=seed, **QUICK)
        for box in world.boxes.values():
            box.crash_in = prefix + seed % 3
        world.run(400)
        world.mend()
        leader = world.elect()
        world.boxes[leader].crash_in = prefix
        world.request(leader, Append("k", 1))
        world.run(100)
        world.kill(leader, power=True)
        world.start(leader)
        world.mend()
        world.request(world.elect(), Append("k", 2))  # entries of older terms are committed with it
        assert world.run(2000, until=world.converged)
        assert world.problems == []


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
