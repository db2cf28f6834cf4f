"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule (37: the two that make its deadlock; `broken` holds the classes), is
named by its number in the table of planted bugs, and says which knobs it shows nothing without. It inherits the promise
of its profile. Not here, for the original itself makes these mistakes: 17 (JQ-B1), 28 and 30 (JQ-B5),
36 (JQ-B4); 18 (JQ-B2) is planted into the mended build, where 17 alone shows nothing. Nor 35: pre-votes here do not
protect a leader, so its checker has no promise to judge by. Without a subject: repeated requests (39), for every
campaign has a term of its own; leases (47, 49, 51); membership changes (53, 54); a main loop that can be stuck (58). 16
is masked as long as answers are not waited for beyond an election timeout, and where messages are much quicker than
elections. Leaves out finding them: that is the checkers' exam.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.joyqueue import broken
from dethrone.clusters.targets.kit.mutants import Mutant, planted

VARIANTS: Mapping[str, Mutant] = planted(broken)
