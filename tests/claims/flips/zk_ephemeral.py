"""The flips of the claims about elections by an ephemeral node: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims).
Out of scope: checkers; only the claim's test must catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import broken
from dethrone.clusters.targets.zk_ephemeral.rules import Rules


class FollowersServe(Rules):
    def serves_clients(self, *, leads: bool, reading: bool) -> bool:
        return leads or reading


LeaderNodePersists = broken(Rules, creates_ephemeral=False)
IgnoresDeletion = broken(Rules, reacts_to_deletion=False)
EveryCreatorWins = broken(Rules, may_create=True)


FLIPS: Mapping[str, type[Rules]] = {
    "flip-1-10": FollowersServe,  # followers serve reads
    "flip-1-11": FollowersServe,  # reads are spread over followers
    "flip-1-12": LeaderNodePersists,  # the leader's node is not ephemeral
    "flip-1-13": IgnoresDeletion,  # followers do nothing when the node vanishes
    "flip-1-14": EveryCreatorWins,  # every creator believes that it won
}
