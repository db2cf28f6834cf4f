"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs). Nothing votes,
campaigns or commits by quorum here, so most numbers have no counterpart. 07 has none as the only file besides the
messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the base loses
acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.master_slave import planted_bugs

VARIANTS: Mapping[str, Mutant] = planted(planted_bugs)
