"""The planted bugs that need more than an expression, one class of broken rules each; all others stand in ``rules``.

Guarantees: each build breaks one rule (37: the two that make its deadlock), is named by its number (docs/sources.md,
planted-bugs), and names the knobs without which it shows nothing. It inherits the promise of its profile. Omitted, as
the original itself makes these mistakes: 17 (JQ-B1), 28 and 30 (JQ-B5), 36 (JQ-B4); 18 (JQ-B2) is planted into the
mended build, where 17 alone shows nothing. Omitted, too: 35, as pre-votes here do not protect a leader, so its checker
has no promise to judge by. Without a counterpart: repeated requests (39), as every campaign has its own term; leases
(47, 49, 51); membership changes (53, 54); a main loop that can be stuck (58). 16 is masked while answers are not
awaited beyond an election timeout, and where messages are much quicker than elections. Out of scope: finding the bugs,
which is the exam's task.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from typing import Literal

from dethrone.clusters.targets.joyqueue.knobs import Knobs
from dethrone.clusters.targets.joyqueue.rules import LATE, Rules
from dethrone.clusters.targets.joyqueue.storage import Stored
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng


@mutant("07-unreadable-means-fresh")
class UnreadableMeansFresh(Rules):  # DLedger
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        try:
            return super().load(content, node=node)
        except Unreadable:
            return Stored()


@mutant("11-forgets-own-vote", advised=LATE)
class ForgetsOwnVote(Rules):  # KAFKA-10661
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        stored = super().load(content, node=node)
        return Stored(stored.term, None) if stored.voted_for == node else stored


@mutant("34-same-seed")
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_delay(self, rng: Rng) -> Ns:
        return super().election_delay(self._own)
