"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Promises: numbers and sense are those of the project's table of planted bugs: where Raft has a vote file, this protocol
has the coordination service's tree, which decides who leads. Each inherits the promise of its profile. Left out of the
table, for there is nothing to break: votes, campaigns, pre-votes, terms and quorums of brokers (06, 11, 14, 16-18,
21-23, 27, 31-40, 47, 49, 53, 54), and 56, 58: a new leader's log is its state, and a hung broker with a live session
keeps the lead by design. 30 and 52 break only what no profile promises: that a leader without contact to the service
steps down for a lost majority, and that healthy brokers keep their sessions (ZK-B5, ZK-B7).
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.kit.mutants import Mutant, bug
from clusters.protocols.zk_ephemeral import broken

_LEADER, _TERM, _COMPLETE = "one-leader-per-term", "term-never-decreases", "leader-completeness"
_DURABLE = "vote-is-durable"
_COMMIT, _ACKED, _MATCH = "commit-never-regresses", "acknowledged-survives", "log-matching"
_SAFE = {"acks": "all", "min_insync_replicas": "2", "truncate": "epoch"}

VARIANTS: Mapping[str, Mutant] = {
    "01-state-not-written": bug(
        "the service keeps the partition state, and with it the epoch, in memory only",
        broken.StateNotWritten,
        _TERM,
        _LEADER,
        _DURABLE,
    ),
    "02-answer-before-persist": bug(
        "the service answers before the change is on disk", broken.AnswerBeforePersist, _LEADER, _TERM, _DURABLE
    ),
    "04-ignore-failed-write": bug(
        "the service goes on after a change could not be written", broken.IgnoreFailedWrite, _LEADER, _TERM, _DURABLE
    ),
    "05-tree-not-synced": bug(
        "the service writes its tree without fsync", broken.TreeNotSynced, _LEADER, _TERM, _DURABLE
    ),
    "07-unreadable-means-fresh": bug(
        "the service takes an unreadable tree for an empty one", broken.UnreadableMeansFresh, _LEADER, _TERM, _DURABLE
    ),
    "10-resumes-leadership": bug(
        "a restarted broker goes on leading because the stored state names it",
        broken.ResumesLeadership,
        _LEADER,
        _MATCH,
        needs={"mode": "race"},
    ),
    "12-contends-outside-isr": bug(
        "a replica outside the ISR contends and may be chosen",
        broken.ContendsOutsideIsr,
        _COMPLETE,
        _ACKED,
        advised=_SAFE,
    ),
    "25-epoch-may-fall": bug(
        "obeys commands and leaders of lower epochs", broken.EpochMayFall, _TERM, _LEADER, needs={"mode": "controller"}
    ),
    "28-never-steps-down": bug(
        "goes on leading when it lost its session, or contact",
        broken.NeverStepsDown,
        "convergence-after-heal",
    ),
    "42-follower-hw-unchecked": bug(
        "a follower takes over the leader's high watermark as it is",
        broken.FollowerHwUnchecked,
        _COMMIT,
        advised={"mode": "controller", "acks": "all"},
    ),
    "44-truncates-always": bug(
        "a follower cuts below its high watermark whenever it begins to follow", broken.TruncatesAlways, _COMMIT, _ACKED
    ),
    "45-acks-after-local-append": bug(
        "confirms acks=all writes that only the leader holds",
        broken.AcksAfterLocalAppend,
        _ACKED,
        needs={"acks": "all"},
        advised=_SAFE,
    ),
    "46-acks-before-sync": bug(
        "a follower tells the leader of records that a power loss can take",
        broken.AcksBeforeSync,
        _ACKED,
        advised=_SAFE,
    ),
    "zk-b9-never-watches-again": bug(
        "does not set a fired watch again", broken.NeverWatchesAgain, "convergence-after-heal"
    ),
    "plain-two-creators": bug(
        "the service lets every creator win, and everybody overwrite the state", broken.TwoCreators, _LEADER
    ),
    "plain-no-compare-and-set": bug(
        "the service ignores versions", broken.NoCompareAndSet, _LEADER, _COMPLETE, _ACKED, advised=_SAFE
    ),
    "plain-epoch-not-raised": bug(
        "a new leader takes the stored epoch as it is", broken.EpochNotRaised, _LEADER, needs={"mode": "race"}
    ),
    "plain-isr-before-publish": bug(
        "commits without a lagging follower before the service knows that it left the ISR",
        broken.SmallerIsrCountsAtOnce,
        _ACKED,
        _COMPLETE,
        advised={"acks": "all", "truncate": "epoch"},
    ),
    "harmless-longer-wait": bug("keeps empty fetches waiting longer", broken.LongerWait),
    "harmless-half-ping": bug("pings the service twice as often", broken.HalfPing),
    "harmless-small-batches": bug("sends fewer records at once", broken.SmallBatches),
    "harmless-frequent-checkpoints": bug("writes the high watermark down more often", broken.FrequentCheckpoints),
    "harmless-early-doubt": bug("knows itself disconnected a little earlier", broken.EarlyDoubt),
    "flip-1-10": bug("claim 1-10 turned: followers serve reads", broken.FollowersServe),
    "flip-1-11": bug("claim 1-11 turned: reads are spread over followers", broken.FollowersServe),
    "flip-1-12": bug("claim 1-12 turned: the leader's node is not ephemeral", broken.LeaderNodePersists),
    "flip-1-13": bug("claim 1-13 turned: followers do nothing when the node vanishes", broken.IgnoresDeletion),
    "flip-1-14": bug("claim 1-14 turned: every creator is told that it won", broken.EveryCreatorWins),
}
