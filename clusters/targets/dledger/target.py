"""The DLedger target as the shells use it.

Guarantees: one stateless object, `TARGET`; profiles ``dledger`` (the safer reading wherever sources differ),
``dledger-mended`` (two known weaknesses of the election mended) and ``dledger-upstream`` (as release 0.2.7 does it).
Out of scope: processes, sockets and files (`dethrone.clusters.node`) and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger import planted_bugs, rules
from dethrone.clusters.targets.dledger.core import DledgerCore
from dethrone.clusters.targets.dledger.knobs import KNOBS
from dethrone.clusters.targets.dledger.messages import DledgerMessage
from dethrone.clusters.targets.dledger.rules import Rules
from dethrone.clusters.targets.dledger.witness import DledgerWitness
from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=DledgerMessage,
    core=DledgerCore,
    witness=lambda node, _: DledgerWitness(node),
)
