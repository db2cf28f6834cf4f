"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule, or two that make one mistake (`broken` holds the classes), is named by
its number in the table of planted bugs (``plain``: none of that table, but shown by nearly any schedule), and says what
it shows nothing without. It inherits the promise of its profile. Not applicable here:

* 07: the original deletes an unreadable file itself; 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases;
* 27: who refuses a leader just stands again, and wins or not: nothing keeps it from that without pre-vote;
* 39: no request is repeated within an epoch, for its time-out outlasts the election timer;
* 44: an answer holds what follows the place that was asked for, and a late one is dropped;
* 53, 54: the voters are static; 56: a leader's own reads are promised to nobody; 58: there is one loop only.
"""

from __future__ import annotations

from clusters.protocols.kit.mutants import Mutant, bug
from clusters.protocols.kraft import broken

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_STEP_DOWN, _DURABLE = "step-down-without-quorum", "vote-is-durable"

_RESIGNS = {"check_quorum": "1.0|1.5"}

VARIANTS: dict[str, Mutant] = {
    "01-vote-not-written": bug("writes the epoch but not the vote", broken.VoteNotWritten, _VOTE, _LEADER, _DURABLE),
    "02-answer-before-persist": bug(
        "answers a vote request before the vote is on disk", broken.AnswerBeforePersist, _VOTE, _DURABLE
    ),
    "04-ignore-failed-vote-write": bug(
        "goes on after quorum-state could not be written", broken.IgnoreFailedVoteWrite, _VOTE, _DURABLE
    ),
    "05-vote-not-synced": bug("replaces quorum-state without fsync", broken.VoteNotSynced, _VOTE, _DURABLE),
    "06-delete-then-rename": bug(
        "deletes quorum-state before the new one takes its place", broken.DeleteThenRename, _VOTE, _TERM, _DURABLE
    ),
    "10-resumes-leadership": bug(
        "goes on leading its epoch after a restart", broken.ResumesLeadership, "log-matching", _MAJORITY
    ),
    "11-forgets-own-vote": bug(
        "after a restart votes in an epoch that it led, or in which it voted for itself",
        broken.ForgetsOwnVote,
        _VOTE,
        _LEADER,
    ),
    "12-grant-without-log-check": bug("votes for candidates with an older log", broken.NoLogCheck, _COMPLETE, _ACKED),
    "14-last-epoch-is-current": bug(
        "gives the epoch before its campaign as the one of its last record", broken.LastEpochIsCurrent, _COMPLETE
    ),
    "16-counts-older-epoch": bug("counts votes given in an earlier epoch", broken.CountsOlderEpoch, _LEADER, _MAJORITY),
    "17-counts-higher-epoch": bug(
        "gives up on an answer with a higher epoch and tallies it all the same",
        broken.CountsHigherEpoch,
        _LEADER,
        _MAJORITY,
    ),
    "21-majority-of-responders": bug(
        "is elected by a majority of those who answered", broken.MajorityOfResponders, _MAJORITY, _LEADER, nodes_min=5
    ),
    "22-half-is-enough": bug(
        "takes half of an even number for a majority", broken.HalfIsEnough, _LEADER, _MAJORITY, nodes_min=4
    ),
    "23-observers-vote": bug(
        "asks and counts observers",
        broken.ObserversVote,
        "members-only",
        _MAJORITY,
        _LEADER,
        needs={"observers": "*"},
        advised={"observers": "n4,n5"},
        nodes_min=5,
    ),
    "25-epoch-may-fall": bug("takes over a lower epoch from an old message", broken.EpochMayFall, _TERM),
    "28-never-resigns": bug("goes on leading without a quorum", broken.NeverResigns, _STEP_DOWN, needs=_RESIGNS),
    "30-own-append-is-contact": bug(
        "takes its own writing for contact with the voters", broken.OwnAppendIsContact, _STEP_DOWN, needs=_RESIGNS
    ),
    "31-any-request-restarts-timers": bug(
        "waits anew after every vote request, granted or not", broken.AnyRequestRestartsTimers, _OWED, _LIVELOCK
    ),
    "33-no-jitter": bug("always waits the shortest times", broken.NoJitter, _LIVELOCK),
    "34-same-seed": bug("draws its times from one seed on all nodes", broken.SameSeedEverywhere, _LIVELOCK),
    "40-commits-old-epochs": bug(
        "moves the high watermark by records of earlier epochs", broken.CommitsOldEpochs, _COMMIT, _ACKED
    ),
    "42-follower-hw-unchecked": bug(
        "takes over the leader's high watermark as it is", broken.FollowerHwUnchecked, _COMMIT
    ),
    "45-acks-after-local-append": bug(
        "tells the client ok when only it itself holds the write", broken.AcksAfterLocalAppend, _ACKED
    ),
    "46-fetches-before-sync": bug("acknowledges records that a power loss can take", broken.FetchesBeforeSync, _ACKED),
    "52-timers-on-wall-clock": bug("measures its timers on the wall clock", broken.TimersOnWallClock, _OWED),
    "plain-writes-epoch-before": bug(
        "stores each epoch one too low, so that any restart goes back", broken.WritesEpochBefore, _TERM
    ),
    "plain-votes-twice": bug(
        "votes for everybody who campaigns in an epoch, and all campaign at once", broken.VotesTwice, _VOTE, _LEADER
    ),
    "plain-never-diverges": bug(
        "as leader never tells a follower to cut its log", broken.NeverDiverges, "log-matching", _ACKED
    ),
    "plain-wants-every-vote": bug("is elected only with the votes of all voters", broken.WantsEveryVote, _OWED),
    "harmless-longer-jitter": bug("draws its election timers from a wider range", broken.LongerJitter),
    "harmless-half-fetch-wait": bug("fetches twice as often", broken.HalfFetchWait),
    "harmless-quick-retry": bug("repeats failed requests sooner", broken.QuickRetry),
    "harmless-eager-high-watermark": bug("tells followers of a commit at once", broken.EagerHighWatermark),
    "harmless-no-linger": bug("appends every write by itself", broken.NoLinger),
}
