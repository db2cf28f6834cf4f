"""The monitors of Ceph: a Paxos whose quorum is led by the monitor of the lowest rank that reaches a majority.

``bridge.py`` is a second process of each node: it speaks HTTP in front of the monitor, whose own protocol only Ceph's
compiled libraries speak. It reads the status from the monitor's socket, and carries operations out through librados.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "ceph-mon")
