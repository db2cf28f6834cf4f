"""The bully target as the shells use it: ``TARGET``, with the profiles ``classic`` and ``mongo``.

Guarantees: a node's id is its place among the members. Out of scope: processes and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.bully.core import BullyCore
from dethrone.clusters.targets.bully.knobs import KNOBS
from dethrone.clusters.targets.bully.messages import BullyMessage
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.bully.variants import VARIANTS
from dethrone.clusters.targets.bully.witness import BullyWitness
from dethrone.clusters.targets.kit.mutants import MutantTable
from dethrone.clusters.targets.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    MutantTable(KNOBS, Rules, VARIANTS),
    message=BullyMessage,
    core=lambda node, members, _, rules: BullyCore(node, members, rules),
    witness=lambda node, _: BullyWitness(node),
)
