"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs): where Raft has a
vote file, this protocol has the coordination service's tree, which decides who leads. Each inherits the promise of its
profile. Not applicable here: votes, campaigns, pre-votes, terms and quorums of brokers (06, 11, 14, 16-18, 21-23, 27,
31-40, 47, 49, 53, 54), and 56, 58: a new leader's log is its state, and a hung broker with a live session keeps the
lead by design. 30 and 52 break only what no profile promises (a leader without contact to the service steps down for a
lost majority, ZK-B5; healthy brokers keep their sessions, ZK-B7).
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.zk_ephemeral import planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
