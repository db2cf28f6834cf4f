"""The flips of the claims about JoyQueue: builds in which the very rule of one claim is broken.

Guarantees: one class per flip, one overridden rule; the number is the claim's (docs/sources.md, claims). Out of scope:
planted bugs, some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.joyqueue.rules import Rules
from dethrone.clusters.targets.kit.mutants import broken


def half_of(enough):
    """Half of the answers of this kind make a majority."""
    return lambda rules, kind, *, granted, nodes, answered: (
        granted >= nodes // 2
        if kind == enough
        else Rules.majority(rules, kind, granted=granted, nodes=nodes, answered=answered)
    )


NoTimerAtStart = broken(Rules, arms_timer_at_start=False)
ShortSpread = broken(
    Rules,
    election_delay=lambda rules, rng: rules.knobs.ns(
        rules.knobs.election_timeout_ms + rng.below(rules.knobs.election_timeout_ms // 2)
    ),
)
NoSpread = broken(Rules, election_delay=lambda rules, *_: rules.election_delay_min())
KeepsPendingTimer = broken(Rules, cancels_pending_timer=False)
ExpiresWhileStopped = broken(Rules, expiry_needs_service=False)
AsksAlone = broken(Rules, leads_alone=False)
LeaderExpires = broken(Rules, ignores_expiry=False)
GivesUpAfterFailedPreVote = broken(Rules, rearms_after_failed_pre_vote=False)
DoesNotCountItself = broken(Rules, counts_itself=lambda _, kind: kind != "prevote")
PreVoteOfTheNextTerm = broken(Rules, pre_vote_term=lambda _, term: term + 1)
PreVoteAnswersAlways = broken(
    Rules, answers_count_in=lambda rules, kind, **who: kind == "prevote" or Rules.answers_count_in(rules, kind, **who)
)
PreVoteTalliedAfterStepDown = broken(
    Rules, tallies_after_step_down=lambda rules, kind: kind == "prevote" or Rules.tallies_after_step_down(rules, kind)
)
HalfOfThePreVotes = broken(Rules, majority=half_of("prevote"))
CampaignsInTheSameTerm = broken(Rules, next_term=lambda _, term: term)
AsksBeforeTheDisk = broken(Rules, waits_for_disk=lambda _, why: why != "campaign")
ServesWhileCampaigning = broken(Rules, offline_during_campaign=False)
CampaignsForEver = broken(Rules, steps_down_on_vote_timeout=False)
HidesItsLog = broken(
    Rules, last_log=lambda rules, kind, **own: (0, 0) if kind == "vote" else Rules.last_log(rules, kind, **own)
)
VoteAnswersAlways = broken(
    Rules, answers_count_in=lambda rules, kind, **who: kind == "vote" or Rules.answers_count_in(rules, kind, **who)
)
IgnoresHigherTerms = broken(Rules, steps_down_for=False)
HalfOfTheVotes = broken(Rules, majority=half_of("vote"))
TakesAnyPrevious = broken(Rules, matches_prev=True)


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
