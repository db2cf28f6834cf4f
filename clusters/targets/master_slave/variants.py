"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs). Nothing votes,
campaigns or commits by quorum here, so most numbers have no counterpart. 07 has none as the only file besides the
messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the base loses
acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, bug, planted
from dethrone.clusters.targets.master_slave import broken

VARIANTS: Mapping[str, Mutant] = {
    **planted(broken),
    "flip-0-1": bug("claim 0-1 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-3": bug("claim 1-3 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-4": bug("claim 1-4 turned: the group is written without its master", broken.SlaveTakesWrites),
    "flip-1-2": bug("claim 1-2 turned: a synchronous master does not wait", broken.AcksAfterLocalAppend),
    "flip-1-5": bug("claim 1-5 turned: a slave takes writes", broken.SlaveTakesWrites),
    "flip-1-6": bug("claim 1-6 turned: any slave takes balanced reads", broken.EverySlaveBalanced),
    "flip-1-7": bug("claim 1-7 turned: brokerId 1 is a master, too", broken.RoleByName),
}
