"""Raft libraries for Java: SOFA JRaft and Apache Ratis, each under the same small store, in two releases.

``Keep.java`` is the store, registers and lists over HTTP; ``JRaft.java`` and ``Ratis.java`` put it on a library's log.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

JRAFT = packaged(__name__, "jraft")
JRAFT_OLDER = JRAFT.beginning_with("1.3.14")
RATIS = packaged(__name__, "ratis")
RATIS_OLDER = RATIS.beginning_with("3.2.0")
