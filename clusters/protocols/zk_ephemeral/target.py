"""The ephemeral-node target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``race`` (the sketch: replicas race for the leader node),
``controller`` (what Kafka in ZooKeeper mode does) and ``race-strict`` (race with epochs, acks=all, two in-sync replicas
and a leader that steps down when it loses contact). One member is the coordination service: the last, unless the knob
``coordinator`` names another. Leaves out processes and virtual time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest
from clusters.protocols.plugged import made, plugged
from clusters.protocols.zk_ephemeral.broker import BrokerCore
from clusters.protocols.zk_ephemeral.knobs import KNOBS, ZkKnobs
from clusters.protocols.zk_ephemeral.messages import ZkMessage
from clusters.protocols.zk_ephemeral.rules import Rules
from clusters.protocols.zk_ephemeral.service import ServiceCore
from clusters.protocols.zk_ephemeral.variants import VARIANTS
from clusters.protocols.zk_ephemeral.witness import ZkWitness
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class ZkEphemeralTarget:
    """See ``harness.core.machine.Target``."""

    name = "zk-ephemeral"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = ZkMessage
    request_type: Any = ClientRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> ZkKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core: the coordination service or a broker."""
        if not isinstance(knobs, ZkKnobs):
            raise ConfigError("the zk-ephemeral target needs its own knobs", next_step="build them with TARGET.knobs()")
        if len(members) < 2 or len(set(members)) != len(members):
            raise ConfigError(
                "zk-ephemeral needs different members, at least a broker and the coordination service",
                where=f"members {members}",
                next_step="give more --nodes",
            )
        if node not in members:
            raise ConfigError(f"{node} is not one of the members {', '.join(members)}")
        service = knobs.coordinator_of(members)
        if service not in members:
            raise ConfigError(
                f"coordinator={service!r} is not one of the members {', '.join(members)}",
                next_step="coordinator=last, or the name of a member",
            )
        rules = _rules(variant, knobs)
        return ServiceCore(node, knobs, rules) if node == service else BrokerCore(node, members, knobs, rules)

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        return ZkWitness(node, serves=node == members[-1])

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in VARIANTS.items()}


def _rules(name: str | None, knobs: ZkKnobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = VARIANTS.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, VARIANTS, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of zk-ephemeral",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the zk-ephemeral target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = ZkEphemeralTarget()
