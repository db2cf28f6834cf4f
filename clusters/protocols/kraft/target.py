"""The KRaft target as the shells meet it.

Promises: one stateless object, `TARGET`; profiles ``kraft`` (a leader without a majority's fetches resigns),
``kraft-3.7`` (after half as long again) and ``kraft-3.6`` (never: what Kafka 2.8 to 3.6 really do). Leaves out
processes, sockets and files (`clusters.node`) and virtual time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest
from clusters.protocols.kraft.core import KraftCore
from clusters.protocols.kraft.flips import FLIPS
from clusters.protocols.kraft.knobs import KNOBS, KraftKnobs
from clusters.protocols.kraft.messages import KraftMessage
from clusters.protocols.kraft.rules import Rules
from clusters.protocols.kraft.variants import VARIANTS, Variant
from clusters.protocols.kraft.witness import KraftWitness
from clusters.protocols.plugged import made, plugged
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness


class KraftTarget:
    """Kafka's metadata quorum."""

    name = "kraft"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = KraftMessage
    request_type: Any = ClientRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> KraftKnobs:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core. Members that the knob ``observers`` names fetch only."""
        if not isinstance(knobs, KraftKnobs):
            raise ConfigError("the kraft target needs its own knobs", next_step="build them with TARGET.knobs(...)")
        if not members or len(set(members)) != len(members):
            raise ConfigError("members must be different nodes, at least one", where=f"members {members}")
        if node not in members:
            raise ConfigError(f"{node} is not one of the members {', '.join(members)}")
        check_observers(knobs, members)
        return KraftCore(node, members, knobs, rules_of(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        return KraftWitness(node=node, members=members)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong; the flips of the claims last."""
        return {name: variant.says for name, variant in {**VARIANTS, **FLIPS}.items()}


def check_observers(knobs: KraftKnobs, members: tuple[str, ...]) -> None:
    """Raise ConfigError where an observer is no member, or nobody is left to vote."""
    for name in knobs.observers:
        if name not in members:
            raise ConfigError(
                f"the observer {name!r} is no member",
                where="knob observers of the kraft target",
                next_step=f"name some of {', '.join(members)}",
            )
    if not knobs.voters(members):
        raise ConfigError("all members are observers: nobody votes", next_step="leave at least one out of observers")


def check_variant(name: str, knobs: KraftKnobs) -> Variant:
    """The variant of that name. Raises ConfigError if there is none, or if it shows nothing under these knobs."""
    known = {**VARIANTS, **FLIPS}
    variant = known.get(name)
    if variant is None:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of kraft",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the kraft target",
            next_step=f"set {missing}",
        )
    return variant


def rules_of(name: str | None, knobs: KraftKnobs) -> Rules:
    """The rules of the honest build, of a variant, or of somebody's own class. Raises ConfigError."""
    if name is None:
        return Rules(knobs)
    own = plugged(name, Rules) if name not in {**VARIANTS, **FLIPS} else None
    return check_variant(name, knobs).rules(knobs) if own is None else made(own, knobs)


TARGET: Target = KraftTarget()
