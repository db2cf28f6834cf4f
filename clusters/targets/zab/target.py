"""The ZAB target as the shells use it: one profile, ``zab``, all members voters."""

from __future__ import annotations

from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.zab import rules
from dethrone.clusters.targets.zab.core import ZabCore
from dethrone.clusters.targets.zab.knobs import KNOBS
from dethrone.clusters.targets.zab.messages import ZabMessage
from dethrone.clusters.targets.zab.witness import ZabWitness

TARGET = KitTarget(
    KNOBS,
    rules.Rules,
    planted(rules),
    message=ZabMessage,
    core=ZabCore,
    witness=lambda node, _: ZabWitness(node),
)
