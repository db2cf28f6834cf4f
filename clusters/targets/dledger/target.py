"""The DLedger target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``dledger`` (the safer reading wherever sources differ),
``dledger-mended`` (two known weaknesses of the election mended) and ``dledger-upstream`` (as release 0.2.7 does it).
Leaves out processes, sockets and files (`clusters.node`) and virtual time.
"""

from __future__ import annotations

from clusters.targets.dledger.core import DledgerCore
from clusters.targets.dledger.knobs import KNOBS
from clusters.targets.dledger.messages import DledgerMessage
from clusters.targets.dledger.rules import Rules
from clusters.targets.dledger.variants import VARIANTS
from clusters.targets.dledger.witness import DledgerWitness
from clusters.targets.kit.mutants import MutantTable
from clusters.targets.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    MutantTable(KNOBS, Rules, VARIANTS),
    message=DledgerMessage,
    core=DledgerCore,
    witness=lambda node, _: DledgerWitness(node),
)
