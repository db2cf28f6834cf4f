"""Whatever happens: one decision an instance, one leader an epoch, nothing acknowledged lost."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Learn, Ok
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.harness.core.rng import Rng
from tests.clusters.paxos.spec import World, play
from tests.world.chaos import drawn, steps

some = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KNOBS = [
    {},
    {"accept_rule": "ge"},
    {"learner": "disk", "relearn": "attempt"},
    {"nack": "off", "start_needs": "one"},
    {"backoff": "none", "phase_timeout_ms": "50"},
    {"time_factor": "0.3"},
]


@some
@given(st.data(), st.sampled_from(["ABC", "ABCD", "ABCDE"]), st.sampled_from(KNOBS), st.booleans(), st.integers(0, 999))
def test_no_schedule_breaks_agreement(data, names, knobs, log, seed):
    world = World(names, seed=seed, log=log, **knobs)
    play(world, data.draw(steps(World, names)))
    assert not world.problems


@some
@given(st.data(), st.sampled_from(["ABC", "ABCDE"]), st.integers(0, 999))
def test_no_schedule_breaks_the_epochs(data, names, seed):
    world = World(names, seed=seed, profile="paxos-election", log=False)
    play(world, data.draw(steps(World, names)))
    assert not world.problems
    assert world.run(6000, until=lambda: all(box.node.leader == world.leader() for box in world.boxes.values()))


@pytest.mark.parametrize("names", ["ABC", "ABCDE"])
def test_after_everything_healed_every_node_learns_and_everybody_agrees(names):
    for seed in range(30):
        world = play(World(names, seed=seed, log=False), drawn(World, Rng(seed), names, count=50))
        assert not world.problems
        asked = [world.request(name, Learn(instance)) for name in names for instance in world.judge.decided]
        world.run(6000)
        told = [world.replies[number] for number in asked]
        assert all(isinstance(body, Ok) and body.value is not None for body in told), seed


def test_a_new_leader_of_an_epoch_appears_within_the_promised_bound():
    from dethrone.clusters.systems.paxos import SYSTEM

    knobs = SYSTEM.knobs({}, profile="paxos-election", variant=None)
    bound = SYSTEM.promise(knobs, profile="paxos-election", voters=5).leader_bound_ns
    waits = []
    for seed in range(60):
        world = World("ABCDE", seed=seed, profile="paxos-election", delay=(1, 5))
        assert world.run(bound // 1_000_000, until=lambda world=world: world.leader() is not None)
        world.run(100)
        first = world.leader()
        world.kill(first)
        at = world.now
        assert world.run(10_000, until=lambda world=world, first=first: world.leader() not in (None, first))
        waits.append(world.now - at)
    assert max(waits) < bound * 3 // 4
    assert sorted(waits)[30] < 1_000_000_000


def test_a_crash_after_every_prefix_of_the_effects_of_a_decision():
    for prefix in range(24):
        for who in "AB":
            world = World("ABC", seed=5)
            world.boxes[who].crash_in = prefix
            world.request("A", Want(1, "x"))
            world.run(2500)
            world.mend()
            world.run(300)
            assert world.propose("C", 1, "y") in {"x", "y"}
            assert not world.problems, (prefix, who)
