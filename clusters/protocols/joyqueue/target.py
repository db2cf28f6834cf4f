"""The JoyQueue target as the shells meet it: ``TARGET``.

Promises: one stateless object; profiles ``joyqueue`` (the original with its two oddities), ``joyqueue-starved`` (the
same with send tasks that start late, which shows them) and ``joyqueue-mended``. Leaves out processes, sockets and files
(`clusters.node`) and virtual time (`clusters.sim`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from clusters.protocols.client_api import ClientReply, ClientRequest
from clusters.protocols.joyqueue.core import JoyQueueCore
from clusters.protocols.joyqueue.flips import FLIPS
from clusters.protocols.joyqueue.knobs import KNOBS, Knobs
from clusters.protocols.joyqueue.messages import JoyQueueMessage
from clusters.protocols.joyqueue.rules import Rules, members_of
from clusters.protocols.joyqueue.variants import VARIANTS
from clusters.protocols.joyqueue.witness import JoyQueueWitness
from clusters.protocols.plugged import made, plugged
from harness.core.errors import ConfigError
from harness.core.machine import Core, Target, Witness

_ALL = {**VARIANTS, **FLIPS}


class JoyQueueTarget:
    """See ``harness.core.machine.Target``."""

    name = "joyqueue"
    transport: Literal["tcp", "http"] = "tcp"
    message_type: Any = JoyQueueMessage
    request_type: Any = ClientRequest
    reply_type: Any = ClientReply

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> Knobs:
        """Typed knobs from words."""
        return KNOBS.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core; ``node`` must be one of ``members``. Those that the knob ``learners`` names have no vote."""
        if not isinstance(knobs, Knobs):
            raise ConfigError("the joyqueue target needs its own knobs", next_step="build them with TARGET.knobs(...)")
        if not members or len(set(members)) != len(members):
            raise ConfigError("members must be different nodes, at least one", where=f"members {members}")
        if node not in members:
            raise ConfigError(f"{node!r} is not a member of {', '.join(members)}")
        strangers = sorted(set(knobs.learners) - set(members))
        if strangers or not members_of(members, knobs.learners):
            raise ConfigError(
                f"learners {', '.join(knobs.learners)} of joyqueue must be members, and not all of them",
                where=f"members {', '.join(members)}",
            )
        return JoyQueueCore(node, members, knobs, _rules(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        del members
        return JoyQueueWitness(node)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: variant.says for name, variant in _ALL.items()}


def _rules(name: str | None, knobs: Knobs) -> Rules:
    if name is None:
        return Rules(knobs)
    variant = _ALL.get(name)
    if variant is None:
        own = plugged(name, Rules)
        if own is not None:
            return made(own, knobs)
        close = difflib.get_close_matches(name, _ALL, n=1, cutoff=0.3)
        raise ConfigError(
            f"no variant {name!r} of joyqueue",
            next_step=f"did you mean {close[0]!r}?" if close else "`dethrone list` shows all variants",
        )
    missing = variant.unmet(knobs)
    if missing:
        raise ConfigError(
            f"variant {name} shows nothing without {missing}",
            where="knobs of the joyqueue target",
            next_step=f"set {missing}",
        )
    return variant.rules(knobs)


TARGET: Target = JoyQueueTarget()
