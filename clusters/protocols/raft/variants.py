"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Promises: each broken build overrides one rule (37: the two that make its deadlock; 51: one, for the lease), is named by
its number in the table of planted bugs, and says which knobs it shows nothing without. It inherits the promise of its
profile. Leaves out finding them: that is the checkers' exam.

Source: the known bugs of real systems, named beside each class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from clusters.protocols.raft.knobs import RaftKnobs
from clusters.protocols.raft.messages import Config, VoteReply
from clusters.protocols.raft.rules import ClockName, Position, Rules
from clusters.protocols.raft.storage import HardState, Unreadable
from harness.core.clock import Ns
from harness.core.rng import Rng


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One build that differs from the honest one."""

    says: str
    rules: Callable[[RaftKnobs], Rules]
    caught_by: tuple[str, ...] = ()
    """Checkers of which any one counts; none: the build is harmless."""
    needs: Mapping[str, str] = {}
    """Knobs without which the mistake cannot show; refused otherwise."""
    advised: Mapping[str, str] = {}
    """Knobs with which it shows sooner."""
    nodes_min: int = 3

    def unmet(self, knobs: RaftKnobs) -> str:
        """The first needed knob that is not so set; empty when all are."""
        for name, word in self.needs.items():
            value = getattr(knobs, name)
            if ({True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)) != word:
                return f"{name}={word}"
        return ""


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


# --- granting and counting --------------------------------------------------------------------------------------


class NoLogCheck(Rules):
    """12. Nacos 785. In pre-votes and votes, or the honest one of the two would mask it."""

    def log_up_to_date(self, candidate: Position, own: Position) -> bool:  # noqa: ARG002, D102
        return True


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


def _bug(says: str, rules: Callable[[RaftKnobs], Rules], *caught_by: str, **more: Any) -> Variant:
    return Variant(says=says, rules=rules, caught_by=caught_by, **more)


_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_SINGLE = {"membership": "single_server"}
_LEASE = {"reads": "lease"}

VARIANTS: Mapping[str, Variant] = {
    "01-vote-not-written": _bug("writes the term but not the vote", VoteNotWritten, _VOTE, _LEADER),
    "02-answer-before-persist": _bug("answers a vote request before the vote is on disk", AnswerBeforePersist, _VOTE),
    "04-ignore-failed-vote-write": _bug("goes on after the vote could not be written", IgnoreFailedVoteWrite, _VOTE),
    "05-vote-not-synced": _bug("replaces the vote file without fsync", VoteNotSynced, _VOTE),
    "06-delete-then-rename": _bug(
        "deletes the vote file before the new one takes its place", DeleteThenRename, _VOTE, _TERM
    ),
    "07-unreadable-means-fresh": _bug(
        "takes an unreadable vote file for a node that never voted", UnreadableMeansFresh, _VOTE, _TERM
    ),
    "10-resumes-leadership": _bug(
        "goes on leading its term after a restart", ResumesLeadership, "log-matching", needs={"noop": "on"}
    ),
    "11-forgets-own-vote": _bug(
        "after a restart votes again in a term in which it voted for itself", ForgetsOwnVote, _VOTE, _LEADER
    ),
    "12-grant-without-log-check": _bug("votes for candidates with an older log", NoLogCheck, _COMPLETE, _ACKED),
    "14-last-log-term-is-current": _bug(
        "gives its current term as the term of its last entry", LastLogTermIsCurrent, _COMPLETE
    ),
    "16-counts-older-term": _bug("counts votes given in an earlier term", CountsOlderTerm, _LEADER, _MAJORITY),
    "17-counts-higher-term": _bug(
        "steps down on an answer with a higher term and tallies it all the same", CountsHigherTerm, _LEADER, _MAJORITY
    ),
    "18-pre-votes-are-votes": _bug(
        "starts its campaign with the pre-votes as votes",
        PreVotesAreVotes,
        _MAJORITY,
        _LEADER,
        needs={"pre_vote": "on"},
    ),
    "21-majority-of-responders": _bug(
        "is elected by a majority of those who answered", MajorityOfResponders, _MAJORITY, _LEADER, nodes_min=5
    ),
    "22-half-is-enough": _bug("takes half of an even number for a majority", HalfIsEnough, _LEADER, nodes_min=4),
    "23-non-members-vote": _bug(
        "asks and counts learners and removed nodes", NonMembersVote, "members-only", _LEADER, needs=_SINGLE
    ),
    "25-term-may-fall": _bug("takes over a lower term from an old AppendEntries", TermMayFall, _TERM),
    "27-refuses-campaigned-term": _bug(
        "refuses the leader of a term in which it campaigned itself",
        RefusesCampaignedTerm,
        "convergence-after-heal",
        _LIVELOCK,
    ),
    "28-never-steps-down": _bug(
        "goes on leading without a quorum", NeverStepsDown, "step-down-without-quorum", needs={"check_quorum": "on"}
    ),
    "30-sending-is-contact": _bug(
        "takes its own sending for contact with a voter",
        SendingIsContact,
        "step-down-without-quorum",
        needs={"check_quorum": "on"},
    ),
    "31-any-request-resets-deadline": _bug(
        "waits anew after every vote request, granted or not", AnyRequestResetsDeadline, _OWED, _LIVELOCK
    ),
    "33-no-jitter": _bug("always waits the shortest election timeout", NoJitter, _LIVELOCK),
    "34-same-seed": _bug("draws its timeouts from one seed on all nodes", SameSeedEverywhere, _LIVELOCK),
    "35-no-pre-vote": _bug(
        "raises its term without asking first", NoPreVote, "leader-stability", needs={"pre_vote": "on"}
    ),
    "36-hears-no-leader": _bug(
        "grants pre-votes while it hears a leader",
        HearsNoLeader,
        "leader-stability",
        needs={"prevote_leader_check": "on"},
    ),
    "37-pre-vote-terms-compared": _bug(
        "drops pre-votes of a lower term and leaves askers of a lower term without an answer",
        PreVoteTermsCompared,
        _OWED,
        needs={"pre_vote": "on"},
    ),
    "39-repeated-request-refused": _bug(
        "refuses the repeated request of the candidate that it voted for", RepeatedRequestRefused, _LIVELOCK
    ),
    "40-commits-old-terms": _bug(
        "commits entries of earlier terms by counting replicas",
        CommitsOldTerms,
        _COMMIT,
        _ACKED,
        advised={"max_entries_per_append": "1"},
    ),
    "42-follower-commit-unchecked": _bug(
        "takes over the leader's commit index as it is", FollowerCommitUnchecked, _COMMIT
    ),
    "44-truncates-always": _bug(
        "cuts its log at every AppendEntries with entries, conflict or not", TruncatesAlways, _COMMIT, _ACKED
    ),
    "45-acks-after-local-append": _bug(
        "tells the client ok when only it itself holds the write", AcksAfterLocalAppend, _ACKED
    ),
    "46-acks-before-sync": _bug("acknowledges entries that a power loss can take", AcksBeforeSync, _ACKED),
    "47-lease-on-wall-clock": _bug(
        "measures its lease on the wall clock", LeaseOnWallClock, "lease-exclusion", needs=_LEASE
    ),
    "49-lease-on-timer": _bug(
        "looks at its lease once in a timeout only", LeaseOnTimer, "lease-exclusion", needs=_LEASE
    ),
    "51-lease-without-recheck": _bug(
        "serves what was queued during a stop by the time of before it",
        LeaseWithoutRecheck,
        "lease-exclusion",
        needs=_LEASE,
    ),
    "52-election-on-wall-clock": _bug("measures its election deadline on the wall clock", ElectionOnWallClock, _OWED),
    "53-config-on-commit": _bug(
        "uses a new configuration only when it is committed", ConfigOnCommit, _LEADER, "members-only", needs=_SINGLE
    ),
    "54-removed-node-campaigns": _bug(
        "campaigns after it was removed",
        RemovedNodeCampaigns,
        "members-only",
        "leader-stability",
        needs=_SINGLE,
        nodes_min=4,
    ),
    "56-reads-before-own-term": _bug(
        "serves reads before an entry of its term is applied", ReadsBeforeOwnTerm, _ACKED, "linearizable"
    ),
    "58-heartbeats-while-stuck": _bug(
        "keeps its followers quiet while its own disk hangs", HeartbeatsWhileStuck, _OWED
    ),
    "harmless-longer-jitter": _bug("draws its timeouts from a wider range", LongerJitter),
    "harmless-half-heartbeat": _bug("sends heartbeats twice as often", HalfHeartbeat),
    "harmless-more-pre-votes": _bug("repeats its pre-vote requests more often", MorePreVotes),
    "harmless-silent-sticky": _bug("drops vote requests that it ignores instead of answering them", SilentSticky),
    "harmless-eager-commit": _bug("tells followers of a commit at once", EagerCommitNotice),
}
