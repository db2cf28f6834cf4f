"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build overrides one rule (`planted_bugs` holds the classes; 21, 22, 25 and 44 two, of which one lets
the other show) and is named by its number (docs/sources.md, planted-bugs; ``plain``: no number; ``px``: a known
weakness of Paxos). It inherits the promise of its profile. Numbers about leaders that step down, leases, pre-votes,
membership and log ends have no counterpart here. 06 has none as the file is only appended to; 33 and 34 have none as
equal waits split nothing: of attempts that begin together the highest number wins, and its PROPOSE is ahead of a
loser's next PREPARE by at least the shortest back-off. Out of scope: finding the bugs, which is the exam's task.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.paxos import planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
