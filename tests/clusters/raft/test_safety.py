"""Random worlds: INV-1 to INV-5 and INV-12 hold whatever happens; `raft` converges once everything is healed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from tests.clusters.raft.spec import World
from tests.world.chaos import drawn, play, steps

settings.register_profile("worlds", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
worlds = settings(settings.get_profile("worlds"), max_examples=60)


@worlds
@given(steps(World, "ABC"), st.integers(0, 1000), st.sampled_from(["raft", "raft-paper"]))
def test_three_nodes_stay_safe(schedule, seed, profile):
    world = play(World("ABC", seed=seed, profile=profile), schedule)
    assert world.problems == []


@worlds
@given(steps(World, "ABCDE"), st.integers(0, 1000), st.sampled_from(["raft", "raft-paper"]), st.sampled_from([1, 8]))
def test_five_nodes_with_small_batches_stay_safe(schedule, seed, profile, batch):
    world = play(World("ABCDE", seed=seed, profile=profile, max_entries_per_append=batch), schedule)
    assert world.problems == []


@pytest.mark.parametrize("seed", range(40))
def test_thousands_of_random_steps_stay_safe_and_heal(seed):
    names = ["ABC", "ABCD", "ABCDE"][seed % 3]
    profile = ["raft", "raft-paper"][seed % 2]
    world = World(names, seed=seed, profile=profile, max_entries_per_append=[64, 1][seed % 2])
    play(world, drawn(World, Rng(seed).stream("chaos"), names, count=150))
    world.mend()
    limit = 3000 if profile == "raft" else 20_000
    healed = world.run(limit, until=world.converged) or profile == "raft-paper"
    assert world.problems == []
    assert healed, "no convergence within the bound of the specification"


@pytest.mark.parametrize("seed", range(10))
def test_every_effect_prefix_of_an_election_and_a_write_may_be_the_last(seed):
    for prefix in range(0, 40, 2):
        world = World("ABC", seed=seed)
        for box in world.boxes.values():
            box.crash_in = prefix + seed % 3
        world.run(400)
        world.mend()
        leader = world.elect()
        world.boxes[leader].crash_in = prefix
        world.write(leader, 1)
        world.kill(leader, power=True)
        world.start(leader)
        world.mend()
        assert world.run(3000, until=world.converged)
        assert world.problems == []


@pytest.mark.parametrize("settings_", [{"reads": "lease"}, {"transfer": "on", "membership": "single_server"}])
def test_the_other_knobs_stay_safe(settings_):
    for seed in range(12):
        world = World("ABC", seed=seed, **settings_)
        play(world, drawn(World, Rng(seed).stream("knobs"), "ABC", count=80))
        assert world.problems == []
