"""The KRaft target as the shells use it.

Guarantees: one stateless object, `TARGET`; profiles ``kraft`` (a leader without a majority's fetches resigns),
``kraft-3.7`` (it resigns after 1.5 times that time) and ``kraft-3.6`` (it never does, as in Kafka 2.8 to 3.6). Out of
scope: processes, sockets and files (`dethrone.clusters.node`) and virtual time.
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.kraft import planted_bugs, rules
from dethrone.clusters.targets.kraft.core import KraftCore
from dethrone.clusters.targets.kraft.knobs import KNOBS, KraftKnobs
from dethrone.clusters.targets.kraft.messages import KraftMessage
from dethrone.clusters.targets.kraft.rules import Rules
from dethrone.clusters.targets.kraft.witness import KraftWitness


def check_observers(knobs: KraftKnobs, members: tuple[str, ...]) -> None:
    """Raise ConfigError where an observer is no member, or no node is left to vote."""
    for name in knobs.observers:
        if name not in members:
            raise KNOBS.wrong(f"the observer {name!r} is no member", f"name some of {', '.join(members)}")
    if not knobs.voters(members):
        raise KNOBS.wrong("all members are observers: no node votes", "leave at least one out of observers")


def _core(node: str, members: tuple[str, ...], knobs: KraftKnobs, rules: Rules) -> KraftCore:
    """Members that the knob ``observers`` names fetch only."""
    check_observers(knobs, members)
    return KraftCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=KraftMessage,
    core=_core,
    witness=lambda node, members: KraftWitness(node=node, members=members),
)
