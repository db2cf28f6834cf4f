"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Promises: each broken build overrides one rule (`broken` holds the classes; 21, 22, 25 and 44 two, of which one lets the
other show) and is named by its number in the table of planted bugs (``plain``: none of that table; ``px``: a known
weakness of the specification). It inherits the promise of its profile. Of that table, what is about leaders that step
down, leases, pre-votes, membership and log ends has no counterpart here. 06 has none as the file is only appended to;
33 and 34 have none as equal waits split nothing: of those who begin together the highest number wins, and its PROPOSE
is ahead of a loser's next PREPARE by the shortest back-off at least.
Leaves out finding them: that is the checkers' exam.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.kit.mutants import Mutant, bug
from clusters.protocols.paxos import broken
from clusters.protocols.paxos.flips import FLIPS

_AGREE, _OWED, _MAJORITY = "agreement", "leader-when-owed", "leader-has-majority"
_DURABLE = "vote-is-durable"
_ELECTION = {"election": "true"}

VARIANTS: Mapping[str, Mutant] = {
    "01-acceptance-not-written": bug(
        "writes the number of what it accepted but not the value", broken.AcceptanceNotWritten, _AGREE, _DURABLE
    ),
    "02-promise-before-persist": bug(
        "promises before the promise is on disk", broken.PromiseBeforePersist, _AGREE, _DURABLE
    ),
    "04-ignore-failed-write": bug(
        "goes on after its file could not be written", broken.IgnoreFailedWrite, _AGREE, _DURABLE
    ),
    "05-not-synced": bug("appends to its file without fsync", broken.NotSynced, _AGREE, _DURABLE),
    "07-unreadable-means-fresh": bug(
        "takes an unreadable file for a node that never took part", broken.UnreadableMeansFresh, _AGREE, _DURABLE
    ),
    "10-resumes-number": bug(
        "after a restart proposes another value under its last number", broken.ResumesNumber, _AGREE
    ),
    "11-forgets-own-acceptances": bug(
        "after a restart knows nothing of its own proposals that it accepted", broken.ForgetsOwnAcceptances, _AGREE
    ),
    "12-promise-hides-accepted": bug("promises without telling what it accepted", broken.HidesAccepted, _AGREE),
    "14-accepted-under-promised": bug(
        "reports what it accepted under the number that it promises now", broken.ReportsPromisedNumber, _AGREE
    ),
    "16-counts-older-promises": bug("counts promises of an earlier number", broken.CountsOlderPromises, _AGREE),
    "17-refusal-is-promise": bug("tallies a refusal as a promise", broken.NackIsPromise, _AGREE),
    "18-promises-are-acceptances": bug("takes a majority of promises for a decision", broken.PromisesChoose, _AGREE),
    "21-majority-of-reachable": bug(
        "counts a majority of those it can reach", broken.MajorityOfReachable, _AGREE, _MAJORITY, nodes_min=5
    ),
    "22-half-is-enough": bug(
        "takes half of an even number for a majority", broken.HalfIsEnough, _AGREE, _MAJORITY, nodes_min=4
    ),
    "25-promise-may-fall": bug("promises a lower number than before", broken.PromiseMayFall, _AGREE),
    "40-counts-across-numbers": bug(
        "counts acceptances under different numbers together", broken.CountsAcrossNumbers, _AGREE
    ),
    "42-learns-from-one": bug("takes one acceptance for a decision", broken.LearnsFromOne, _AGREE, _MAJORITY),
    "44-accepts-any-number": bug("accepts whatever its promise", broken.AcceptsAnyNumber, _AGREE),
    "46-accepts-before-sync": bug(
        "tells of acceptances that a crash can take", broken.AcceptsBeforePersist, _AGREE, _DURABLE
    ),
    "52-timers-on-wall-clock": bug(
        "measures all times on the wall clock", broken.TimersOnWallClock, _OWED, needs=_ELECTION
    ),
    "56-answers-own-value": bug("tells each client its own value", broken.AnswersOwnValue, _AGREE),
    "plain-promise-not-written": bug(
        "stores what it accepted but no promise", broken.PromiseNotWritten, _AGREE, _DURABLE
    ),
    "plain-adopts-lowest": bug("adopts the value of the lowest number", broken.AdoptsLowest, _AGREE),
    "px-b5-ignores-accepted": bug("proposes its own value whatever was accepted", broken.IgnoresAccepted, _AGREE),
    "harmless-longer-backoff": bug("waits twice as long before its next number", broken.LongerBackoff),
    "harmless-silent-refusals": bug("never says that it refuses", broken.SilentRefusals),
    "harmless-reversed-sends": bug("sends to the last member first", broken.ReversedSends),
    "harmless-double-proposals": bug("sends every proposal twice", broken.DoubleProposals),
    "harmless-half-heartbeat": bug("sends heartbeats twice as often", broken.HalfHeartbeat),
    **{name: bug(f"breaks the rule of claim {name.removeprefix('flip-')}", rules) for name, rules in FLIPS.items()},
}
