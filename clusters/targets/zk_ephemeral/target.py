"""The ephemeral-node target as the shells use it.

Guarantees: one stateless object, `TARGET`; profiles ``race`` (the sketch: replicas race for the leader node),
``controller`` (what Kafka in ZooKeeper mode does) and ``race-strict`` (race with epochs, acks=all, two in-sync replicas
and a leader that steps down when it loses contact). One member is the coordination service: the last, unless the knob
``coordinator`` names another. Out of scope: processes and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.zk_ephemeral import planted_bugs, rules
from dethrone.clusters.targets.zk_ephemeral.broker import BrokerCore
from dethrone.clusters.targets.zk_ephemeral.knobs import KNOBS, ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.messages import ZkMessage
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.service import ServiceCore
from dethrone.clusters.targets.zk_ephemeral.witness import ZkWitness
from dethrone.harness.core.machine import Core


def make_core(node: str, members: tuple[str, ...], knobs: ZkKnobs, rules: Rules) -> Core:
    """The coordination service or a broker."""
    service = knobs.coordinator_of(members)
    if len(members) < 2:
        raise KNOBS.wrong("at least a broker and the coordination service are needed", "give more --nodes")
    if service not in members:
        raise KNOBS.wrong(
            f"coordinator={service!r} is not one of the members {', '.join(members)}",
            "coordinator=last, or the name of a member",
        )
    return ServiceCore(node, knobs, rules) if node == service else BrokerCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=ZkMessage,
    core=make_core,
    witness=lambda node, members: ZkWitness(node, serves=node == members[-1]),
)
