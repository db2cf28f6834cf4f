"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build overrides one rule (`planted_bugs`; 25 two, which make one mistake) and is named by its number
(docs/sources.md, planted-bugs; ``plain``: no number). The original is known to be unsafe, so they are bugs of the
profile ``nacos-mended`` and need its knobs. Not applicable here:

* 01, 11: a vote is given for a higher term only, so a known term keeps a node from voting twice in it;
* 17: no record of a higher term names its candidate;
* 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases; 23, 53, 54: no change of members; 58: there is one loop only;
* 12, 14, 40, 42, 44, 56: data is not compared, and carries no terms; 45, 46: what was acknowledged is lost by design
  (NA-B6), so that no run without the bug passes; 27: a node that refuses a leader just campaigns again, won or lost;
* 33, 34: tasks tick from each node's own start, so that equal dues do not meet; 39: no request is repeated in a term.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.nacos import planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
