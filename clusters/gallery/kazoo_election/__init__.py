"""kazoo's recipe Election, whose clients are the system: a candidate next to a ZooKeeper server on each node.

``node.py`` contends, and while it leads it keeps lists in ZooKeeper as the only writer that it takes itself for.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "kazoo-election")
