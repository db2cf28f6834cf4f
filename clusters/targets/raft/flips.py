"""The flips of the claims about Raft: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims); a
planted bug that breaks this rule serves as its flip. Out of scope: checkers; only the claim's test must catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.clusters.targets.raft import broken
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.rng import Rng


class _NeverCampaigns(Rules):
    def may_campaign(self, node: str, voters: Sequence[str], *, leaving: bool) -> bool:  # noqa: ARG002
        return False


class _SameTermAgain(Rules):
    def retries_same_term(self) -> bool:
        return True


class _SecondVote(Rules):
    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:
        del voted_for
        return super().grants_vote(voted_for=None, candidate=candidate, up_to_date=up_to_date)


class _FollowerServes(Rules):
    def follower_serves(self) -> bool:
        return True


class _RareHeartbeats(Rules):
    def heartbeat_interval(self) -> Ns:
        return 10 * self.knobs.election_timeout_max


class _WaitsAMinute(Rules):
    def deadline(self, rng: Rng) -> Ns:  # noqa: ARG002
        return 60 * SECOND


class _SendsFirst(Rules):
    def appends_before_sending(self) -> bool:
        return False


class _GivesUp(Rules):
    def tries_again(self, silence: Ns) -> bool:
        return silence < 2 * self.knobs.election_timeout_max


class _CommitsWhatItStores(Rules):
    def follower_commit(self, *, leader_commit: int, last_new: int, commit: int) -> int:
        del leader_commit
        return max(commit, last_new)


_FLIPS: tuple[tuple[int, str, type[Rules]], ...] = (
    (15, "a follower turns leader without ever being a candidate", broken.ResumesLeadership),
    (16, "no node ever campaigns", _NeverCampaigns),
    (17, "a lost campaign continues in its term", _SameTermAgain),
    (18, "votes are asked for before the own vote is stored", broken.AnswerBeforePersist),
    (19, "a vote does not keep from another one in its term", _SecondVote),
    (20, "half of an even number elects", broken.HalfIsEnough),
    (21, "a candidate refuses the leader of its term", broken.RefusesCampaignedTerm),
    (22, "the timeout is not random", broken.NoJitter),
    (23, "candidates that tied wait equally long", broken.NoJitter),
    (24, "followers answer reads", _FollowerServes),
    (25, "a write is acknowledged when the leader alone has it", broken.AcksAfterLocalAppend),
    (26, "the votes of all are wanted", broken.WantsEveryVote),
    (27, "the leader says nothing for seconds", _RareHeartbeats),
    (28, "the death of a leader is noticed after a minute", _WaitsAMinute),
    (29, "entries are sent before the leader writes them", _SendsFirst),
    (30, "a follower that is silent for long is given up", _GivesUp),
    (31, "followers apply what they store before the leader commits it", _CommitsWhatItStores),
    (32, "entries that conflict with the leader's stay", broken.NeverTruncates),
)

FLIPS: Mapping[str, Mutant] = {f"flip-1-{n}": Mutant(says=says, rules=rules) for n, says, rules in _FLIPS}
