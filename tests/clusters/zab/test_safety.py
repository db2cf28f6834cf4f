"""Random worlds: whatever is cut, killed and lost, the invariants hold, and in the end all logs agree."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Get, Ok
from tests.clusters.zab.minisim import World

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "kill", "power", "start", "isolate", "heal", "pause", "resume", "wait"]),
        st.integers(0, 4),
        st.integers(0, 1500),
    ),
    min_size=5,
    max_size=30,
)


def play(world, steps):
    """The values whose write was acknowledged."""
    asked = {}
    for value, (what, who, ms) in enumerate(steps):
        name = world.names[who % len(world.names)]
        box = world.boxes[name]
        if what == "write" and box.alive:
            asked[world.request(name, Append("k", value))] = value
        elif what in ("kill", "power"):
            world.kill(name, power=what == "power")
        elif what == "start" and not box.alive:
            world.start(name)
        elif what == "isolate":
            world.isolate(name)
        elif what == "heal":
            world.heal()
        elif what == "pause" and box.alive:
            world.pause(name)
        elif what == "resume" and box.alive and box.paused:
            world.resume(name)
        world.run(ms)
    world.heal()
    for name, box in world.boxes.items():
        if not box.alive:
            world.start(name)
        elif box.paused:
            world.resume(name)
    return {value for number, value in asked.items() if isinstance(world.replies.get(number), Ok)}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["ABC", "ABCDE"]), st.integers(0, 1 << 20), STEPS)
def test_the_invariants_hold_and_acknowledged_writes_survive(names, seed, steps):
    world = World(names, seed=seed)
    acknowledged = play(world, steps)
    leader = world.elect(ms=60_000)
    assert world.write(leader, 1000, ms=5_000)
    world.run(3_000)
    assert world.problems == []
    assert not [box.halted for box in world.boxes.values() if box.halted]
    assert acknowledged <= set(world.ask(leader, Get("k")).value)
    assert len({tuple(box.zxids) for box in world.boxes.values()}) == 1
