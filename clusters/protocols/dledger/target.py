"""The DLedger target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``dledger`` (the safer reading wherever sources differ),
``dledger-mended`` (two known weaknesses of the election mended) and ``dledger-upstream`` (as release 0.2.7 does it).
Leaves out processes, sockets and files (`clusters.node`) and virtual time.
"""

from __future__ import annotations

from clusters.protocols.dledger.core import DledgerCore
from clusters.protocols.dledger.knobs import KNOBS
from clusters.protocols.dledger.messages import DledgerMessage
from clusters.protocols.dledger.rules import Rules
from clusters.protocols.dledger.variants import VARIANTS
from clusters.protocols.dledger.witness import DledgerWitness
from clusters.protocols.kit.mutants import MutantTable
from clusters.protocols.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    MutantTable(KNOBS, Rules, VARIANTS),
    message=DledgerMessage,
    core=DledgerCore,
    witness=lambda node, _: DledgerWitness(node),
)
