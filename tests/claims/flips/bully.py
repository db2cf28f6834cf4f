"""The flips of the claims about bully elections: builds in which the very rule of one claim is broken.

Guarantees: a flip turns off (or on) the knobs that its claim names, and nothing else. Out of scope: checkers; only the
claim's test must catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.targets.bully.knobs import BullyKnobs
from dethrone.clusters.targets.bully.rules import Rules


class _Turned(Rules):
    """The honest rules; a subclass names the knobs that are turned."""

    def __init_subclass__(cls, **turned: bool) -> None:
        cls.turned = turned

    def __init__(self, knobs: BullyKnobs) -> None:
        super().__init__(msgspec.structs.replace(knobs, **self.turned))


class Silent(_Turned, announce=False):
    """No announcement."""


class KeepsQuiet(_Turned, elect_at_start=False, bully_back=False):
    """A top id keeps quiet."""


class MajorityNeeded(_Turned, majority_to_stand=True, step_down=True):
    """A majority is needed."""


class NoMajorityNeeded(_Turned, majority_to_stand=False, count_votes=False):
    """No majority is needed."""


class VotesDoNotBind(_Turned, lease=False):
    """Votes do not bind."""


class AnyAge(_Turned, freshness=False):
    """Freshness does not matter."""


class StaysWhenCut(_Turned, step_down=False):
    """A cut primary stays."""


class NeverYields(_Turned, yields=False):
    """No leader yields."""


FLIPS: Mapping[str, type[Rules]] = {
    "flip-bu-1": Silent,
    "flip-bu-2": KeepsQuiet,
    "flip-bu-3": MajorityNeeded,
    "flip-bu-4": NoMajorityNeeded,
    "flip-bu-5": VotesDoNotBind,
    "flip-bu-6": AnyAge,
    "flip-bu-7": StaysWhenCut,
    "flip-bu-8": NeverYields,
}
