"""The master/slave target as the shells meet it: the negative one, for nothing here elects.

Promises: one stateless object, `TARGET`; the last members are name servers (knob ``name_servers``), the others brokers,
laid out by the knob ``deployment``. Profiles ``master-slave``, ``sync`` and ``demand-failover`` (the same protocol, of
which a failover is demanded: a run must report that there is none). Leaves out processes and virtual time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply
from clusters.protocols.master_slave.broker import BrokerCore
from clusters.protocols.master_slave.knobs import KNOBS, MsKnobs
from clusters.protocols.master_slave.messages import MsMessage, MsRequest
from clusters.protocols.master_slave.nameserver import NameServerCore
from clusters.protocols.master_slave.rules import Rules
from clusters.protocols.master_slave.variants import VARIANTS
from clusters.protocols.master_slave.witness import MsWitness
from clusters.protocols.plugged import made, plugged
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class MasterSlaveTarget:
    """See ``harness.core.machine.Target``."""

    name = "master-slave"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = MsMessage
    request_type: Any = MsRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> MsKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core: a broker or a name server."""
        if not isinstance(knobs, MsKnobs):
            raise ConfigError("the master-slave target needs its own knobs", next_step="build them with TARGET.knobs()")
        if node not in members or len(set(members)) != len(members):
            raise ConfigError(f"{node} must be one of different members", where=f"members {members}")
        rules = _rules(variant, knobs)
        if node in knobs.servers_of(members):
            return NameServerCore(node, knobs, rules)
        return BrokerCore(node, members, knobs, rules)

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        del members
        return MsWitness(node)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in VARIANTS.items()}


def _rules(name: str | None, knobs: MsKnobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = VARIANTS.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, VARIANTS, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of master-slave",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the master-slave target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = MasterSlaveTarget()
