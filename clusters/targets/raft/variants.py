"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule (37: the two that make its deadlock; `broken` holds the classes), is
named by its number in the table of planted bugs (``plain``: none of that table, but shown by nearly any schedule, for
the acceptance of each checker on live clusters; ``clients``: none of it either, for it breaks nothing of the election,
and shows in what clients of one workload see), and says which knobs it shows nothing without. It inherits the promise
of its profile. Leaves out finding them: that is the checkers' exam.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.raft import broken, broken_for_clients

VARIANTS: Mapping[str, Mutant] = planted(broken, broken_for_clients)
