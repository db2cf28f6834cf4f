"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: each build breaks one rule, or two that make one mistake, is named by
its number (docs/sources.md, planted-bugs; ``plain``: no number, but shown by nearly any schedule) and states what it
shows nothing without. It inherits the promise of its profile. Not applicable here:

* 07: the original deletes an unreadable file itself; 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases;
* 27: a node that refuses a leader just campaigns again, won or lost: without pre-vote nothing prevents that;
* 39: no request is repeated within an epoch, for its time-out outlasts the election timer;
* 44: an answer holds the records after the requested offset, and a late one is dropped;
* 53, 54: the voters are static; 56: a leader's own reads carry no promise; 58: there is one loop only.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.messages import NOBODY
from dethrone.clusters.targets.kraft.rules import LEADER, UNATTACHED, File, Position, Rules, Start
from dethrone.clusters.targets.kraft.storage import QuorumState
from dethrone.harness.core.rng import Rng

# --- the vote on disk -----------------------------------------------------------------------------------------------


@mutant("01-vote-not-written", says="writes the epoch but not the vote", caught_by=(by.VOTE, by.LEADER, by.DURABLE))
class VoteNotWritten(Rules):  # NodeDB, etcd 2877, Nacos
    def stored(self, state: QuorumState) -> QuorumState:
        return msgspec.structs.replace(state, voted_id=NOBODY)


@mutant(
    "04-ignore-failed-vote-write",
    says="ignores that quorum-state could not be written",
    caught_by=(by.VOTE, by.DURABLE),
)
class IgnoreFailedVoteWrite(Rules):
    """Seen in jraft 1241, DLedger, JoyQueue: no answer waits for what becomes of the write."""

    def on_persist_error(self, file: File) -> Literal["halt", "ignore"]:
        return "ignore" if file == "state" else "halt"

    def answers_after_persist(self) -> bool:
        return False


@mutant("05-vote-not-synced", says="replaces quorum-state without fsync", caught_by=(by.VOTE, by.DURABLE))
class VoteNotSynced(Rules):  # jgroups 4c6961f, DLedger
    def syncs(self, file: File) -> bool:
        return file != "state"


@mutant("10-resumes-leadership", says="resumes leading its epoch after a restart", caught_by=(by.MATCHING, by.MAJORITY))
class ResumesLeadership(Rules):  # KAFKA-10527
    def start_as_former_leader(self, epoch: int, me: int) -> Start:
        return Start(2, LEADER, epoch, leader=me)


@mutant(
    "11-forgets-own-vote",
    says="after a restart votes in an epoch that it led, or in which it voted for itself",
    caught_by=(by.VOTE, by.LEADER),
)
class ForgetsOwnVote(Rules):  # KAFKA-10661: neither having led nor having voted for itself keeps it from voting
    def start_as_former_leader(self, epoch: int, me: int) -> Start:
        return Start(2, UNATTACHED, epoch)

    def start_as_candidate(self, epoch: int, me: int) -> Start:
        return Start(3, UNATTACHED, epoch)


@mutant(
    "plain-writes-epoch-before",
    says="stores each epoch one too low, so that any restart goes back",
    caught_by=(by.TERM,),
)
class WritesEpochBefore(Rules):  # An off-by-one on disk, plain enough that any restart of a node shows it
    def stored(self, state: QuorumState) -> QuorumState:
        return msgspec.structs.replace(state, leader_epoch=max(0, state.leader_epoch - 1))


# --- granting and counting ------------------------------------------------------------------------------------------


@mutant("12-grant-without-log-check", says="votes for candidates with an older log", caught_by=(by.COMPLETE, by.ACKED))
class NoLogCheck(Rules):  # Nacos 785
    def log_up_to_date(self, candidate: Position, own: Position) -> bool:
        return True


@mutant(
    "14-last-epoch-is-current",
    says="gives the epoch before its campaign as the one of its last record",
    caught_by=(by.COMPLETE,),
)
class LastEpochIsCurrent(Rules):
    """DLedger 52. The epoch before the campaign: the campaign's own would be refused as impossible."""

    def last_position(self, last_epoch: int, end: int, own_epoch: int) -> Position:
        return own_epoch - 1, end


@mutant("16-counts-older-epoch", says="counts votes given in an earlier epoch", caught_by=(by.LEADER, by.MAJORITY))
class CountsOlderEpoch(Rules):  # Xraft 33
    def counts_vote(self, *, granted: bool, epoch: int, own_epoch: int, candidate: bool, from_voter: bool) -> bool:
        return granted and candidate and epoch <= own_epoch and from_voter


@mutant(
    "17-counts-higher-epoch",
    says="gives up on an answer with a higher epoch and tallies it all the same",
    caught_by=(by.LEADER, by.MAJORITY),
)
class CountsHigherEpoch(Rules):
    """JoyQueue, canonical fdce566: gives up without a return, and the answer is tallied all the same."""

    def counts_vote(self, *, granted: bool, epoch: int, own_epoch: int, candidate: bool, from_voter: bool) -> bool:
        return candidate and from_voter and ((granted and epoch == own_epoch) or epoch > own_epoch)

    def may_lead_from(self, state: str) -> bool:
        return True


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(by.MAJORITY, by.LEADER),
    nodes_min=5,
)
class MajorityOfResponders(Rules):  # Sentinel f4be6f1, JGroups views
    def has_majority(self, granted: Collection[int], answered: Collection[int], voters: Sequence[int]) -> bool:
        if len(voters) == 1 or len(answered) == 1:
            return super().has_majority(granted, answered, voters)
        return len(granted) >= self.majority(len(answered))


@mutant(
    "22-half-is-enough",
    says="counts half of an even number as a majority",
    caught_by=(by.LEADER, by.MAJORITY),
    nodes_min=4,
)
class HalfIsEnough(Rules):  # The class of braft 3884640
    def majority(self, voters: int) -> int:
        return (voters + 1) // 2


@mutant(
    "23-observers-vote",
    says="asks and counts observers",
    caught_by=(by.MEMBERS, by.MAJORITY, by.LEADER),
    needs={"observers": "*"},
    advised={"observers": "n4,n5"},
    nodes_min=5,
)
class ObserversVote(Rules):
    """Seen in hashicorp 477, NATS: observers answer vote requests, and their votes are asked for and counted."""

    def takes_part(self, *, voter: bool) -> bool:
        return True

    def electorate(self, voters: tuple[int, ...], everybody: tuple[int, ...]) -> tuple[int, ...]:
        return everybody


@mutant(
    "plain-votes-twice",
    says="votes for every candidate of an epoch, and all campaign at once",
    caught_by=(by.VOTE, by.LEADER),
)
class VotesTwice(Rules):  # Votes for every candidate; without a random part, so that campaigns of one epoch meet
    def grants(self, state: str, *, voted: int, candidate: int, up_to_date: bool) -> bool:
        del voted
        return super().grants(state, voted=candidate, candidate=candidate, up_to_date=up_to_date)

    def election_timeout_ms(self, rng: Rng) -> int:
        return self.knobs.election_timeout_ms


@mutant("plain-wants-every-vote", says="is elected only with the votes of all voters", caught_by=(by.OWED,))
class WantsEveryVote(Rules):  # No node is elected while any voter is silent
    def has_majority(
        self,
        granted: Collection[int],
        answered: Collection[int],
        voters: Sequence[int],
    ) -> bool:
        return len(granted) >= len(voters)


# --- leading and timing ---------------------------------------------------------------------------------------------


@mutant("33-no-jitter", says="always waits the shortest times", caught_by=(by.LIVELOCK,))
class NoJitter(Rules):  # Raft paper, 9.3; etcd 780bbb2
    def election_timeout_ms(self, rng: Rng) -> int:
        return self.knobs.election_timeout_ms

    def backoff_ms(self, rng: Rng, retries: int) -> int:
        return min(self.knobs.backoff_unit_ms, self.knobs.election_backoff_max_ms)


@mutant("34-same-seed", says="draws its times from one seed on all nodes", caught_by=(by.LIVELOCK,))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: KraftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_timeout_ms(self, rng: Rng) -> int:
        return super().election_timeout_ms(self._own)

    def backoff_ms(self, rng: Rng, retries: int) -> int:
        return super().backoff_ms(self._own, retries)


# --- log and high watermark -----------------------------------------------------------------------------------------


@mutant(
    "40-commits-old-epochs",
    says="moves the high watermark by records of earlier epochs",
    caught_by=(by.COMMIT, by.ACKED),
)
class CommitsOldEpochs(Rules):  # PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8
    def may_advance(self, offset: int, epoch_start: int) -> bool:
        return True


@mutant("42-follower-hw-unchecked", says="adopts the leader's high watermark unchecked", caught_by=(by.COMMIT,))
class FollowerHwUnchecked(Rules):  # PySyncObj 166. A new leader does not know its high watermark: then there is none
    def follower_hw(self, own: int, end: int, leaders: int) -> int:
        return max(0, leaders)


@mutant("46-fetches-before-sync", says="acknowledges records that a power loss can undo", caught_by=(by.ACKED,))
class FetchesBeforeSync(Rules):  # NATS 2.12, ZK-3911: a fetch acknowledges everything before it
    def syncs(self, file: File) -> bool:
        return file != "log"


# --- harmless -------------------------------------------------------------------------------------------------------


@mutant("harmless-longer-jitter", says="draws its election timers from a wider range")
class LongerJitter(Rules):  # A quarter more spread
    def election_timeout_ms(self, rng: Rng) -> int:
        e = self.knobs.election_timeout_ms
        return e + rng.below(e + e // 4 + 1)


@mutant("harmless-half-fetch-wait", says="fetches twice as often")
class HalfFetchWait(Rules):  # Twice the fetches
    def fetch_wait_ms(self) -> int:
        return max(1, self.knobs.fetch_max_wait_ms // 2)


@mutant("harmless-quick-retry", says="repeats failed requests sooner")
class QuickRetry(Rules):  # Half the wait after a failed request
    def retry_backoff_ms(self) -> int:
        return max(1, self.knobs.retry_backoff_ms // 2)
