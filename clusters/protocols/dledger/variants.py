"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build is named by its number in the table of planted bugs (``plain``: none of that table, but
shown by nearly any schedule), and inherits the promise of its profile. Left out, as there is nothing in DLedger to
break: 11 (a restarted node campaigns at once in its stored term, and so gives its own vote again before it can hear of
another candidate), 23, 53, 54 (members never change), 35 to 37 (no pre-vote), 47 to 51 (no leases), 52 (its clock is
the wall clock by design), 56 (reads are not linearizable), 58 (heartbeats do not wait for the disk by design).
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.dledger import broken
from clusters.protocols.dledger.flips import FLIPS
from clusters.protocols.kit.mutants import Mutant, bug

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_DURABLE = "vote-is-durable"
_ATOMIC = {"persist_mode": "atomic"}
_PLAIN = {"noop_on_elect": "false"}
"""A blank entry at each election ends every log with the current term, and commits what came before."""
_AT_ONCE = {**_PLAIN, "push_retry_ms": "20"}
"""Besides: a new leader's first comparison, which comes before its first heartbeat and is refused, is soon repeated."""
_IMPATIENT = {"vote_wait_ms": "100"}
"""A campaign ends sooner than a slow link or disk answers; with 2 s it takes a voter that is away for so long."""

VARIANTS: Mapping[str, Mutant] = {
    "01-vote-not-written": bug(
        "writes the term but not the vote", broken.VoteNotWritten, _VOTE, _LEADER, _DURABLE, needs=_ATOMIC
    ),
    "02-answer-before-persist": bug(
        "answers a vote request before the vote is on disk", broken.AnswerBeforePersist, _VOTE, _DURABLE, needs=_ATOMIC
    ),
    "04-ignore-failed-vote-write": bug(
        "goes on after the vote could not be written", broken.IgnoreFailedVoteWrite, _VOTE, _DURABLE, needs=_ATOMIC
    ),
    "05-vote-not-synced": bug(
        "writes the term file in place, without fsync", broken.VoteNotSynced, _VOTE, _DURABLE, needs=_ATOMIC
    ),
    "06-delete-then-rename": bug(
        "deletes the term file before the new one takes its place",
        broken.DeleteThenRename,
        _VOTE,
        _TERM,
        _DURABLE,
        needs=_ATOMIC,
    ),
    "07-unreadable-means-fresh": bug(
        "takes an unreadable term file for a node that never voted",
        broken.UnreadableMeansFresh,
        _VOTE,
        _TERM,
        _DURABLE,
        needs=_ATOMIC,
    ),
    "10-pushes-unwritten-tail": bug(
        "pushes entries that its own disk does not have yet, and may lead the same term again without them",
        broken.PushesUnwrittenTail,
        "log-matching",
    ),
    "12-grant-without-log-check": bug("votes for candidates with an older log", broken.NoLogCheck, _COMPLETE, _ACKED),
    "14-last-log-term-is-current": bug(
        "takes its current term for the term of its last entry where logs are compared",
        broken.LastTermIsCurrent,
        _COMPLETE,
        _ACKED,
    ),
    "16-counts-other-campaigns": bug(
        "counts answers to earlier campaigns",
        broken.CountsOtherCampaigns,
        _LEADER,
        _MAJORITY,
        advised=_IMPATIENT,
    ),
    "17-counts-higher-term": bug(
        "counts refusals that carry a higher term as votes", broken.CountsHigherTerm, _LEADER, _MAJORITY
    ),
    "18-not-ready-is-a-vote": bug(
        "counts those who must raise their term first as voters", broken.NotReadyIsAVote, _MAJORITY, _LEADER
    ),
    "21-majority-of-responders": bug(
        "is elected by a majority of those who answered", broken.MajorityOfResponders, _MAJORITY, _LEADER
    ),
    "22-half-is-enough": bug(
        "takes half of an even number for a majority", broken.HalfIsEnough, _LEADER, _MAJORITY, nodes_min=4
    ),
    "25-term-may-fall": bug("takes over the largest term heard of, also a lower one", broken.TermMayFall, _TERM),
    "27-refuses-campaigned-term": bug(
        "refuses the leader of a term in which it campaigned itself",
        broken.RefusesCampaignedTerm,
        "convergence-after-heal",
        _OWED,
        _LIVELOCK,
        advised={"leader_checks_max_term_first": "true"},
    ),
    "28-never-steps-down": bug("goes on leading without a quorum", broken.NeverStepsDown, "step-down-without-quorum"),
    "30-sending-is-contact": bug(
        "takes its own sending for a majority's success", broken.SendingIsContact, "step-down-without-quorum"
    ),
    "31-any-request-resets-timers": bug(
        "waits anew after every vote request, granted or not", broken.AnyRequestResetsTimers, _OWED, _LIVELOCK
    ),
    "33-no-jitter": bug("always waits the shortest time between campaigns", broken.NoJitter, _LIVELOCK, _OWED),
    "34-same-seed": bug("draws its delays from one seed on all nodes", broken.SameSeedEverywhere, _LIVELOCK, _OWED),
    "39-repeated-request-refused": bug(
        "refuses the repeated request of the candidate that it voted for", broken.RepeatedRequestRefused, _LIVELOCK
    ),
    "40-commits-old-terms": bug(
        "commits entries of earlier terms by counting copies",
        broken.CommitsOldTerms,
        _COMMIT,
        _ACKED,
        advised=_AT_ONCE,
    ),
    "42-follower-commit-unchecked": bug(
        "takes over the leader's committed index as it is", broken.FollowerCommitUnchecked, _COMMIT
    ),
    "44-cuts-on-append": bug(
        "cuts its log at every repeated push of an entry that it has", broken.CutsOnAppend, _COMMIT, _ACKED
    ),
    "45-acks-after-local-append": bug(
        "tells the client ok when only it itself holds the write", broken.AcksAfterLocalAppend, _ACKED
    ),
    "46-acks-before-sync": bug("acknowledges entries that a power loss can take", broken.AcksBeforeSync, _ACKED),
    "plain-writes-term-before": bug(
        "stores each term one too low, so that any restart goes back",
        broken.WritesTermBefore,
        _TERM,
        _DURABLE,
        needs=_ATOMIC,
    ),
    "plain-votes-twice": bug("votes for everybody who asks", broken.VotesTwice, _VOTE, _LEADER),
    "plain-never-truncates": bug(
        "keeps entries that conflict with its leader's", broken.NeverTruncates, "log-matching", _ACKED
    ),
    "plain-wants-every-vote": bug("is elected only with the votes of all members", broken.WantsEveryVote, _OWED),
    "harmless-longer-jitter": bug("draws its delays from a wider range", broken.LongerJitter),
    "harmless-half-heartbeat": bug("sends heartbeats twice as often", broken.HalfHeartbeat),
    "harmless-eager-commit": bug("tells followers of a commit at once", broken.EagerCommit),
    "harmless-sooner-resend": bug("pushes unanswered entries again sooner", broken.SoonerResend),
    "harmless-more-notes": bug("writes every heartbeat to the trace", broken.MoreNotes),
    **{name: bug(f"breaks claim {name[5:]}", rules) for name, rules in FLIPS.items()},
}
