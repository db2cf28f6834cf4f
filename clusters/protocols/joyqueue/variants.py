"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule (37: the two that make its deadlock; `broken` holds the classes), is
named by its number in the table of planted bugs, and says which knobs it shows nothing without. It inherits the promise
of its profile. Not here, for the original itself makes these mistakes: 17 (JQ-B1), 28 and 30 (JQ-B5),
36 (JQ-B4); 18 (JQ-B2) is planted into the mended build, where 17 alone shows nothing. Nor 35: pre-votes here do not
protect a leader, so its checker has no promise to judge by. Without a subject: repeated requests (39), for every
campaign has a term of its own; leases (47, 49, 51); membership changes (53, 54); a main loop that can be stuck (58). 16
is masked as long as answers are not waited for beyond an election timeout, and where messages are much quicker than
elections. Leaves out finding them: that is the checkers' exam.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.joyqueue import broken
from clusters.protocols.kit.mutants import Mutant, bug

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_DURABLE = "vote-is-durable"

_LATE = {"fix_missing_return": "true", "sync_flag_reset": "true", "task_delay_max_ms": "4000"}
"""The mended build with late send tasks: safe, and campaigns of one term overlap often."""

VARIANTS: Mapping[str, Mutant] = {
    "01-vote-not-written": bug("writes the term but not the vote", broken.VoteNotWritten, _VOTE, _LEADER, _DURABLE),
    "02-answer-before-persist": bug(
        "answers a vote request before the vote is on disk", broken.AnswerBeforePersist, _VOTE, _DURABLE, advised=_LATE
    ),
    "04-ignore-failed-vote-write": bug(
        "goes on after its metadata could not be written", broken.IgnoreFailedVoteWrite, _VOTE, _DURABLE
    ),
    "05-vote-not-synced": bug(
        "writes votes over the metadata file, without fsync", broken.VoteNotSynced, _VOTE, _DURABLE
    ),
    "06-delete-then-rename": bug(
        "deletes the metadata file before the new one takes its place",
        broken.DeleteThenRename,
        _VOTE,
        _TERM,
        _DURABLE,
    ),
    "07-unreadable-means-fresh": bug(
        "takes an unreadable metadata file for a node that never voted",
        broken.UnreadableMeansFresh,
        _VOTE,
        _TERM,
        _DURABLE,
    ),
    "10-resumes-leadership": bug("goes on leading its term after a restart", broken.ResumesLeadership, "log-matching"),
    "11-forgets-own-vote": bug(
        "after a restart votes again in a term in which it voted for itself",
        broken.ForgetsOwnVote,
        _VOTE,
        _LEADER,
        advised=_LATE,
    ),
    "12-grant-without-log-check": bug("votes for candidates with an older log", broken.NoLogCheck, _COMPLETE, _ACKED),
    "14-last-log-term-is-current": bug(
        "gives its current term as the term of its last entry", broken.LastLogTermIsCurrent, _COMPLETE, _ACKED
    ),
    "16-counts-older-term": bug(
        "counts answers to requests of an earlier term",
        broken.CountsOlderTerm,
        _LEADER,
        _MAJORITY,
        advised={"send_command_timeout_ms": "30000", "time_factor": "0.01"},
    ),
    "18-pre-votes-are-votes": bug(
        "starts its campaign with the pre-votes as votes",
        broken.PreVotesAreVotes,
        _MAJORITY,
        _LEADER,
        needs={"fix_missing_return": "true", "sync_flag_reset": "true"},
    ),
    "21-majority-of-responders": bug(
        "is elected by a majority of those who answered", broken.MajorityOfResponders, _MAJORITY, _LEADER, nodes_min=5
    ),
    "22-half-is-enough": bug(
        "takes half of an even number for a majority", broken.HalfIsEnough, _LEADER, _MAJORITY, nodes_min=4
    ),
    "23-non-members-vote": bug(
        "asks and counts learners",
        broken.NonMembersVote,
        "members-only",
        _LEADER,
        needs={"learners": "*"},
        advised={"learners": "n3"},
        nodes_min=4,
    ),
    "25-term-may-fall": bug("takes over a lower term from an old append", broken.TermMayFall, _TERM),
    "27-refuses-campaigned-term": bug(
        "refuses the leader of a term in which it campaigned itself",
        broken.RefusesCampaignedTerm,
        "convergence-after-heal",
        _LIVELOCK,
        advised=_LATE,
    ),
    "31-any-request-resets-timer": bug(
        "waits anew after every vote request, granted or not", broken.AnyRequestResetsTimer, _OWED, _LIVELOCK
    ),
    "33-no-jitter": bug("always waits the shortest election timeout", broken.NoJitter, _LIVELOCK, _OWED),
    "34-same-seed": bug("draws its timeouts from one seed on all nodes", broken.SameSeedEverywhere, _LIVELOCK, _OWED),
    "37-pre-vote-terms-compared": bug(
        "drops pre-votes of a lower term and leaves askers of a lower term without an answer",
        broken.PreVoteTermsCompared,
        _OWED,
    ),
    "40-commits-old-terms": bug(
        "commits entries of earlier terms by counting replicas",
        broken.CommitsOldTerms,
        _COMMIT,
        _ACKED,
        needs={"commit_current_term_only": "true"},
        advised={"max_entries_per_append": "1"},
    ),
    "42-follower-commit-unchecked": bug(
        "takes over the leader's commit position as it is", broken.FollowerCommitUnchecked, _COMMIT
    ),
    "44-truncates-always": bug(
        "cuts its log at every append, conflict or not", broken.TruncatesAlways, _COMMIT, _ACKED
    ),
    "45-acks-after-local-append": bug(
        "tells the client ok when only it itself holds the write", broken.AcksAfterLocalAppend, _ACKED
    ),
    "46-acks-before-sync": bug("acknowledges entries that a power loss can take", broken.AcksBeforeSync, _ACKED),
    "52-election-on-wall-clock": bug(
        "measures its election timer on the wall clock", broken.ElectionOnWallClock, _OWED
    ),
    "56-reads-before-own-term": bug(
        "serves reads from what it applied, before an entry of its term is committed",
        broken.ReadsBeforeOwnTerm,
        _ACKED,
        "linearizable",
        needs={"reads": "log"},
    ),
    "harmless-longer-jitter": bug("draws its timeouts from a wider range", broken.LongerJitter),
    "harmless-half-heartbeat": bug("sends heartbeats twice as often", broken.HalfHeartbeat),
    "harmless-eager-commit": bug("tells followers of a commit at once", broken.EagerCommitNotice),
    "harmless-small-batches": bug("sends one entry a request", broken.SmallBatches),
    "harmless-more-notes": bug("notes every heartbeat that it hears", broken.MoreNotes),
}
