"""The bully elections in the tests' world."""

from __future__ import annotations

from dethrone.clusters.targets.bully.target import TARGET
from tests.world import world


class World(world.Roles):
    """Nodes of either election."""

    target = TARGET
