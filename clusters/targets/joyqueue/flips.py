"""The flips: each breaks the one rule of a numbered claim, so that the claim's test must turn red.

Guarantees: one class per flip, one overridden rule; the number is the claim's (docs/sources.md, claims). Out of scope:
planted bugs (`variants`), some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dethrone.clusters.targets.joyqueue.knobs import Knobs
from dethrone.clusters.targets.joyqueue.rules import Position, Round, Rules, WriteReason
from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng


class _NoTimerAtStart(Rules):
    def arms_timer_at_start(self) -> bool:
        return False


class _ShortSpread(Rules):
    def election_delay(self, rng: Rng) -> Ns:
        knobs = self.knobs
        return knobs.ns(knobs.election_timeout_ms + rng.below(knobs.election_timeout_ms // 2))


class _NoSpread(Rules):
    def election_delay(self, rng: Rng) -> Ns:  # noqa: ARG002
        return self.election_delay_min()


class _KeepsPendingTimer(Rules):
    def cancels_pending_timer(self) -> bool:
        return False


class _ExpiresWhileStopped(Rules):
    def expiry_needs_service(self) -> bool:
        return False


class _AsksAlone(Rules):
    def leads_alone(self, nodes: int) -> bool:  # noqa: ARG002
        return False


class _LeaderExpires(Rules):
    def ignores_expiry(self, *, leads: bool) -> bool:  # noqa: ARG002
        return False


class _GivesUpAfterFailedPreVote(Rules):
    def rearms_after_failed_pre_vote(self) -> bool:
        return False


class _DoesNotCountItself(Rules):
    def counts_itself(self, kind: Round) -> bool:
        return kind != "prevote"


class _PreVoteOfTheNextTerm(Rules):
    def pre_vote_term(self, term: int) -> int:
        return term + 1


class _PreVoteAnswersAlways(Rules):
    def answers_count_in(self, kind: Round, *, follower: bool, candidate: bool) -> bool:
        return kind == "prevote" or super().answers_count_in(kind, follower=follower, candidate=candidate)


class _PreVoteTalliedAfterStepDown(Rules):
    def tallies_after_step_down(self, kind: Round) -> bool:
        return kind == "prevote" or super().tallies_after_step_down(kind)


class _HalfOfThePreVotes(Rules):
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if kind == "prevote":
            return granted >= nodes // 2
        return super().majority(kind, granted=granted, nodes=nodes, answered=answered)


class _CampaignsInTheSameTerm(Rules):
    def next_term(self, term: int) -> int:
        return term


class _AsksBeforeTheDisk(Rules):
    def waits_for_disk(self, why: WriteReason) -> bool:
        return why != "campaign"


class _ServesWhileCampaigning(Rules):
    def offline_during_campaign(self) -> bool:
        return False


class _CampaignsForEver(Rules):
    def steps_down_on_vote_timeout(self) -> bool:
        return False


class _HidesItsLog(Rules):
    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:
        return (0, 0) if kind == "vote" else super().last_log(kind, last_term=last_term, right=right, term=term)


class _VoteAnswersAlways(Rules):
    def answers_count_in(self, kind: Round, *, follower: bool, candidate: bool) -> bool:
        return kind == "vote" or super().answers_count_in(kind, follower=follower, candidate=candidate)


class _IgnoresHigherTerms(Rules):
    def steps_down_for(self, answer_term: int, term: int) -> bool:  # noqa: ARG002
        return False


class _HalfOfTheVotes(Rules):
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if kind == "vote":
            return granted >= nodes // 2
        return super().majority(kind, granted=granted, nodes=nodes, answered=answered)


class _TakesAnyPrevious(Rules):
    def matches_prev(self, own_term: int, prev_term: int) -> bool:  # noqa: ARG002
        return True


def _flip(says: str, rules: Callable[[Knobs], Rules]) -> Mutant:
    return Mutant(says=says, rules=rules)


FLIPS: Mapping[str, Mutant] = {
    "flip-2-1": _flip("does not arm the election timer at its start", _NoTimerAtStart),
    "flip-2-2": _flip("spreads its election timeouts over half of T only", _ShortSpread),
    "flip-2-3": _flip("always waits T", _NoSpread),
    "flip-2-4": _flip("lets the pending election timer run on when it is reset", _KeepsPendingTimer),
    "flip-2-5": _flip("acts on an expiry although its service is stopped", _ExpiresWhileStopped),
    "flip-2-6": _flip("asks for pre-votes in a group of one", _AsksAlone),
    "flip-2-7": _flip("asks for pre-votes although it leads", _LeaderExpires),
    "flip-2-8": _flip("does not arm its timer again after a pre-vote that failed", _GivesUpAfterFailedPreVote),
    "flip-2-9": _flip("does not count its own pre-vote", _DoesNotCountItself),
    "flip-2-10": _flip("asks for pre-votes in the next term", _PreVoteOfTheNextTerm),
    "flip-2-11": _flip("takes pre-vote answers in any role", _PreVoteAnswersAlways),
    "flip-2-12": _flip("tallies a pre-vote answer after it stepped down for it", _PreVoteTalliedAfterStepDown),
    "flip-2-13": _flip("campaigns with half of the pre-votes", _HalfOfThePreVotes),
    "flip-2-14": _flip("campaigns without raising the term", _CampaignsInTheSameTerm),
    "flip-2-15": _flip("asks for votes before its metadata is stored", _AsksBeforeTheDisk),
    "flip-2-16": _flip("leaves its store online during a campaign", _ServesWhileCampaigning),
    "flip-2-17": _flip("stays a candidate when its vote timer expires", _CampaignsForEver),
    "flip-2-18": _flip("asks for votes as if its log were empty", _HidesItsLog),
    "flip-2-19": _flip("takes votes in any role", _VoteAnswersAlways),
    "flip-2-20": _flip("stays in its term when a vote answer carries a higher one", _IgnoresHigherTerms),
    "flip-2-21": _flip("leads with half of the votes", _HalfOfTheVotes),
    "flip-2-22": _flip("appends after any entry, without comparing it", _TakesAnyPrevious),
}
