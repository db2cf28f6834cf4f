"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build overrides one rule, or two that make one mistake (`planted_bugs` holds the classes), is named by
its number (docs/sources.md, planted-bugs; ``plain``: no number, but shown by nearly any schedule) and states what it
shows nothing without. It inherits the promise of its profile. Not applicable here:

* 07: the original deletes an unreadable file itself; 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases;
* 27: a node that refuses a leader just campaigns again, won or lost: without pre-vote nothing prevents that;
* 39: no request is repeated within an epoch, for its time-out outlasts the election timer;
* 44: an answer holds the records after the requested offset, and a late one is dropped;
* 53, 54: the voters are static; 56: a leader's own reads carry no promise; 58: there is one loop only.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.kraft import planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
