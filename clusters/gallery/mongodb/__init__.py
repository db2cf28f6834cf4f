"""MongoDB: a replica set, whose elections have terms as Raft's have. Its program is for users to bring.

``bridge.py``, a second process of each node, speaks HTTP in front of its server, for MongoDB's library is compiled.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "mongodb")
