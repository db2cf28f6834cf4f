"""The strategy ``orbits-one-way``: as ``orbits``, but each direction of a link is cut by itself (3 or 4 nodes).

Guarantees: as ``orbits``. Out of scope: everything else.
"""

from __future__ import annotations

from dethrone.nemesis.strategies.orbits import OrbitsStrategy


class OneWayStrategy(OrbitsStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    name: str = "orbits-one-way"
    one_way: bool = True


STRATEGY = OneWayStrategy()
