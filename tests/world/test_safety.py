"""Random worlds of every protocol that replicates a log: the invariants hold whatever happens; then all heals.

Out of scope: what is known to break a protocol (its own ``test_known_weaknesses``), and planted bugs
(`tests.world.test_planted_bugs`).
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from tests.clusters.dledger import spec as dledger
from tests.clusters.joyqueue import spec as joyqueue
from tests.clusters.kraft import spec as kraft
from tests.clusters.raft import spec as raft
from tests.world.chaos import drawn, play, steps

LOGS = {"raft": raft.World, "kraft": kraft.World, "dledger": dledger.World, "joyqueue": joyqueue.Quick}
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("protocol", "names", "choices"),
    [
        ("raft", "ABC", {"profile": ["raft", "raft-paper"]}),
        ("raft", "ABCDE", {"profile": ["raft", "raft-paper"], "max_entries_per_append": [1, 8]}),
        ("kraft", "ABC", {"profile": ["kraft", "kraft-3.7", "kraft-3.6"]}),
        ("kraft", "ABCDE", {"max_records_per_fetch": [1, 64]}),
        ("kraft", "ABCDE", {"observers": ["D,E"]}),
        ("dledger", "ABC", {"profile": ["dledger", "dledger-mended"], "refuse": [True, False]}),
        ("dledger", "ABCDE", {"profile": ["dledger", "dledger-mended"], "max_in_flight": [1, 2, 3]}),
        pytest.param("joyqueue", "ABC", {}, marks=SLOW),
        pytest.param("joyqueue", "ABC", {"groups": [3]}, marks=SLOW),
        (
            *("joyqueue", "ABCDE"),
            {"profile": ["joyqueue-mended"], "late_tasks": [True], "max_entries_per_append": [1, 8]},
        ),
    ],
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data(), st.integers(0, 1000))
def test_whatever_happens_the_invariants_hold(protocol, names, choices, data, seed):
    made = LOGS[protocol]
    knobs = {key: data.draw(st.sampled_from(values), label=key) for key, values in choices.items()}
    world = play(made(names, seed=seed, **knobs), data.draw(steps(made, names), label="schedule"))
    assert world.problems == []


def knobs_of(protocol, seed, names):
    """Of a long run: they change with its seed."""
    odd = seed % 2
    if protocol == "raft":
        return {"profile": ["raft", "raft-paper"][odd], "max_entries_per_append": [64, 1][odd]}
    if protocol == "kraft":
        observers = "E" if seed % 4 == 0 and "E" in names else ""
        return {"observers": observers, "max_records_per_fetch": [64, 1][odd]}
    if protocol == "dledger":
        slow = (0, 2 + 40 * (seed % 5 == 0))
        return {"profile": ["dledger", "dledger-mended"][odd], "noop_on_elect": seed % 4 < 3, "sync": slow}
    batches = {"max_entries_per_append": [64, 1][odd]}
    return {"profile": ["joyqueue", "joyqueue-mended"][odd], "late_tasks": bool(odd), **batches}


RUNS = {"raft": 40, "kraft": 36, "dledger": 60, "joyqueue": 30}


@pytest.mark.parametrize(("protocol", "seed"), [(name, seed) for name, runs in RUNS.items() for seed in range(runs)])
def test_many_random_steps_stay_safe_and_everything_heals_within_the_bound(protocol, seed):
    names = ["ABC", "ABCD", "ABCDE"][seed % 3]
    world = LOGS[protocol](names, seed=seed, **knobs_of(protocol, seed, names))
    play(world, drawn(LOGS[protocol], Rng(seed).stream("chaos"), names, count=150))
    assert world.problems == []
    healed = world.recovers()
    world.judge.checked()
    assert world.problems == []
    assert healed, "no convergence within the bound"


@pytest.mark.parametrize(
    ("protocol", "ms", "seed"),
    [
        (name, ms, seed)
        for name, ms, seeds in (("raft", 400, 10), ("kraft", 4000, 6), ("dledger", 4000, 8), ("joyqueue", 400, 10))
        for seed in range(seeds)
    ],
)
def test_every_effect_prefix_of_an_election_and_a_write_may_be_the_last(protocol, ms, seed):
    for prefix in range(0, 40, 2):
        world = LOGS[protocol]("ABC", seed=seed)
        for box in world.boxes.values():
            box.crash_in = prefix + seed % 3
        world.run(ms)
        world.mend()
        leader = world.elect(ms=30_000)
        world.boxes[leader].crash_in = prefix
        world.write(leader, 1)
        world.kill(leader, power=True)
        world.start(leader)
        assert world.recovers()
        assert world.problems == []


@pytest.mark.parametrize(
    ("protocol", "knobs"),
    [
        ("raft", {"reads": "lease"}),
        ("raft", {"transfer": "on", "membership": "single_server"}),
        *(("kraft", knobs) for knobs in ({"clock": "wall"}, {"reads": "log"})),
        *(("kraft", knobs) for knobs in ({"append_linger_ms": 0}, {"time_factor": "0.1"})),
    ],
)
def test_the_other_knobs_stay_safe(protocol, knobs):
    for seed in range(12):
        world = LOGS[protocol]("ABC", seed=seed, **knobs)
        play(world, drawn(LOGS[protocol], Rng(seed).stream("knobs"), "ABC", count=80))
        assert world.problems == []
