"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build overrides one rule (37: the two that make its deadlock; `planted_bugs` holds the classes), is
named by its number (docs/sources.md, planted-bugs), and names the knobs without which it shows nothing. It inherits the
promise of its profile. Omitted, as the original itself makes these mistakes: 17 (JQ-B1), 28 and 30 (JQ-B5), 36 (JQ-B4);
18 (JQ-B2) is planted into the mended build, where 17 alone shows nothing. Omitted, too: 35, as pre-votes here do not
protect a leader, so its checker has no promise to judge by. Without a counterpart: repeated requests (39), as every
campaign has its own term; leases (47, 49, 51); membership changes (53, 54); a main loop that can be stuck (58). 16 is
masked while answers are not awaited beyond an election timeout, and where messages are much quicker than elections. Out
of scope: finding the bugs, which is the exam's task.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.joyqueue import planted_bugs
from dethrone.clusters.targets.kit.mutants import Mutant, planted

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
