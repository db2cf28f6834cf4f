"""The bully target as the shells meet it: ``TARGET``, with the profiles ``classic`` and ``mongo``.

Guarantees: a node's id is its place among the members. Out of scope: processes and virtual time.
"""

from __future__ import annotations

from clusters.protocols.bully.core import BullyCore
from clusters.protocols.bully.knobs import KNOBS
from clusters.protocols.bully.messages import BullyMessage
from clusters.protocols.bully.rules import Rules
from clusters.protocols.bully.variants import VARIANTS
from clusters.protocols.bully.witness import BullyWitness
from clusters.protocols.kit.mutants import MutantTable
from clusters.protocols.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    MutantTable(KNOBS, Rules, VARIANTS),
    message=BullyMessage,
    core=lambda node, members, _, rules: BullyCore(node, members, rules),
    witness=lambda node, _: BullyWitness(node),
)
