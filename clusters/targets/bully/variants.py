"""The planted bugs of the bully target, and the harmless builds that must raise no alarm.

Guarantees: each breaks one rule. Out of scope: what the protocol loses by its design: it is no bug that each part of a
cut cluster elects.
"""

# ruff: noqa: ARG002 - each method is documented in `rules`; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from dethrone.clusters.targets.bully.knobs import BullyKnobs
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.kit.mutants import Mutant, bug, scaled
from dethrone.harness.core.clock import Ns

_OWED, _CONVERGES, _LEAVES = "leader-when-owed", "convergence-after-heal", "step-down-without-quorum"


def _knobs(**other: Any) -> Callable[[BullyKnobs], Rules]:
    """The honest rules under other knobs."""
    return lambda knobs: Rules(msgspec.structs.replace(knobs, **other))


class _AllAnswer(Rules):
    def answers(self, *, higher: bool) -> bool:
        return True

    def asks(self, *, higher: bool) -> bool:
        return True


class _NeverLeads(Rules):
    def takes_lead(self, *, answered: bool) -> bool:
        return False


class _NeverDown(Rules):
    def unheard(self, silence: Ns) -> bool:
        return False


VARIANTS: Mapping[str, Mutant] = {
    "plain-never-leads": bug("does not lead when no higher id answers", _NeverLeads, _OWED, _CONVERGES),
    "plain-never-down": bug("never takes a silent node for dead", _NeverDown, _OWED),
    "plain-slow-timeout": bug(
        "takes ten times as long to miss a coordinator", scaled(Rules, "fail_timeout", Fraction(10)), _OWED
    ),
    "plain-all-answer": bug("lower ids are asked, and answer, too", _AllAnswer, _OWED, _CONVERGES),
    "plain-no-bully-no-yield": bug(
        "neither side of a healed cut gives way", _knobs(bully_back=False, yields=False), _CONVERGES
    ),
    "28-never-steps-down": bug(
        "does not step down without a majority",
        _knobs(step_down=False),
        _LEAVES,
        needs={"step_down": "on", "majority_to_stand": "on"},
    ),
    "harmless-more-beats": bug("beats twice as often", scaled(Rules, "heartbeat", Fraction(1, 2))),
    "harmless-early-timeout": bug(
        "misses a coordinator a little sooner", scaled(Rules, "fail_timeout", Fraction(3, 4))
    ),
    "harmless-patient": bug("waits a little longer for a higher id", scaled(Rules, "ok_timeout", Fraction(5, 4))),
    "harmless-impatient": bug("waits less long for an announcement", scaled(Rules, "coord_timeout", Fraction(3, 4))),
    "harmless-majority-writes": bug("acknowledges what a majority holds", _knobs(write_concern="majority")),
}
