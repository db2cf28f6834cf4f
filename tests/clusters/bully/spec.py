"""The bully elections in the tests' world, and a node on the bench."""

from __future__ import annotations

from dethrone.clusters.targets.bully.target import TARGET
from tests.world import bench, effects, world

FIVE = ("n1", "n2", "n3", "n4", "n5")


class World(world.Roles):
    """Nodes of either election."""

    target = TARGET


class Node(bench.LastEvent):
    """One node; ``out`` holds the effects of the last event, which answers what it sends."""

    target = TARGET
    members = FIVE
    began_ms = 1_000

    def __init__(self, name="n3", members=FIVE, *, disk=None, **more):
        super().__init__(disk, node=name, members=members, seed=1, slow_start=True, **more)

    def give(self, event, *, after_ms=0):
        super().give(event, after_ms=after_ms)
        return self.sent()

    def sent(self, kind=object):
        return effects.sent(self.out, kind)

    def said(self):
        return effects.names(self.out)

    @property
    def role(self):
        return self.status().role
