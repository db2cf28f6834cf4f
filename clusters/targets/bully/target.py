"""The bully target as the shells use it: ``TARGET``, with the profiles ``classic`` and ``mongo``.

Guarantees: a node's id is its place among the members. Out of scope: processes and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.bully import rules
from dethrone.clusters.targets.bully.classic import Classic
from dethrone.clusters.targets.bully.knobs import KNOBS
from dethrone.clusters.targets.bully.messages import BullyMessage
from dethrone.clusters.targets.bully.mongo import Mongo
from dethrone.clusters.targets.bully.witness import BullyWitness
from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget

TARGET = KitTarget(
    KNOBS,
    rules.Rules,
    planted(rules),
    message=BullyMessage,
    core=lambda node, members, _, rules: (Mongo if rules.on.election == "mongo" else Classic)(node, members, rules),
    witness=lambda node, _: BullyWitness(node),
)
