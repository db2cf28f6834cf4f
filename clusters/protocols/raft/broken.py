"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs; beside it stand the real systems that made the mistake.
Leaves out which knobs and checkers belong to it (`variants`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from clusters.protocols.kit.files import Unreadable
from clusters.protocols.raft.knobs import RaftKnobs
from clusters.protocols.raft.messages import Config, VoteReply
from clusters.protocols.raft.rules import ClockName, Position, Rules
from clusters.protocols.raft.storage import HardState
from harness.core.clock import Ns
from harness.core.rng import Rng

# --- the vote on disk -------------------------------------------------------------------------------------------


class VoteNotWritten(Rules):
    """01. NodeDB, etcd 2877, Nacos."""

    def persist_vote(self, state: HardState) -> HardState:  # noqa: D102
        return HardState(state.term, None)


class AnswerBeforePersist(Rules):
    """02. redis 533d0e0."""

    def answers_after_persist(self) -> bool:  # noqa: D102
        return False


class IgnoreFailedVoteWrite(Rules):
    """04. jraft 1241, DLedger, JoyQueue: the answer of that moment is lost with the write, the repeated one is not."""

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:  # noqa: D102
        return "ignore" if file == "vote" else "halt"


class VoteNotSynced(Rules):
    """05. jgroups 4c6961f, DLedger."""

    def syncs(self, file: str) -> bool:  # noqa: D102
        return file != "vote"


class DeleteThenRename(Rules):
    """06. DLedger; ZK-4269."""

    def replace_file(self) -> Literal["rename", "delete_rename"]:  # noqa: D102
        return "delete_rename"


class UnreadableMeansFresh(Rules):
    """07. DLedger."""

    def load_state(  # noqa: D102
        self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int
    ) -> HardState:
        try:
            return super().load_state(content, node=node, last_log_term=last_log_term)
        except Unreadable:
            return HardState(0, None)


class ResumesLeadership(Rules):
    """10. KAFKA-10527."""

    def resumes_leadership(self, *, node: str, state: HardState, last_log_term: int) -> bool:  # noqa: D102
        return state.term > 0 and state.voted_for == node and last_log_term == state.term


class ForgetsOwnVote(Rules):
    """11. KAFKA-10661."""

    def load_state(  # noqa: D102
        self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int
    ) -> HardState:
        state = super().load_state(content, node=node, last_log_term=last_log_term)
        return HardState(state.term, None) if state.voted_for == node else state


class WritesTermBefore(Rules):
    """Not of the table: an off-by-one on disk, plain enough that any restart of a node shows it."""

    def persist_vote(self, state: HardState) -> HardState:  # noqa: D102
        return HardState(max(0, state.term - 1), state.voted_for)


# --- granting and counting --------------------------------------------------------------------------------------


class NoLogCheck(Rules):
    """12. Nacos 785. In pre-votes and votes, or the honest one of the two would mask it."""

    def log_up_to_date(self, candidate: Position, own: Position) -> bool:  # noqa: ARG002, D102
        return True


class VotesTwice(Rules):
    """Not of the table: grants whatever it granted before; without jitter, so that campaigns of one term meet."""

    def deadline(self, rng: Rng) -> Ns:  # noqa: ARG002, D102
        return self.knobs.election_timeout_min

    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:  # noqa: D102
        del voted_for
        return super().grants_vote(voted_for=None, candidate=candidate, up_to_date=up_to_date)


class LastLogTermIsCurrent(Rules):
    """14. DLedger 52."""

    def last_log(self, last_term: int, last_index: int, current_term: int) -> Position:  # noqa: ARG002, D102
        return current_term, last_index


class CountsOlderTerm(Rules):
    """16. Xraft 33."""

    def counts_vote(self, answer: VoteReply, *, own_term: int, candidate: bool, from_voter: bool) -> bool:  # noqa: D102
        return answer.vote_granted and candidate and answer.term <= own_term and from_voter


class CountsHigherTerm(Rules):
    """17. JoyQueue, canonical fdce566: steps down without a return, and the answer is tallied all the same."""

    def counts_vote(self, answer: VoteReply, *, own_term: int, candidate: bool, from_voter: bool) -> bool:  # noqa: D102
        honest = super().counts_vote(answer, own_term=own_term, candidate=candidate, from_voter=from_voter)
        return honest or (candidate and answer.term > own_term and from_voter)


class PreVotesAreVotes(Rules):
    """18. canonical 0ed4553, JoyQueue."""

    def clears_votes(self, at: Literal["round", "campaign"]) -> bool:  # noqa: D102
        return at == "round"


class MajorityOfResponders(Rules):
    """21. Sentinel f4be6f1, JGroups views."""

    def is_quorum(  # noqa: D102
        self, votes: Collection[str], voters: Collection[str], answered: Collection[str]
    ) -> bool:
        if len(voters) == 1 or len(answered) == 1:
            return super().is_quorum(votes, voters, answered)
        return len(votes) >= self.quorum_size(len(answered))


class HalfIsEnough(Rules):
    """22. The class of braft 3884640."""

    def quorum_size(self, voters: int) -> int:  # noqa: D102
        return (voters + 1) // 2


class NonMembersVote(Rules):
    """23. hashicorp 477, NATS: everybody that any configuration in the log ever named is asked and counted."""

    def electorate(self, config: Config, configs: Sequence[tuple[int, Config]]) -> tuple[str, ...]:  # noqa: D102
        names = dict.fromkeys(config.voters)
        for _, known in configs:
            names.update(dict.fromkeys((*known.voters, *known.learners)))
        return tuple(names)


class TermMayFall(Rules):
    """25. NATS 25561f4, WRaft 4."""

    def next_term(self, own_term: int, seen: int) -> int:  # noqa: ARG002, D102
        return seen


class RefusesCampaignedTerm(Rules):
    """27."""

    def accepts_leader(self, term: int, campaigned_term: int) -> bool:  # noqa: D102
        return term != campaigned_term


# --- leading and timing -----------------------------------------------------------------------------------------


class NeverStepsDown(Rules):
    """28. KAFKA-15489, JoyQueue, Nacos."""

    def steps_down(self, age: Ns) -> bool:  # noqa: ARG002, D102
        return False


class SendingIsContact(Rules):
    """30. Nacos sendBeat."""

    def refreshes_contact(self, event: Literal["sent", "answered"]) -> bool:  # noqa: ARG002, D102
        return True


class AnyRequestResetsDeadline(Rules):
    """31. NATS 5fe8be8, tikv 8223."""

    def resets_deadline(self, event: str) -> bool:  # noqa: ARG002, D102
        return True


class NoJitter(Rules):
    """33. Raft paper, 9.3; etcd 780bbb2."""

    def deadline(self, rng: Rng) -> Ns:  # noqa: ARG002, D102
        return self.knobs.election_timeout_min


class WantsEveryVote(Rules):
    """Not of the table: nobody is elected while any voter is silent."""

    def is_quorum(  # noqa: D102
        self,
        votes: Collection[str],
        voters: Collection[str],
        answered: Collection[str],  # noqa: ARG002
    ) -> bool:
        return len(votes) >= len(voters)


class SameSeedEverywhere(Rules):
    """34. etcd 15784."""

    def __init__(self, knobs: RaftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def deadline(self, rng: Rng) -> Ns:  # noqa: ARG002, D102
        return super().deadline(self._own)


class NoPreVote(Rules):
    """35. etcd 8499."""

    def needs_pre_vote(self) -> bool:  # noqa: D102
        return False


class HearsNoLeader(Rules):
    """36. KIP-996, JoyQueue, jraft 15. Stickiness uses the same rule, so it goes as well: else it masks this."""

    def hears_leader(self, *, leader: str | None, silence: Ns) -> bool:  # noqa: ARG002, D102
        return False


class PreVoteTermsCompared(Rules):
    """37. canonical 279, etcd 8243."""

    def counts_pre_vote(  # noqa: D102
        self, *, granted: bool, answer_term: int, own_term: int, from_voter: bool
    ) -> bool:
        return granted and from_voter and answer_term >= own_term

    def answers_lower_term(self) -> bool:  # noqa: D102
        return False


class RepeatedRequestRefused(Rules):
    """39. nebula 2419."""

    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:  # noqa: D102
        if voted_for is not None:
            return 2
        return super().grants_vote(voted_for=voted_for, candidate=candidate, up_to_date=up_to_date)


# --- log and commit ---------------------------------------------------------------------------------------------


class CommitsOldTerms(Rules):
    """40. PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8."""

    def may_commit(self, entry_term: int, own_term: int) -> bool:  # noqa: ARG002, D102
        return True


class FollowerCommitUnchecked(Rules):
    """42. PySyncObj 166."""

    def follower_commit(self, *, leader_commit: int, last_new: int, commit: int) -> int:  # noqa: ARG002, D102
        return leader_commit


class TruncatesAlways(Rules):
    """44. RaftOS 26, NATS f871570."""

    def truncates(self, own_term: int, new_term: int) -> bool:  # noqa: ARG002, D102
        return True


class NeverTruncates(Rules):
    """Not of the table: entries of a deposed leader stay where its successor wrote others."""

    def truncates(self, own_term: int, new_term: int) -> bool:  # noqa: ARG002, D102
        return False


class AcksAfterLocalAppend(Rules):
    """45. Nacos, Redis."""

    def acks_client(self, at: Literal["appended", "committed"]) -> bool:  # noqa: ARG002, D102
        return True


class AcksBeforeSync(Rules):
    """46. NATS 2.12, ZK-3911."""

    def syncs(self, file: str) -> bool:  # noqa: D102
        return file != "log"


# --- leases and clocks ------------------------------------------------------------------------------------------


class LeaseOnWallClock(Rules):
    """47. nebula 2723, NATS 2e2d40c."""

    def clock(self, timer: Literal["election", "lease"]) -> ClockName:  # noqa: D102
        return "wall" if timer == "lease" else "mono"


class LeaseOnTimer(Rules):
    """49. jraft 34."""

    def lease_valid(self, *, now: Ns, end: Ns, ticked: Ns, checked: bool) -> bool:  # noqa: ARG002, D102
        return checked


class LeaseWithoutRecheck(Rules):
    """51. etcd locks, ZooKeeper sessions: the time of the last tick stands for now, also after a stop."""

    def lease_valid(self, *, now: Ns, end: Ns, ticked: Ns, checked: bool) -> bool:  # noqa: ARG002, D102
        return ticked < end


class ElectionOnWallClock(Rules):
    """52. DLedger."""

    def clock(self, timer: Literal["election", "lease"]) -> ClockName:  # noqa: D102
        return "wall" if timer == "election" else "mono"


# --- members and the rest ---------------------------------------------------------------------------------------


class ConfigOnCommit(Rules):
    """53. etcd 7625."""

    def config_in_force(self, configs: Sequence[tuple[int, Config]], commit: int) -> tuple[int, Config]:  # noqa: D102
        return next(known for known in reversed(configs) if known[0] <= commit)


class RemovedNodeCampaigns(Rules):
    """54. NATS, hashicorp."""

    def may_campaign(self, node: str, voters: Sequence[str], *, leaving: bool) -> bool:  # noqa: ARG002, D102
        return True


class ReadsBeforeOwnTerm(Rules):
    """56. KAFKA-17333."""

    def announces_leader(self, *, own_term_committed: bool) -> bool:  # noqa: ARG002, D102
        return True


class HeartbeatsWhileStuck(Rules):
    """58. etcd 13527, tikv 18886."""

    def heartbeats_while_stuck(self) -> bool:  # noqa: D102
        return True


# --- what clients see: not of the table -------------------------------------------------------------------------


class ReadsUnconfirmed(Rules):
    """Serves by read-index without the round that shows that it still leads. The class of Consul's default reads."""

    def confirms_reads(self) -> bool:  # noqa: D102
        return False


class SwapComparedEarly(Rules):
    """Check, then act: another write may be ordered between the two."""

    def decides_early(self, kind: Literal["cas", "txn"]) -> bool:  # noqa: D102
        return kind == "cas"


class TransactionReadsEarly(Rules):
    """Reads of a transaction are of before its appends are ordered: write skew, lost updates."""

    def decides_early(self, kind: Literal["cas", "txn"]) -> bool:  # noqa: D102
        return kind == "txn"


class ProposedAgain(Rules):
    """A retry without sessions (thesis 6.3): the same command may be carried out twice."""

    def proposes_again(self) -> bool:  # noqa: D102
        return True


class ClockDecides(Rules):
    """Nodes that apply one entry at different moments, or again after a restart, come to different holders."""

    def clock_decides(self) -> bool:  # noqa: D102
        return True


class AnyTokenPasses(Rules):
    """A lease without fencing: Kleppmann, 2016; HBase's leases."""

    def accepts_token(self, token: int, highest: int) -> bool:  # noqa: ARG002, D102
        return True


# --- harmless ---------------------------------------------------------------------------------------------------


class LongerJitter(Rules):
    """A quarter more spread."""

    def deadline(self, rng: Rng) -> Ns:  # noqa: D102
        longest = self.knobs.election_timeout_max
        return rng.between(self.knobs.election_timeout_min, longest + longest // 4)


class HalfHeartbeat(Rules):
    """Twice the heartbeats."""

    def heartbeat_interval(self) -> Ns:  # noqa: D102
        return max(1, self.knobs.heartbeat_interval // 2)


class MorePreVotes(Rules):
    """Three times the requests to voters that have not answered."""

    def pre_vote_repeat_interval(self) -> Ns:  # noqa: D102
        return max(1, self.knobs.heartbeat_interval // 3)


class SilentSticky(Rules):
    """An ignored vote request gets no answer."""

    def answers_sticky(self) -> bool:  # noqa: D102
        return False


class EagerCommitNotice(Rules):
    """Followers hear of a commit at once."""

    def notices_commit_eagerly(self) -> bool:  # noqa: D102
        return True
