"""The flips of the claims about JoyQueue: builds in which the very rule of one claim is broken.

Guarantees: one class per flip, one overridden rule; the number is the claim's (docs/sources.md, claims). Out of scope:
planted bugs, some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.joyqueue.rules import Position, Round, Rules, WriteReason
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng
from tests.claims.always import always

NoTimerAtStart = always(Rules, arms_timer_at_start=False)


class ShortSpread(Rules):
    def election_delay(self, rng: Rng) -> Ns:
        knobs = self.knobs
        return knobs.ns(knobs.election_timeout_ms + rng.below(knobs.election_timeout_ms // 2))


class NoSpread(Rules):
    def election_delay(self, rng: Rng) -> Ns:
        return self.election_delay_min()


KeepsPendingTimer = always(Rules, cancels_pending_timer=False)
ExpiresWhileStopped = always(Rules, expiry_needs_service=False)
AsksAlone = always(Rules, leads_alone=False)
LeaderExpires = always(Rules, ignores_expiry=False)
GivesUpAfterFailedPreVote = always(Rules, rearms_after_failed_pre_vote=False)


class DoesNotCountItself(Rules):
    def counts_itself(self, kind: Round) -> bool:
        return kind != "prevote"


class PreVoteOfTheNextTerm(Rules):
    def pre_vote_term(self, term: int) -> int:
        return term + 1


class PreVoteAnswersAlways(Rules):
    def answers_count_in(self, kind: Round, *, follower: bool, candidate: bool) -> bool:
        return kind == "prevote" or super().answers_count_in(kind, follower=follower, candidate=candidate)


class PreVoteTalliedAfterStepDown(Rules):
    def tallies_after_step_down(self, kind: Round) -> bool:
        return kind == "prevote" or super().tallies_after_step_down(kind)


class HalfOfThePreVotes(Rules):
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if kind == "prevote":
            return granted >= nodes // 2
        return super().majority(kind, granted=granted, nodes=nodes, answered=answered)


class CampaignsInTheSameTerm(Rules):
    def next_term(self, term: int) -> int:
        return term


class AsksBeforeTheDisk(Rules):
    def waits_for_disk(self, why: WriteReason) -> bool:
        return why != "campaign"


ServesWhileCampaigning = always(Rules, offline_during_campaign=False)
CampaignsForEver = always(Rules, steps_down_on_vote_timeout=False)


class HidesItsLog(Rules):
    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:
        return (0, 0) if kind == "vote" else super().last_log(kind, last_term=last_term, right=right, term=term)


class VoteAnswersAlways(Rules):
    def answers_count_in(self, kind: Round, *, follower: bool, candidate: bool) -> bool:
        return kind == "vote" or super().answers_count_in(kind, follower=follower, candidate=candidate)


IgnoresHigherTerms = always(Rules, steps_down_for=False)


class HalfOfTheVotes(Rules):
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if kind == "vote":
            return granted >= nodes // 2
        return super().majority(kind, granted=granted, nodes=nodes, answered=answered)


TakesAnyPrevious = always(Rules, matches_prev=True)


FLIPS: Mapping[str, type[Rules]] = {
    "flip-2-1": NoTimerAtStart,  # does not arm the election timer at its start
    "flip-2-2": ShortSpread,  # spreads its election timeouts over half of T only
    "flip-2-3": NoSpread,  # always waits T
    "flip-2-4": KeepsPendingTimer,  # lets the pending election timer run on when it is reset
    "flip-2-5": ExpiresWhileStopped,  # acts on an expiry although its service is stopped
    "flip-2-6": AsksAlone,  # asks for pre-votes in a group of one
    "flip-2-7": LeaderExpires,  # asks for pre-votes although it leads
    "flip-2-8": GivesUpAfterFailedPreVote,  # does not arm its timer again after a pre-vote that failed
    "flip-2-9": DoesNotCountItself,  # does not count its own pre-vote
    "flip-2-10": PreVoteOfTheNextTerm,  # asks for pre-votes in the next term
    "flip-2-11": PreVoteAnswersAlways,  # takes pre-vote answers in any role
    "flip-2-12": PreVoteTalliedAfterStepDown,  # tallies a pre-vote answer after it stepped down for it
    "flip-2-13": HalfOfThePreVotes,  # campaigns with half of the pre-votes
    "flip-2-14": CampaignsInTheSameTerm,  # campaigns without raising the term
    "flip-2-15": AsksBeforeTheDisk,  # asks for votes before its metadata is stored
    "flip-2-16": ServesWhileCampaigning,  # leaves its store online during a campaign
    "flip-2-17": CampaignsForEver,  # stays a candidate when its vote timer expires
    "flip-2-18": HidesItsLog,  # asks for votes as if its log were empty
    "flip-2-19": VoteAnswersAlways,  # takes votes in any role
    "flip-2-20": IgnoresHigherTerms,  # stays in its term when a vote answer carries a higher one
    "flip-2-21": HalfOfTheVotes,  # leads with half of the votes
    "flip-2-22": TakesAnyPrevious,  # appends after any entry, without comparing it
}
