"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule, or two that make one mistake (`broken` holds the classes), is named by
its number in the table of planted bugs (``plain``: none of that table, but shown by nearly any schedule), and says what
it shows nothing without. It inherits the promise of its profile. Not applicable here:

* 07: the original deletes an unreadable file itself; 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases;
* 27: who refuses a leader just stands again, and wins or not: nothing keeps it from that without pre-vote;
* 39: no request is repeated within an epoch, for its time-out outlasts the election timer;
* 44: an answer holds what follows the place that was asked for, and a late one is dropped;
* 53, 54: the voters are static; 56: a leader's own reads are promised to nobody; 58: there is one loop only.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.kraft import broken

VARIANTS: Mapping[str, Mutant] = planted(broken)
