"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs; beside it stand the real systems that made the mistake.
Leaves out which knobs and checkers belong to it (`variants`).
"""

from __future__ import annotations

from typing import Literal

from clusters.protocols.joyqueue.knobs import Knobs
from clusters.protocols.joyqueue.rules import ClockName, Position, Round, Rules, WriteReason
from clusters.protocols.joyqueue.storage import Stored
from clusters.protocols.kit.files import Replacement, Unreadable
from harness.core.clock import Ns
from harness.core.rng import Rng

# --- the vote on disk -------------------------------------------------------------------------------------------


class VoteNotWritten(Rules):
    """01. NodeDB, etcd 2877, Nacos."""

    def persisted(self, stored: Stored) -> Stored:  # noqa: D102
        return Stored(stored.term, None)


class AnswerBeforePersist(Rules):
    """02. redis 533d0e0."""

    def waits_for_disk(self, why: WriteReason) -> bool:  # noqa: ARG002, D102
        return False


class IgnoreFailedVoteWrite(Rules):
    """04. jraft 1241, DLedger, JoyQueue itself (JQ-B6)."""

    def on_persist_error(self) -> Literal["refuse", "swallow"]:  # noqa: D102
        return "swallow"


class VoteNotSynced(Rules):
    """05. jgroups 4c6961f, DLedger. Over the file: behind a rename, a checksum would tell what was not synced."""

    def replaces(self, why: WriteReason) -> Replacement:  # noqa: D102
        return super().replaces(why) if why == "first" else "in_place"


class DeleteThenRename(Rules):
    """06. DLedger; ZK-4269."""

    def replaces(self, why: WriteReason) -> Replacement:  # noqa: ARG002, D102
        return "delete_rename"


class UnreadableMeansFresh(Rules):
    """07. DLedger."""

    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:  # noqa: D102
        try:
            return super().load(content, node=node)
        except Unreadable:
            return Stored()


class ResumesLeadership(Rules):
    """10. KAFKA-10527."""

    def resumes_leadership(self, *, node: str, stored: Stored, last_log_term: int) -> bool:  # noqa: D102
        return stored.term > 0 and stored.voted_for == node and last_log_term == stored.term


class ForgetsOwnVote(Rules):
    """11. KAFKA-10661."""

    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:  # noqa: D102
        stored = super().load(content, node=node)
        return Stored(stored.term, None) if stored.voted_for == node else stored


# --- granting and counting --------------------------------------------------------------------------------------


class NoLogCheck(Rules):
    """12. Nacos 785. In pre-votes and votes, or the honest one of the two would mask it."""

    def log_up_to_date(self, candidate: Position, own: Position) -> bool:  # noqa: ARG002, D102
        return True


class LastLogTermIsCurrent(Rules):
    """14. DLedger 52."""

    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:  # noqa: ARG002, D102
        return term, right


class CountsOlderTerm(Rules):
    """16. Xraft 33."""

    def keeps_answer(self, *, asked_in: int, term: int) -> bool:  # noqa: ARG002, D102
        return True


class PreVotesAreVotes(Rules):
    """18. canonical 0ed4553; JoyQueue itself (JQ-B2), as far as its send tasks are late."""

    def resets_flag(self, where: Literal["round", "task"], kind: Round) -> bool:  # noqa: D102
        return kind == "prevote" and super().resets_flag(where, kind)


class MajorityOfResponders(Rules):
    """21. Sentinel f4be6f1, JGroups views."""

    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:  # noqa: D102
        if nodes == 1 or answered == 1:
            return super().majority(kind, granted=granted, nodes=nodes, answered=answered)
        return granted > answered // 2


class HalfIsEnough(Rules):
    """22. The class of braft 3884640."""

    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:  # noqa: ARG002, D102
        return granted >= (nodes + 1) // 2


class NonMembersVote(Rules):
    """23. hashicorp 477, NATS."""

    def voters(self, voters: tuple[str, ...], learners: tuple[str, ...]) -> tuple[str, ...]:  # noqa: D102
        return voters + learners


class TermMayFall(Rules):
    """25. NATS 25561f4, WRaft 4."""

    def refuses_append(self, req_term: int, term: int) -> bool:  # noqa: ARG002, D102
        return False


class RefusesCampaignedTerm(Rules):
    """27."""

    def accepts_leader(self, term: int, campaigned_term: int) -> bool:  # noqa: D102
        return term != campaigned_term


# --- timing -----------------------------------------------------------------------------------------------------


class AnyRequestResetsTimer(Rules):
    """31. NATS 5fe8be8, tikv 8223."""

    def resets_timer(self, event: Literal["asked"]) -> bool:  # noqa: ARG002, D102
        return True


class NoJitter(Rules):
    """33. Raft paper, 9.3; etcd 780bbb2."""

    def election_delay(self, rng: Rng) -> Ns:  # noqa: ARG002, D102
        return self.election_delay_min()


class SameSeedEverywhere(Rules):
    """34. etcd 15784."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_delay(self, rng: Rng) -> Ns:  # noqa: ARG002, D102
        return super().election_delay(self._own)


class PreVoteTermsCompared(Rules):
    """37. canonical 279, etcd 8243."""

    def accepts_answer_of(self, answer_term: int, term: int) -> bool:  # noqa: D102
        return answer_term >= term

    def answers_lower_term(self) -> bool:  # noqa: D102
        return False


class ElectionOnWallClock(Rules):
    """52. DLedger."""

    def election_clock(self) -> ClockName:  # noqa: D102
        return "wall"


# --- log and clients --------------------------------------------------------------------------------------------


class CommitsOldTerms(Rules):
    """40. PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8."""

    def may_commit(self, entry_term: int, term: int) -> bool:  # noqa: ARG002, D102
        return True


class FollowerCommitUnchecked(Rules):
    """42. PySyncObj 166."""

    def follower_commit(self, *, leader_commit: int, matched: int, commit: int) -> int:  # noqa: ARG002, D102
        return leader_commit


class TruncatesAlways(Rules):
    """44. RaftOS 26, NATS f871570."""

    def truncates(self, own_term: int, new_term: int) -> bool:  # noqa: ARG002, D102
        return True


class AcksAfterLocalAppend(Rules):
    """45. Nacos, Redis."""

    def acks_client(self, at: Literal["appended", "committed"]) -> bool:  # noqa: ARG002, D102
        return True


class AcksBeforeSync(Rules):
    """46. NATS 2.12, ZK-3911."""

    def syncs_log(self) -> bool:  # noqa: D102
        return False


class ReadsBeforeOwnTerm(Rules):
    """56. KAFKA-17333."""

    def reads_through_log(self) -> bool:  # noqa: D102
        return False


# --- harmless ---------------------------------------------------------------------------------------------------


class LongerJitter(Rules):
    """A quarter more spread."""

    def election_delay(self, rng: Rng) -> Ns:  # noqa: D102
        knobs = self.knobs
        return knobs.ns(knobs.election_timeout_ms + rng.below(knobs.election_timeout_ms * 5 // 4))


class HalfHeartbeat(Rules):
    """Twice the heartbeats."""

    def heartbeat_interval(self) -> Ns:  # noqa: D102
        return max(1, super().heartbeat_interval() // 2)


class EagerCommitNotice(Rules):
    """Followers hear of a commit at once."""

    def notices_commit_eagerly(self) -> bool:  # noqa: D102
        return True


class SmallBatches(Rules):
    """One entry a request."""

    def entries_per_append(self) -> int:  # noqa: D102
        return 1


class MoreNotes(Rules):
    """A line a heartbeat."""

    def notes_heartbeats(self) -> bool:  # noqa: D102
        return True
