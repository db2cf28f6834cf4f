"""Redis with Sentinel, as Debian has it: asynchronous replication, and a failover by a majority of sentinels.

Each node is a Redis server and a sentinel. ``status.py`` answers for both: a node leads if its server is a master and
its own sentinel names it. Either alone shows two masters in one epoch that are none (a master that was cut off stays
one; a sentinel counts the new epoch before the old master's address goes).
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "redis-sentinel")
