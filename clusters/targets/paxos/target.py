"""The Paxos target as the shells meet it: ``TARGET``.

Promises: one stateless object; profiles ``paxos`` (values by instance, a log; nobody leads) and ``paxos-election``
(with epochs on top). Leaves out processes, sockets and files (`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

from clusters.targets.client_api import ClientRequest, InstanceRequest
from clusters.targets.kit.mutants import MutantTable
from clusters.targets.kit.target import KitTarget
from clusters.targets.paxos.core import PaxosCore
from clusters.targets.paxos.knobs import KNOBS, PaxosKnobs
from clusters.targets.paxos.messages import PaxosMessage
from clusters.targets.paxos.rules import Rules
from clusters.targets.paxos.variants import VARIANTS
from clusters.targets.paxos.witness import PaxosWitness


def _core(node: str, members: tuple[str, ...], knobs: PaxosKnobs, rules: Rules) -> PaxosCore:
    """The order of ``members`` gives each its place in the numbers, and says who accepts."""
    if knobs.acceptors > len(members):
        raise KNOBS.wrong(
            f"{knobs.acceptors} acceptors among {len(members)} members", "give more --nodes, or acceptors=all"
        )
    return PaxosCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    MutantTable(KNOBS, Rules, VARIANTS),
    message=PaxosMessage,
    request=ClientRequest | InstanceRequest,
    core=_core,
    witness=lambda node, _: PaxosWitness(node),
)
