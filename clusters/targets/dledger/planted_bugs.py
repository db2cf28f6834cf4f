"""The planted bugs that need more than an expression, one class of broken rules each; all others stand in ``rules``.

Guarantees: each build is named by its number (docs/sources.md, planted-bugs; ``plain``: no number, but shown by
nearly any schedule), and inherits the promise of its profile. Omitted, as DLedger has nothing to break there: 11 (a
restarted node campaigns at once in its stored term, and so repeats its own vote before it can hear of another
candidate), 23, 53, 54 (members never change), 35 to 37 (no pre-vote), 47 to 51 (no leases), 52 (its clock is the wall
clock by design), 56 (reads are not linearizable), 58 (heartbeats do not wait for the disk by design).
"""

# ruff: noqa: D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from dethrone.clusters.targets.dledger.rules import ATOMIC, Rules
from dethrone.clusters.targets.dledger.storage import TermState
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng


@mutant("07-unreadable-means-fresh", needs=ATOMIC)
class UnreadableMeansFresh(Rules):  # DLedger itself does it
    def load_state(self, content: bytes | str | None, *, node: str) -> TermState:
        try:
            return super().load_state(content, node=node)
        except Unreadable:
            return TermState()


@mutant("harmless-longer-jitter")
class LongerJitter(Rules):
    def vote_delay(self, rng: Rng) -> Ns:
        return super().vote_delay(rng) + rng.below(self.knobs.max_vote_interval)
