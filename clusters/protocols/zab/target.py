"""The ZAB target as the shells meet it: one profile, ``zab``, all members voters."""

from __future__ import annotations

from clusters.protocols.kit.mutants import MutantTable
from clusters.protocols.kit.target import KitTarget
from clusters.protocols.zab.core import ZabCore
from clusters.protocols.zab.knobs import KNOBS
from clusters.protocols.zab.messages import ZabMessage
from clusters.protocols.zab.rules import Rules
from clusters.protocols.zab.variants import FLIPS, VARIANTS
from clusters.protocols.zab.witness import ZabWitness

MUTANTS = MutantTable(KNOBS, Rules, VARIANTS, FLIPS)

TARGET = KitTarget(KNOBS, MUTANTS, message=ZabMessage, core=ZabCore, witness=lambda node, _: ZabWitness(node))
