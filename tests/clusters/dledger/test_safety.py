"""Random worlds: INV-1 to INV-6 and INV-12 hold whatever happens; once healed, a majority has a leader; mended, all."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.harness.core.rng import Rng
from tests.clusters.dledger.spec import World
from tests.world.chaos import drawn, play, steps

settings.register_profile("worlds", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
worlds = settings(settings.get_profile("worlds"), max_examples=50)
PROFILES = ["dledger", "dledger-mended"]


@worlds
@given(steps(World, "ABC"), st.integers(0, 1000), st.sampled_from(PROFILES), st.booleans())
def test_three_nodes_stay_safe(schedule, seed, profile, refuse):
    world = play(World("ABC", seed=seed, profile=profile, refuse=refuse), schedule)
    assert world.problems == []


@worlds
@given(steps(World, "ABCDE"), st.integers(0, 1000), st.sampled_from(PROFILES), st.integers(1, 3))
def test_five_nodes_with_few_entries_in_flight_stay_safe(schedule, seed, profile, flight):
    world = play(World("ABCDE", seed=seed, profile=profile, max_in_flight=flight), schedule)
    assert world.problems == []


@pytest.mark.parametrize("seed", range(60))
def test_hundreds_of_random_steps_stay_safe_and_heal(seed):
    names = ["ABC", "ABCD", "ABCDE"][seed % 3]
    profile = PROFILES[seed % 2]
    noop = "true" if seed % 4 < 3 else "false"
    world = World(names, seed=seed, profile=profile, noop_on_elect=noop, sync=(0, 2 + 40 * (seed % 5 == 0)))
    play(world, drawn(World, Rng(seed).stream("chaos"), names, count=150))
    world.mend()
    assert world.run(20_000, until=world.led), "no leader within the bound"
    if profile == "dledger-mended" and noop == "true":
        assert world.run(40_000, until=world.converged), "no convergence within the bound"
    else:
        world.run(20_000)
    assert world.judge.logs_match()
    assert world.problems == []


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_writes_survive(seed):
    world = World("ABC", seed=seed, profile="dledger-mended")
    rng = Rng(seed).stream("writes")
    sent = {}
    for value in range(40):
        for box in [one for one in world.boxes.values() if one.leads]:
            sent[world.request(box.name, Append("w", f"{box.name}{value}"))] = f"{box.name}{value}"
        play(world, drawn(World, rng, "ABC", count=3))
        if value % 8 == 0:
            world.mend()
            world.run(20_000, until=world.led)
    world.mend()
    assert world.run(60_000, until=world.converged)
    log = world.boxes["A"].node.log.entries
    acked = {number: answer for number in sent if isinstance(answer := world.replies.get(number), Ok)}
    assert acked
    for number, answer in acked.items():
        entry = log[answer.index - 1]
        assert (entry.term + 1, entry.command) == (answer.term, Append("w", sent[number]))
    assert world.problems == []


@pytest.mark.parametrize("seed", range(8))
def test_every_effect_prefix_of_an_election_and_a_write_may_be_the_last(seed):
    for prefix in range(0, 40, 2):
        world = World("ABC", seed=seed)
        for box in world.boxes.values():
            box.crash_in = prefix + seed % 3
        world.run(4000)
        world.mend()
        leader = world.elect(ms=30_000)
        world.boxes[leader].crash_in = prefix
        world.write(leader, 1)
        world.kill(leader, power=True)
        world.start(leader)
        world.mend()
        assert world.run(20_000, until=world.led)
        assert world.problems == []
