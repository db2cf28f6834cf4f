"""Random worlds: the invariants hold whatever happens, and everything converges once it is healed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from tests.clusters.kraft.spec import World
from tests.world.chaos import drawn, play, steps

settings.register_profile("kraft_worlds", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
worlds = settings(settings.get_profile("kraft_worlds"), max_examples=40)
PROFILES = ["kraft", "kraft-3.7", "kraft-3.6"]


@worlds
@given(steps(World, "ABC"), st.integers(0, 1000), st.sampled_from(PROFILES))
def test_three_voters_stay_safe(schedule, seed, profile):
    world = play(World("ABC", seed=seed, profile=profile), schedule)
    assert world.problems == []


@worlds
@given(steps(World, "ABCDE"), st.integers(0, 1000), st.sampled_from([1, 64]))
def test_five_voters_with_small_batches_stay_safe(schedule, seed, batch):
    world = play(World("ABCDE", seed=seed, max_records_per_fetch=batch), schedule)
    assert world.problems == []


@worlds
@given(steps(World, "ABCDE"), st.integers(0, 1000))
def test_three_voters_and_two_observers_stay_safe(schedule, seed):
    world = play(World("ABCDE", seed=seed, observers="D,E"), schedule)
    assert world.problems == []
    assert not [name for name, _ in world.judge.leaders.values() if name in "DE"]


@pytest.mark.parametrize("seed", range(36))
def test_thousands_of_random_steps_stay_safe_and_heal_within_the_bound(seed):
    names = ["ABC", "ABCD", "ABCDE"][seed % 3]
    observers = "E" if seed % 4 == 0 and "E" in names else ""
    world = World(names, seed=seed, observers=observers, max_records_per_fetch=[64, 1][seed % 2])
    play(world, drawn(World, Rng(seed).stream("chaos"), names, count=150))
    assert world.problems == []
    world.mend()
    healed = world.run(10_000, until=world.converged)
    assert world.problems == []
    assert healed, "no convergence within 10 s"


@pytest.mark.parametrize("seed", range(6))
def test_every_effect_prefix_of_an_election_and_a_write_may_be_the_last(seed):
    for prefix in range(0, 40, 2):
        world = World("ABC", seed=seed)
        for box in world.boxes.values():
            box.crash_in = prefix + seed % 3
        world.run(4000)
        world.mend()
        leader = world.elect()
        world.boxes[leader].crash_in = prefix
        world.write(leader, 1)
        world.kill(leader, power=True)
        world.start(leader)
        world.mend()
        assert world.run(10_000, until=world.converged)
        assert world.problems == []


@pytest.mark.parametrize(
    "knobs", [{"clock": "wall"}, {"reads": "log"}, {"append_linger_ms": 0}, {"time_factor": "0.1"}]
)
def test_the_other_knobs_stay_safe(knobs):
    for seed in range(8):
        world = World("ABC", seed=seed, **knobs)
        play(world, drawn(World, Rng(seed).stream("knobs"), "ABC", count=80))
        assert world.problems == []
