"""The master/slave target as the shells use it: the negative one, for nothing here elects.

Guarantees: one stateless object, `TARGET`; the last members are name servers (knob ``name_servers``), the others
brokers, laid out by the knob ``deployment``. Profiles ``master-slave``, ``sync`` and ``demand-failover`` (the same
protocol with a failover demanded: a run must report that there is none). Out of scope: processes and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.master_slave import planted_bugs, rules
from dethrone.clusters.targets.master_slave.broker import BrokerCore
from dethrone.clusters.targets.master_slave.knobs import KNOBS, MsKnobs
from dethrone.clusters.targets.master_slave.messages import MsMessage, MsRequest
from dethrone.clusters.targets.master_slave.nameserver import NameServerCore
from dethrone.clusters.targets.master_slave.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.witness import LogWitness
from dethrone.harness.core.machine import Core


def _core(node: str, members: tuple[str, ...], knobs: MsKnobs, rules: Rules) -> Core:
    """A broker or a name server."""
    if node in knobs.servers_of(members):
        return NameServerCore(node, knobs, rules)
    return BrokerCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=MsMessage,
    request=MsRequest,
    core=_core,
    witness=lambda _, __: LogWitness(),
)
