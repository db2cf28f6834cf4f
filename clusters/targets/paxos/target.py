"""The Paxos target as the shells use it: ``TARGET``.

Guarantees: one stateless object; profiles ``paxos`` (values by instance, a log; no leader) and ``paxos-election`` (with
epochs on top). Out of scope: processes, sockets and files (`dethrone.clusters.node`) and virtual time
(`dethrone.clusters.sim`).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import ClientRequest, InstanceRequest
from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.paxos import planted_bugs, rules
from dethrone.clusters.targets.paxos.core import PaxosCore
from dethrone.clusters.targets.paxos.knobs import KNOBS, PaxosKnobs
from dethrone.clusters.targets.paxos.messages import PaxosMessage
from dethrone.clusters.targets.paxos.rules import Rules
from dethrone.clusters.targets.paxos.witness import PaxosWitness


def _core(node: str, members: tuple[str, ...], knobs: PaxosKnobs, rules: Rules) -> PaxosCore:
    """The order of ``members`` gives each its place in the numbers, and says who accepts."""
    if knobs.acceptors > len(members):
        raise KNOBS.wrong(
            f"{knobs.acceptors} acceptors among {len(members)} members", "give more --nodes, or acceptors=all"
        )
    return PaxosCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=PaxosMessage,
    request=ClientRequest | InstanceRequest,
    core=_core,
    witness=lambda node, _: PaxosWitness(node),
)
