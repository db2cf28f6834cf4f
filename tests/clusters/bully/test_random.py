"""Random faults: however a bully cluster was disturbed, one leader remains after a heal, and logs end the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters.bully.spec import World

NAMES = ("n1", "n2", "n3", "n4")
LEADS = {"classic": "COORDINATOR", "mongo": "PRIMARY"}
FAULTS = st.tuples(st.sampled_from(("isolate", "kill", "power", "pause", "clock", "write")), st.sampled_from(NAMES))


@pytest.mark.slow
@settings(max_examples=15)
@given(st.sampled_from(sorted(LEADS)), st.lists(FAULTS, min_size=1, max_size=6), st.integers(0, 99))
def test_one_leader_remains_after_a_heal_and_all_logs_become_its_log(profile, faults, seed):
    world = World(NAMES, profile=profile, seed=seed, time_factor="0.1")
    world.run(4_000)
    for kind, name in faults:
        if kind == "isolate":
            world.isolate(name)
        elif kind in ("kill", "power") and world.boxes[name].alive:
            world.kill(name, power=kind == "power")
        elif kind == "pause" and world.boxes[name].alive:
            world.pause(name)
        elif kind == "clock":
            world.step_wall(5_000, name)
        else:
            for leader in world.with_role(LEADS[profile]):
                if not world.boxes[leader].paused:
                    world.write(leader, seed)
        world.run(1_500)
    world.heal()
    for name, box in world.boxes.items():
        if box.paused and box.alive:
            world.resume(name)
        elif not box.alive:
            box.paused = False
            world.start(name)
    world.run(20_000)
    (leader,) = world.with_role(LEADS[profile])
    assert {box.status().leader for box in world.boxes.values()} == {leader}
    assert world.write(leader, "last")
    world.run(1_000)
    ends = {box.status().log_end for box in world.boxes.values()}
    assert len(ends) == 1
    assert world.problems == []
