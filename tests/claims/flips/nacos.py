"""The flips of the claims about Nacos: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims);
claims that rest on the same rule share a flip's change, and the class of a planted bug that breaks this rule serves as
its flip. Out of scope: checkers; only the claim's test must catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import broken
from dethrone.clusters.targets.nacos.knobs import LEADER_TIMEOUT_MS, TICK_PERIOD_MS
from dethrone.clusters.targets.nacos.planted_bugs import EqualTermWins, HalfIsEnough, KeepsFormer, SaysItEachTime
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.harness.core.rng import Rng

NeverBeats = broken(Rules, beats=False)
NeverDue = broken(Rules, is_due=False)
NoOwnVote = broken(Rules, votes_for_itself=False)
NoForwarding = broken(Rules, forwards=False)
LeaderAloneIsEnough = broken(Rules, publish_majority=1)


class LoyalFollower(Rules):
    def may_campaign(self, *, leader: str | None) -> bool:
        return leader is None


ForgetsTerm = broken(Rules, start_term=0)
SlowTasks = broken(Rules, tick_ms=2 * TICK_PERIOD_MS)


class ShortFirstDue(Rules):
    def first_leader_due_ms(self, rng: Rng) -> int:
        return rng.below(LEADER_TIMEOUT_MS // 2)


FixedDue = broken(Rules, leader_due_ms=LEADER_TIMEOUT_MS)


class RandomBeats(Rules):
    def heartbeat_due_ms(self, rng: Rng) -> int:
        return super().heartbeat_due_ms(rng) + rng.below(5) * TICK_PERIOD_MS


AlwaysWorks = broken(Rules, works=True)
ResetsAfterwards = broken(Rules, resets_before_campaign=False)
KeepsVotes = broken(Rules, clears_votes=False)
FailureIsConsent = broken(Rules, counts_failed_call=True)
AnswersStrangers = broken(Rules, knows_candidate=True)
KeepsOwnTerm = broken(Rules, adopts_term=False)


class DataCounts(Rules):
    def grants(self, *, candidate_term: int, own_term: int, own_items: int) -> bool:
        return candidate_term > own_term and own_items == 0


GrantPutsNothingOff = broken(Rules, grant_resets_due=False)
EverybodyBeats = broken(Rules, beats=True)
BareBeats = broken(Rules, stamps=())
AnySenderLeads = broken(Rules, accepts_sender=True)
AnyTermBeats = broken(Rules, accepts_term=True)
StaysWhatItWas = broken(Rules, beat_makes_follower=False)
BeatPutsNothingOff = broken(Rules, beat_resets_dues=False)
GoesOn = broken(Rules, stops_at_switch=False)
OnlyInMemory = broken(Rules, stores_item=False)


FLIPS: Mapping[str, type[Rules]] = {
    "flip-3-1": NeverBeats,  # a leader never beats, so that others campaign against it
    "flip-3-2": NeverDue,  # the time of an election never comes
    "flip-3-3": NoOwnVote,  # a campaign opens without its own vote
    "flip-3-4": NoForwarding,  # followers turn client writes away
    "flip-3-5": LeaderAloneIsEnough,  # a write is fine once the leader has it
    "flip-3-6": LoyalFollower,  # a follower that knows a leader waits for it without limit
    "flip-3-7": ForgetsTerm,  # a start begins with term 0 regardless of the stored one
    "flip-3-8": SlowTasks,  # both tasks run every second
    "flip-3-9": ShortFirstDue,  # the first due is drawn from half its range
    "flip-3-10": FixedDue,  # a reset due is not random
    "flip-3-11": RandomBeats,  # a reset beat due is random
    "flip-3-12": AlwaysWorks,  # the tasks continue while the work is stopped
    "flip-3-13": ResetsAfterwards,  # votes are asked for before the counters are reset
    "flip-3-14": KeepsVotes,  # a campaign keeps what others supported
    "flip-3-15": FailureIsConsent,  # a vote call that failed counts as support
    "flip-3-16": AnswersStrangers,  # strangers get votes
    "flip-3-17": EqualTermWins,  # an equal term is granted
    "flip-3-18": KeepsOwnTerm,  # a grant keeps the own term
    "flip-3-19": DataCounts,  # a node with data grants nothing
    "flip-3-20": GrantPutsNothingOff,  # a grant does not put off the own campaign
    "flip-3-21": SaysItEachTime,  # the same leader is announced with every answer
    "flip-3-22": HalfIsEnough,  # half of an even number is a majority
    "flip-3-23": EverybodyBeats,  # every node beats
    "flip-3-24": BareBeats,  # beats say nothing of the items
    "flip-3-25": AnySenderLeads,  # beats of nodes that do not lead are accepted
    "flip-3-26": AnyTermBeats,  # beats of lower terms are accepted
    "flip-3-27": StaysWhatItWas,  # an accepted beat leaves a candidate a candidate
    "flip-3-28": BeatPutsNothingOff,  # an accepted beat puts nothing off
    "flip-3-29": BeatPutsNothingOff,  # an accepted beat puts nothing off
    "flip-3-30": KeepsFormer,  # a former leader's record is never fetched again
    "flip-3-31": GoesOn,  # the protocol continues after the switch to the new version
    "flip-3-32": OnlyInMemory,  # followers keep published items in memory only
}
