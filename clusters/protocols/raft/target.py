"""The Raft target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``raft`` (pre-vote, check-quorum, stickiness, no-op on) and
``raft-paper`` (all off). Leaves out processes, sockets and files (`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest, StateRequest
from clusters.protocols.plugged import made, plugged
from clusters.protocols.raft.core import RaftCore
from clusters.protocols.raft.flips import FLIPS
from clusters.protocols.raft.knobs import KNOBS, RaftKnobs
from clusters.protocols.raft.messages import RaftMessage
from clusters.protocols.raft.rules import Rules
from clusters.protocols.raft.variants import VARIANTS
from clusters.protocols.raft.witness import RaftWitness
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class RaftTarget:
    """Raft with switchable rules."""

    name = "raft"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = RaftMessage
    request_type: Any = ClientRequest | StateRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> RaftKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core. A node outside ``members`` waits to be added (membership=single_server only)."""
        if not isinstance(knobs, RaftKnobs):
            raise ConfigError("the raft target needs its own knobs", next_step="build them with TARGET.knobs(...)")
        if not members or len(set(members)) != len(members):
            raise ConfigError("members must be different nodes, at least one", where=f"members {members}")
        if node not in members and knobs.membership == "static":
            raise ConfigError(
                f"{node} is not one of the members {', '.join(members)}",
                next_step="name it among the members, or set membership=single_server and add it later",
            )
        return RaftCore(node, members, knobs, _rules(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        del members
        return RaftWitness(node)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in (*VARIANTS.items(), *FLIPS.items())}


def _rules(name: str | None, knobs: RaftKnobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = VARIANTS.get(name) or FLIPS.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, (*VARIANTS, *FLIPS), n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of raft",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the raft target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = RaftTarget()
