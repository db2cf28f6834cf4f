"""Whole logs of a cluster: the checkpoint, and what becomes one after a divergence or an absence."""

import pytest

from dethrone.clusters.targets.dledger.storage import CHECKPOINT, checkpoint_ops
from tests.clusters.dledger.spec import One, World, disk

# --- checkpoint and whole logs ----------------------------------------------------------------------------------------


def test_the_checkpoint_is_written_every_three_seconds_and_taken_at_the_start():
    world, leader = World.with_leader()
    assert world.write(leader, 1)
    assert world.write(leader, 2)
    world.run(3100)
    world.restart(leader)
    box = world.boxes[leader]
    assert (box.node.committed, box.node.machine.read("k")) == (1, [1, 2])
    for content in (b"", b"?", "unreadable"):
        assert One(image={**disk(log=(1, 1)), CHECKPOINT: content}).node.committed == -1
    beyond = checkpoint_ops(9, 9)[0].data
    assert One(image={**disk(log=(1, 1)), CHECKPOINT: beyond}).node.committed == 1


@pytest.mark.parametrize("fsync", ["each", "async"])
def test_divergent_logs_become_one(fsync):
    for seed in range(5):
        world = World("ABC", asleep="ABC", seed=seed, fsync=fsync, noop_on_elect=True)
        for name, log in (("A", (0, 1, 1, 4)), ("B", (0, 1, 2, 2, 2, 2)), ("C", (0, 3))):
            world.prepare(name, term=5, log=log)
            world.start(name)
        assert world.run(40_000, until=world.converged)
        assert len({tuple(box.node.log.digests) for box in world.boxes.values()}) == 1
        assert world.problems == []


def test_a_follower_that_was_away_gets_everything():
    world, leader = World.with_leader()
    away = next(name for name in "ABC" if name != leader)
    world.isolate(away)
    for value in range(100):
        assert world.write(leader, value)
    world.heal()
    assert world.run(10_000, until=lambda: world.boxes[away].node.committed == 99)
    assert world.problems == []
