"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build overrides one rule (37: the two that make its deadlock; `planted_bugs` holds the classes), is
named by its number (docs/sources.md, planted-bugs) and names the knobs without which it shows nothing. It inherits the
promise of its profile. Bugs without a number: ``plain`` shows under nearly any schedule, so that each checker can be
accepted on live clusters; ``clients`` leaves the election intact and shows in what clients of one workload see. Out of
scope: finding the bugs, which is the exam's task.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.raft import client_bugs, planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs, client_bugs)
