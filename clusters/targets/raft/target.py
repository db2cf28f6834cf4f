"""The Raft target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``raft`` (pre-vote, check-quorum, stickiness, no-op on) and
``raft-paper`` (all off). Leaves out processes, sockets and files (`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

from clusters.targets.client_api import ClientRequest, StateRequest
from clusters.targets.kit.mutants import MutantTable
from clusters.targets.kit.target import KitTarget
from clusters.targets.raft.core import RaftCore
from clusters.targets.raft.flips import FLIPS
from clusters.targets.raft.knobs import KNOBS
from clusters.targets.raft.messages import RaftMessage
from clusters.targets.raft.rules import Rules
from clusters.targets.raft.variants import VARIANTS
from clusters.targets.raft.witness import RaftWitness

MUTANTS = MutantTable(KNOBS, Rules, VARIANTS, FLIPS)

TARGET = KitTarget(
    KNOBS,
    MUTANTS,
    message=RaftMessage,
    request=ClientRequest | StateRequest,
    core=RaftCore,
    witness=lambda node, _: RaftWitness(node),
    joins=lambda knobs: knobs.membership == "single_server",
)
