"""The naming Raft of Nacos 1.4.1 as the shells meet it: ``TARGET``.

Promises: the honest build is the original with its known faults; profile ``nacos-mended`` switches on all four knobs
that mend one each. Its variants are bugs planted in the mended one, and the flips of the claims (`claims`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols import client_api
from clusters.protocols.nacos.core import NacosCore
from clusters.protocols.nacos.knobs import KNOBS, Knobs
from clusters.protocols.nacos.messages import NacosMessage
from clusters.protocols.nacos.rules import Rules
from clusters.protocols.nacos.variants import VARIANTS
from clusters.protocols.nacos.witness import NacosWitness
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness
from harness.core.registry import unknown_name


class NacosTarget:
    """See ``harness.core.machine.Target``."""

    name: str = "nacos"
    transport: Literal["tcp", "http"] = "http"
    message_type: Any = NacosMessage
    request_type: Any = client_api.ClientRequest
    reply_type: Any = client_api.ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> Knobs:
        """Typed knobs from words."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core; ``node`` must be one of ``members``, whose names are the ``ip`` of the records."""
        if variant is not None and variant not in VARIANTS:
            raise unknown_name("variant of nacos:", variant, VARIANTS)
        if node not in members:
            raise ConfigError(f"{node!r} is not a member of {', '.join(members)}")
        if knobs.standalone and len(members) > 1:
            raise ConfigError("standalone=true is for one node", next_step="give one member, or standalone=false")
        if variant is not None and (missing := VARIANTS[variant].unmet(knobs)):
            raise ConfigError(
                f"variant {variant} shows nothing without {missing}",
                where="knobs of the nacos target",
                next_step=f"set {missing}, or profile nacos-mended",
            )
        rules = Rules(knobs) if variant is None else VARIANTS[variant].rules(knobs)
        return NacosCore(node=node, members=members, knobs=knobs, rules=rules)

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        return NacosWitness(node=node, members=members)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in VARIANTS.items()}


TARGET: Target = NacosTarget()
