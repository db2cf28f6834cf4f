"""Random worlds: whatever is cut, killed and lost, the invariants hold, and in the end all logs agree."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Get
from tests.clusters.zab.spec import World
from tests.world.chaos import play, steps


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["ABC", "ABCDE"]), st.integers(0, 1 << 20), st.data())
def test_the_invariants_hold_and_acknowledged_writes_survive(names, seed, data):
    world = play(World(names, seed=seed), data.draw(steps(World, names, most=30)))
    world.mend()
    world.run(5_000)  # what was lost on a connection is noticed by its silence
    acknowledged = world.clients.acknowledged()
    leader = world.elect(ms=60_000)
    assert world.write(leader, 1000, ms=5_000)
    world.run(3_000)
    assert world.problems == []
    assert not [box.halted for box in world.boxes.values() if box.halted]
    assert acknowledged <= set(world.ask(leader, Get("k")).value)
    assert len({tuple(box.zxids) for box in world.boxes.values()}) == 1
