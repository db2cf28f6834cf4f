"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs; beside it stand the real systems that made the mistake.
Leaves out which knobs and checkers belong to it (`variants`). The honest build never refers to this module.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from clusters.protocols.kraft.knobs import KraftKnobs
from clusters.protocols.kraft.messages import NOBODY
from clusters.protocols.kraft.rules import LEADER, UNATTACHED, File, Position, Rules, Start
from clusters.protocols.kraft.storage import QuorumState
from harness.core.clock import Ns
from harness.core.rng import Rng

# --- the vote on disk -----------------------------------------------------------------------------------------------


class VoteNotWritten(Rules):
    """01. NodeDB, etcd 2877, Nacos."""

    def stored(self, state: QuorumState) -> QuorumState:  # noqa: D102
        return msgspec.structs.replace(state, voted_id=NOBODY)


class AnswerBeforePersist(Rules):
    """02. redis 533d0e0."""

    def answers_after_persist(self) -> bool:  # noqa: D102
        return False


class IgnoreFailedVoteWrite(Rules):
    """04. jraft 1241, DLedger, JoyQueue: the answer does not wait for what becomes of the write, nor does anything."""

    def on_persist_error(self, file: File) -> Literal["halt", "ignore"]:  # noqa: D102
        return "ignore" if file == "state" else "halt"

    def answers_after_persist(self) -> bool:  # noqa: D102
        return False


class VoteNotSynced(Rules):
    """05. jgroups 4c6961f, DLedger."""

    def syncs(self, file: File) -> bool:  # noqa: D102
        return file != "state"


class DeleteThenRename(Rules):
    """06. DLedger; ZK-4269."""

    def deletes_first(self) -> bool:  # noqa: D102
        return True


class ResumesLeadership(Rules):
    """10. KAFKA-10527."""

    def start_as_former_leader(self, epoch: int, me: int) -> Start:  # noqa: D102
        return Start(2, LEADER, epoch, leader=me)


class ForgetsOwnVote(Rules):
    """11. KAFKA-10661: neither having led nor having voted for itself keeps it from voting."""

    def start_as_former_leader(self, epoch: int, me: int) -> Start:  # noqa: ARG002, D102
        return Start(2, UNATTACHED, epoch)

    def start_as_candidate(self, epoch: int, me: int) -> Start:  # noqa: ARG002, D102
        return Start(3, UNATTACHED, epoch)


class WritesEpochBefore(Rules):
    """Not of the table: an off-by-one on disk, plain enough that any restart of a node shows it."""

    def stored(self, state: QuorumState) -> QuorumState:  # noqa: D102
        return msgspec.structs.replace(state, leader_epoch=max(0, state.leader_epoch - 1))


# --- granting and counting ------------------------------------------------------------------------------------------


class NoLogCheck(Rules):
    """12. Nacos 785."""

    def log_up_to_date(self, candidate: Position, own: Position) -> bool:  # noqa: ARG002, D102
        return True


class LastEpochIsCurrent(Rules):
    """14. DLedger 52. The epoch before the campaign: the campaign's own would be refused as impossible."""

    def last_position(self, last_epoch: int, end: int, own_epoch: int) -> Position:  # noqa: ARG002, D102
        return own_epoch - 1, end


class CountsOlderEpoch(Rules):
    """16. Xraft 33."""

    def counts_vote(  # noqa: D102
        self, *, granted: bool, epoch: int, own_epoch: int, candidate: bool, from_voter: bool
    ) -> bool:
        return granted and candidate and epoch <= own_epoch and from_voter


class CountsHigherEpoch(Rules):
    """17. JoyQueue, canonical fdce566: gives up without a return, and the answer is tallied all the same."""

    def counts_vote(  # noqa: D102
        self, *, granted: bool, epoch: int, own_epoch: int, candidate: bool, from_voter: bool
    ) -> bool:
        return candidate and from_voter and ((granted and epoch == own_epoch) or epoch > own_epoch)

    def may_lead_from(self, state: str) -> bool:  # noqa: ARG002, D102
        return True


class MajorityOfResponders(Rules):
    """21. Sentinel f4be6f1, JGroups views."""

    def has_majority(  # noqa: D102
        self, granted: Collection[int], answered: Collection[int], voters: Sequence[int]
    ) -> bool:
        if len(voters) == 1 or len(answered) == 1:
            return super().has_majority(granted, answered, voters)
        return len(granted) >= self.majority(len(answered))


class HalfIsEnough(Rules):
    """22. The class of braft 3884640."""

    def majority(self, voters: int) -> int:  # noqa: D102
        return (voters + 1) // 2


class ObserversVote(Rules):
    """23. hashicorp 477, NATS: observers answer vote requests, and their votes are asked for and counted."""

    def takes_part(self, *, voter: bool) -> bool:  # noqa: ARG002, D102
        return True

    def electorate(self, voters: tuple[int, ...], everybody: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG002, D102
        return everybody


class EpochMayFall(Rules):
    """25. NATS 25561f4, WRaft 4."""

    def is_stale(self, epoch: int, own_epoch: int) -> bool:  # noqa: ARG002, D102
        return False


class VotesTwice(Rules):
    """Not of the table: votes for everybody who asks; without a random part, so that campaigns of one epoch meet."""

    def grants(self, state: str, *, voted: int, candidate: int, up_to_date: bool) -> bool:  # noqa: D102
        del voted
        return super().grants(state, voted=candidate, candidate=candidate, up_to_date=up_to_date)

    def election_timeout_ms(self, rng: Rng) -> int:  # noqa: ARG002, D102
        return self.knobs.election_timeout_ms


class WantsEveryVote(Rules):
    """Not of the table: nobody is elected while any voter is silent."""

    def has_majority(  # noqa: D102
        self,
        granted: Collection[int],
        answered: Collection[int],  # noqa: ARG002
        voters: Sequence[int],
    ) -> bool:
        return len(granted) >= len(voters)


# --- leading and timing ---------------------------------------------------------------------------------------------


class NeverResigns(Rules):
    """28. KAFKA-15489, JoyQueue, Nacos."""

    def check_quorum_ns(self) -> Ns | None:  # noqa: D102
        return None


class OwnAppendIsContact(Rules):
    """30. Nacos sendBeat: here a leader sends nothing by itself, so it is its own writing."""

    def own_append_is_contact(self) -> bool:  # noqa: D102
        return True


class AnyRequestRestartsTimers(Rules):
    """31. NATS 5fe8be8, tikv 8223."""

    def restarts_on_request(self) -> bool:  # noqa: D102
        return True


class NoJitter(Rules):
    """33. Raft paper, 9.3; etcd 780bbb2."""

    def election_timeout_ms(self, rng: Rng) -> int:  # noqa: ARG002, D102
        return self.knobs.election_timeout_ms

    def backoff_ms(self, rng: Rng, retries: int) -> int:  # noqa: ARG002, D102
        return min(self.knobs.backoff_unit_ms, self.knobs.election_backoff_max_ms)


class SameSeedEverywhere(Rules):
    """34. etcd 15784."""

    def __init__(self, knobs: KraftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_timeout_ms(self, rng: Rng) -> int:  # noqa: ARG002, D102
        return super().election_timeout_ms(self._own)

    def backoff_ms(self, rng: Rng, retries: int) -> int:  # noqa: ARG002, D102
        return super().backoff_ms(self._own, retries)


class TimersOnWallClock(Rules):
    """52. DLedger."""

    def clock(self) -> Literal["mono", "wall"]:  # noqa: D102
        return "wall"


# --- log and high watermark -----------------------------------------------------------------------------------------


class CommitsOldEpochs(Rules):
    """40. PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8."""

    def may_advance(self, offset: int, epoch_start: int) -> bool:  # noqa: ARG002, D102
        return True


class FollowerHwUnchecked(Rules):
    """42. PySyncObj 166. A new leader does not know its high watermark: then there is none."""

    def follower_hw(self, own: int, end: int, leaders: int) -> int:  # noqa: ARG002, D102
        return max(0, leaders)


class NeverDiverges(Rules):
    """Not of the table: a leader believes every follower that its log is a piece of its own."""

    def diverges(self, asked: Position, own: Position) -> bool:  # noqa: ARG002, D102
        return False


class AcksAfterLocalAppend(Rules):
    """45. Nacos, Redis."""

    def acks_client(self, at: Literal["appended", "committed"]) -> bool:  # noqa: ARG002, D102
        return True


class FetchesBeforeSync(Rules):
    """46. NATS 2.12, ZK-3911: a fetch acknowledges everything before it."""

    def syncs(self, file: File) -> bool:  # noqa: D102
        return file != "log"


# --- harmless -------------------------------------------------------------------------------------------------------


class LongerJitter(Rules):
    """A quarter more spread."""

    def election_timeout_ms(self, rng: Rng) -> int:  # noqa: D102
        e = self.knobs.election_timeout_ms
        return e + rng.below(e + e // 4 + 1)


class HalfFetchWait(Rules):
    """Twice the fetches."""

    def fetch_wait_ms(self) -> int:  # noqa: D102
        return max(1, self.knobs.fetch_max_wait_ms // 2)


class QuickRetry(Rules):
    """Half the wait after a failed request."""

    def retry_backoff_ms(self) -> int:  # noqa: D102
        return max(1, self.knobs.retry_backoff_ms // 2)


class EagerHighWatermark(Rules):
    """Followers hear of a commit at once, as of later versions (KIP-1166)."""

    def answers_on_commit(self) -> bool:  # noqa: D102
        return True


class NoLinger(Rules):
    """Every write is a batch of its own."""

    def linger_ms(self) -> int:  # noqa: D102
        return 0
