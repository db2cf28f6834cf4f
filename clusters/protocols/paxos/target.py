"""The Paxos target as the shells meet it: ``TARGET``.

Promises: one stateless object; profiles ``paxos`` (values by instance, a log; nobody leads) and ``paxos-election``
(with epochs on top). Leaves out processes, sockets and files (`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest, InstanceRequest
from clusters.protocols.paxos.core import PaxosCore
from clusters.protocols.paxos.knobs import KNOBS, PaxosKnobs
from clusters.protocols.paxos.messages import PaxosMessage
from clusters.protocols.paxos.rules import Rules
from clusters.protocols.paxos.variants import VARIANTS
from clusters.protocols.paxos.witness import PaxosWitness
from clusters.protocols.plugged import made, plugged
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class PaxosTarget:
    """See ``harness.core.machine.Target``."""

    name = "paxos"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = PaxosMessage
    request_type: Any = ClientRequest | InstanceRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> PaxosKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core. The order of ``members`` gives each its place in the numbers, and says who accepts."""
        if not isinstance(knobs, PaxosKnobs):
            raise ConfigError("the paxos target needs its own knobs", next_step="build them with TARGET.knobs(...)")
        if not members or len(set(members)) != len(members):
            raise ConfigError("members must be different nodes, at least one", where=f"members {members}")
        if node not in members:
            raise ConfigError(f"{node!r} is not one of the members {', '.join(members)}")
        if knobs.acceptors > len(members):
            raise ConfigError(
                f"{knobs.acceptors} acceptors among {len(members)} members",
                where="knobs of the paxos target",
                next_step="give more --nodes, or acceptors=all",
            )
        return PaxosCore(node, members, knobs, _rules(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        del members
        return PaxosWitness(node)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in VARIANTS.items()}


def _rules(name: str | None, knobs: PaxosKnobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = VARIANTS.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, VARIANTS, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of paxos",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the paxos target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = PaxosTarget()
