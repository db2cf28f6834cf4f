"""The DLedger target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``dledger`` (the safer reading wherever sources differ),
``dledger-mended`` (two known weaknesses of the election mended) and ``dledger-upstream`` (as release 0.2.7 does it).
Leaves out processes, sockets and files (`clusters.node`) and virtual time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest
from clusters.protocols.dledger.core import DledgerCore
from clusters.protocols.dledger.knobs import KNOBS, DledgerKnobs
from clusters.protocols.dledger.messages import DledgerMessage
from clusters.protocols.dledger.rules import Rules
from clusters.protocols.dledger.variants import VARIANTS
from clusters.protocols.dledger.witness import DledgerWitness
from clusters.protocols.plugged import made, plugged
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class DledgerTarget:
    """See ``harness.core.machine.Target``."""

    name = "dledger"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = DledgerMessage
    request_type: Any = ClientRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> DledgerKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core; the list of members is static and names ``node``."""
        if not isinstance(knobs, DledgerKnobs):
            raise ConfigError("the dledger target needs its own knobs", next_step="build them with TARGET.knobs(...)")
        if len(set(members)) != len(members) or node not in members:
            raise ConfigError(
                f"members must be different nodes, {node} among them",
                where=f"members {', '.join(members) or 'none'}",
                next_step="name each node once",
            )
        return DledgerCore(node, members, knobs, _rules(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        del members
        return DledgerWitness(node)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in VARIANTS.items()}


def _rules(name: str | None, knobs: DledgerKnobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = VARIANTS.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, VARIANTS, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of dledger",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the dledger target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = DledgerTarget()
