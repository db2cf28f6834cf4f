"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build is named by its number (docs/sources.md, planted-bugs; ``plain``: no number, but shown by
nearly any schedule), and inherits the promise of its profile. Omitted, as DLedger has nothing to break there: 11 (a
restarted node campaigns at once in its stored term, and so repeats its own vote before it can hear of another
candidate), 23, 53, 54 (members never change), 35 to 37 (no pre-vote), 47 to 51 (no leases), 52 (its clock is the wall
clock by design), 56 (reads are not linearizable), 58 (heartbeats do not wait for the disk by design).
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.dledger import planted_bugs
from dethrone.clusters.targets.kit.mutants import Mutant, planted

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
