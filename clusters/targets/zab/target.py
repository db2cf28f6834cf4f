"""The ZAB target as the shells meet it: one profile, ``zab``, all members voters."""

from __future__ import annotations

from clusters.targets.kit.mutants import MutantTable
from clusters.targets.kit.target import KitTarget
from clusters.targets.zab.core import ZabCore
from clusters.targets.zab.knobs import KNOBS
from clusters.targets.zab.messages import ZabMessage
from clusters.targets.zab.rules import Rules
from clusters.targets.zab.variants import FLIPS, VARIANTS
from clusters.targets.zab.witness import ZabWitness

MUTANTS = MutantTable(KNOBS, Rules, VARIANTS, FLIPS)

TARGET = KitTarget(KNOBS, MUTANTS, message=ZabMessage, core=ZabCore, witness=lambda node, _: ZabWitness(node))
