"""The Raft target as the shells use it.

Guarantees: one stateless object, `TARGET`; profiles ``raft`` (pre-vote, check-quorum, stickiness, no-op on) and
``raft-paper`` (all off). Out of scope: processes, sockets and files (`dethrone.clusters.node`) and virtual time
(`dethrone.clusters.sim`).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import ClientRequest, StateRequest
from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.raft import planted_bugs, rules
from dethrone.clusters.targets.raft.core import RaftCore
from dethrone.clusters.targets.raft.knobs import KNOBS
from dethrone.clusters.targets.raft.messages import RaftMessage
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.clusters.targets.raft.witness import RaftWitness

TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=RaftMessage,
    request=ClientRequest | StateRequest,
    core=RaftCore,
    witness=lambda node, _: RaftWitness(node),
    joins=lambda knobs: knobs.membership == "single_server",
)
