"""The planted bugs that need more than an expression, one class of broken rules each; all others stand in ``rules``.

Guarantees: each build breaks one rule, or two that make one mistake, is named by its number (docs/sources.md,
planted-bugs; ``plain``: no number, but shown by nearly any schedule) and states what it shows nothing without. It
inherits the promise of its profile. Not applicable here:

* 07: the original deletes an unreadable file itself; 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases;
* 27: a node that refuses a leader just campaigns again, won or lost: without pre-vote nothing prevents that;
* 39: no request is repeated within an epoch, for its time-out outlasts the election timer;
* 44: an answer holds the records after the requested offset, and a late one is dropped;
* 53, 54: the voters are static; 56: a leader's own reads carry no promise; 58: there is one loop only.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.rules import Rules
from dethrone.harness.core.rng import Rng


@mutant("34-same-seed", caught_by=(by.LIVELOCK,))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: KraftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_timeout_ms(self, rng: Rng) -> int:
        return super().election_timeout_ms(self._own)

    def backoff_ms(self, rng: Rng, retries: int) -> int:
        return super().backoff_ms(self._own, retries)
