"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule (37: the two that make its deadlock; `broken` holds the classes), is
named by its number in the table of planted bugs (``plain``: none of that table, but shown by nearly any schedule, for
the acceptance of each checker on live clusters; ``clients``: none of it either, for it breaks nothing of the election,
and shows in what clients of one workload see), and says which knobs it shows nothing without. It inherits the promise
of its profile. Leaves out finding them: that is the checkers' exam.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.kit.mutants import Mutant, bug
from clusters.protocols.raft import broken

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_DURABLE = "vote-is-durable"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_SINGLE = {"membership": "single_server"}
_LEASE = {"reads": "lease"}

VARIANTS: Mapping[str, Mutant] = {
    "01-vote-not-written": bug("writes the term but not the vote", broken.VoteNotWritten, _VOTE, _LEADER, _DURABLE),
    "02-answer-before-persist": bug(
        "answers a vote request before the vote is on disk", broken.AnswerBeforePersist, _VOTE, _DURABLE
    ),
    "04-ignore-failed-vote-write": bug(
        "goes on after the vote could not be written", broken.IgnoreFailedVoteWrite, _VOTE, _DURABLE
    ),
    "05-vote-not-synced": bug("replaces the vote file without fsync", broken.VoteNotSynced, _VOTE, _DURABLE),
    "06-delete-then-rename": bug(
        "deletes the vote file before the new one takes its place", broken.DeleteThenRename, _VOTE, _TERM, _DURABLE
    ),
    "07-unreadable-means-fresh": bug(
        "takes an unreadable vote file for a node that never voted", broken.UnreadableMeansFresh, _VOTE, _TERM, _DURABLE
    ),
    "10-resumes-leadership": bug(
        "goes on leading its term after a restart", broken.ResumesLeadership, "log-matching", needs={"noop": "on"}
    ),
    "11-forgets-own-vote": bug(
        "after a restart votes again in a term in which it voted for itself", broken.ForgetsOwnVote, _VOTE, _LEADER
    ),
    "12-grant-without-log-check": bug("votes for candidates with an older log", broken.NoLogCheck, _COMPLETE, _ACKED),
    "14-last-log-term-is-current": bug(
        "gives its current term as the term of its last entry", broken.LastLogTermIsCurrent, _COMPLETE
    ),
    "16-counts-older-term": bug("counts votes given in an earlier term", broken.CountsOlderTerm, _LEADER, _MAJORITY),
    "17-counts-higher-term": bug(
        "steps down on an answer with a higher term and tallies it all the same",
        broken.CountsHigherTerm,
        _LEADER,
        _MAJORITY,
    ),
    "18-pre-votes-are-votes": bug(
        "starts its campaign with the pre-votes as votes",
        broken.PreVotesAreVotes,
        _MAJORITY,
        _LEADER,
        needs={"pre_vote": "on"},
    ),
    "21-majority-of-responders": bug(
        "is elected by a majority of those who answered", broken.MajorityOfResponders, _MAJORITY, _LEADER, nodes_min=5
    ),
    "22-half-is-enough": bug("takes half of an even number for a majority", broken.HalfIsEnough, _LEADER, nodes_min=4),
    "23-non-members-vote": bug(
        "asks and counts learners and removed nodes", broken.NonMembersVote, "members-only", _LEADER, needs=_SINGLE
    ),
    "25-term-may-fall": bug("takes over a lower term from an old AppendEntries", broken.TermMayFall, _TERM),
    "27-refuses-campaigned-term": bug(
        "refuses the leader of a term in which it campaigned itself",
        broken.RefusesCampaignedTerm,
        "convergence-after-heal",
        _LIVELOCK,
    ),
    "28-never-steps-down": bug(
        "goes on leading without a quorum",
        broken.NeverStepsDown,
        "step-down-without-quorum",
        needs={"check_quorum": "on"},
    ),
    "30-sending-is-contact": bug(
        "takes its own sending for contact with a voter",
        broken.SendingIsContact,
        "step-down-without-quorum",
        needs={"check_quorum": "on"},
    ),
    "31-any-request-resets-deadline": bug(
        "waits anew after every vote request, granted or not", broken.AnyRequestResetsDeadline, _OWED, _LIVELOCK
    ),
    "33-no-jitter": bug("always waits the shortest election timeout", broken.NoJitter, _LIVELOCK),
    "34-same-seed": bug("draws its timeouts from one seed on all nodes", broken.SameSeedEverywhere, _LIVELOCK),
    "35-no-pre-vote": bug(
        "raises its term without asking first", broken.NoPreVote, "leader-stability", needs={"pre_vote": "on"}
    ),
    "36-hears-no-leader": bug(
        "grants pre-votes while it hears a leader",
        broken.HearsNoLeader,
        "leader-stability",
        needs={"prevote_leader_check": "on"},
    ),
    "37-pre-vote-terms-compared": bug(
        "drops pre-votes of a lower term and leaves askers of a lower term without an answer",
        broken.PreVoteTermsCompared,
        _OWED,
        needs={"pre_vote": "on"},
    ),
    "39-repeated-request-refused": bug(
        "refuses the repeated request of the candidate that it voted for", broken.RepeatedRequestRefused, _LIVELOCK
    ),
    "40-commits-old-terms": bug(
        "commits entries of earlier terms by counting replicas",
        broken.CommitsOldTerms,
        _COMMIT,
        _ACKED,
        advised={"max_entries_per_append": "1"},
    ),
    "42-follower-commit-unchecked": bug(
        "takes over the leader's commit index as it is", broken.FollowerCommitUnchecked, _COMMIT
    ),
    "44-truncates-always": bug(
        "cuts its log at every AppendEntries with entries, conflict or not", broken.TruncatesAlways, _COMMIT, _ACKED
    ),
    "45-acks-after-local-append": bug(
        "tells the client ok when only it itself holds the write", broken.AcksAfterLocalAppend, _ACKED
    ),
    "46-acks-before-sync": bug("acknowledges entries that a power loss can take", broken.AcksBeforeSync, _ACKED),
    "47-lease-on-wall-clock": bug(
        "measures its lease on the wall clock", broken.LeaseOnWallClock, "lease-exclusion", needs=_LEASE
    ),
    "49-lease-on-timer": bug(
        "looks at its lease once in a timeout only", broken.LeaseOnTimer, "lease-exclusion", needs=_LEASE
    ),
    "51-lease-without-recheck": bug(
        "serves what was queued during a stop by the time of before it",
        broken.LeaseWithoutRecheck,
        "lease-exclusion",
        needs=_LEASE,
    ),
    "52-election-on-wall-clock": bug(
        "measures its election deadline on the wall clock", broken.ElectionOnWallClock, _OWED
    ),
    "53-config-on-commit": bug(
        "uses a new configuration only when it is committed",
        broken.ConfigOnCommit,
        _LEADER,
        "members-only",
        needs=_SINGLE,
    ),
    "54-removed-node-campaigns": bug(
        "campaigns after it was removed",
        broken.RemovedNodeCampaigns,
        "members-only",
        "leader-stability",
        needs=_SINGLE,
        nodes_min=4,
    ),
    "56-reads-before-own-term": bug(
        "serves reads before an entry of its term is applied", broken.ReadsBeforeOwnTerm, _ACKED, "linearizable"
    ),
    "58-heartbeats-while-stuck": bug(
        "keeps its followers quiet while its own disk hangs", broken.HeartbeatsWhileStuck, _OWED
    ),
    "plain-writes-term-before": bug(
        "stores each term one too low, so that any restart goes back", broken.WritesTermBefore, _TERM, _DURABLE
    ),
    "plain-votes-twice": bug(
        "votes for everybody who campaigns in a term, and all campaign at once", broken.VotesTwice, _VOTE, _LEADER
    ),
    "plain-never-truncates": bug(
        "keeps entries that conflict with its leader's", broken.NeverTruncates, "log-matching", _ACKED
    ),
    "plain-wants-every-vote": bug("is elected only with the votes of all voters", broken.WantsEveryVote, _OWED),
    "clients-read-unconfirmed": bug(
        "serves reads without asking a majority whether it still leads",
        broken.ReadsUnconfirmed,
        seen_by=("linearizable", "set"),
        needs={"reads": "readindex"},
    ),
    "clients-swap-compared-early": bug(
        "compares what a cas expects before its write is ordered", broken.SwapComparedEarly, seen_by=("linearizable",)
    ),
    "clients-transaction-reads-early": bug(
        "reads for a transaction before its appends are ordered",
        broken.TransactionReadsEarly,
        seen_by=("list-append",),
    ),
    "clients-proposed-again": bug(
        "as a new leader appends again what it does not know to be committed",
        broken.ProposedAgain,
        seen_by=("linearizable", "set", "list-append"),
    ),
    "clients-clock-decides": bug(
        "gives a lock away by its own clock, as it applies the question",
        broken.ClockDecides,
        seen_by=("lock",),
    ),
    "clients-any-token-passes": bug(
        "accepts fencing tokens of holders that were superseded", broken.AnyTokenPasses, seen_by=("lock",)
    ),
    "harmless-longer-jitter": bug("draws its timeouts from a wider range", broken.LongerJitter),
    "harmless-half-heartbeat": bug("sends heartbeats twice as often", broken.HalfHeartbeat),
    "harmless-more-pre-votes": bug("repeats its pre-vote requests more often", broken.MorePreVotes),
    "harmless-silent-sticky": bug("drops vote requests that it ignores instead of answering them", broken.SilentSticky),
    "harmless-eager-commit": bug("tells followers of a commit at once", broken.EagerCommitNotice),
}
