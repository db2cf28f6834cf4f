"""The naming Raft of Nacos 1.4.1 as the shells use it: ``TARGET``.

Guarantees: the honest build is the original with its known faults; profile ``nacos-mended`` switches on all four knobs
that mend one each. Its variants are bugs planted in the mended one.
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.nacos import planted_bugs, rules
from dethrone.clusters.targets.nacos.core import NacosCore
from dethrone.clusters.targets.nacos.knobs import KNOBS, Knobs
from dethrone.clusters.targets.nacos.messages import NacosMessage
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.clusters.targets.nacos.witness import NacosWitness


def _core(node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> NacosCore:
    """The members' names are the ``ip`` of the records."""
    if knobs.standalone and len(members) > 1:
        raise KNOBS.wrong("standalone=true is for one node", "give one member, or standalone=false")
    return NacosCore(node=node, members=members, knobs=knobs, rules=rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=NacosMessage,
    transport="http",
    core=_core,
    witness=lambda node, members: NacosWitness(node=node, members=members),
)
