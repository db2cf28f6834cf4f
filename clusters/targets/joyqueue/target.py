"""The JoyQueue target as the shells use it: ``TARGET``.

Guarantees: one stateless object; profiles ``joyqueue`` (the original with its two oddities), ``joyqueue-starved`` (the
same with send tasks that start late, which shows them) and ``joyqueue-mended``. Out of scope: processes, sockets and
files (`dethrone.clusters.node`) and virtual time (`dethrone.clusters.sim`).
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue import planted_bugs, rules
from dethrone.clusters.targets.joyqueue.core import JoyQueueCore
from dethrone.clusters.targets.joyqueue.knobs import KNOBS, Knobs
from dethrone.clusters.targets.joyqueue.messages import JoyQueueMessage
from dethrone.clusters.targets.joyqueue.rules import Rules, members_of
from dethrone.clusters.targets.joyqueue.witness import JoyQueueWitness
from dethrone.clusters.targets.kit.mutants import planted
from dethrone.clusters.targets.kit.target import KitTarget


def _core(node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> JoyQueueCore:
    """Those that the knob ``learners`` names have no vote."""
    if set(knobs.learners) - set(members) or not members_of(members, knobs.learners):
        raise KNOBS.wrong(
            f"learners {', '.join(knobs.learners)} must be members, and not all of them",
            f"name some of {', '.join(members)}",
        )
    return JoyQueueCore(node, members, knobs, rules)


TARGET = KitTarget(
    KNOBS,
    Rules,
    planted(rules, planted_bugs),
    message=JoyQueueMessage,
    core=_core,
    witness=lambda node, _: JoyQueueWitness(node),
)
