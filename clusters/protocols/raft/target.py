"""The Raft target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``raft`` (pre-vote, check-quorum, stickiness, no-op on) and
``raft-paper`` (all off). Leaves out processes, sockets and files (`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

from clusters.protocols.client_api import ClientRequest, StateRequest
from clusters.protocols.kit.mutants import MutantTable
from clusters.protocols.kit.target import KitTarget
from clusters.protocols.raft.core import RaftCore
from clusters.protocols.raft.flips import FLIPS
from clusters.protocols.raft.knobs import KNOBS
from clusters.protocols.raft.messages import RaftMessage
from clusters.protocols.raft.rules import Rules
from clusters.protocols.raft.variants import VARIANTS
from clusters.protocols.raft.witness import RaftWitness

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
