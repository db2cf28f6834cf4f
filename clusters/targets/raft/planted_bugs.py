"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: each build breaks one rule (37: the two that make its deadlock), is
named by its number (docs/sources.md, planted-bugs) and names the knobs without which it shows nothing. It inherits the
promise of its profile. Bugs without a number: ``plain`` shows under nearly any schedule, so that each checker can be
accepted on live clusters; ``clients`` leaves the election intact and shows in what clients of one workload see. Out of
scope: finding the bugs, which is the exam's task.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.raft.knobs import RaftKnobs
from dethrone.clusters.targets.raft.messages import Config, VoteReply
from dethrone.clusters.targets.raft.rules import SINGLE, ClockName, Position, Rules
from dethrone.clusters.targets.raft.storage import HardState
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

_LEASE = {"reads": "lease"}


# --- the vote on disk -------------------------------------------------------------------------------------------


@mutant("01-vote-not-written", says="writes the term but not the vote", caught_by=(by.VOTE, by.LEADER, by.DURABLE))
class VoteNotWritten(Rules):  # NodeDB, etcd 2877, Nacos
    def persist_vote(self, state: HardState) -> HardState:
        return HardState(state.term, None)


@mutant(
    "02-answer-before-persist",
    says="answers a vote request before the vote is on disk",
    caught_by=(by.VOTE, by.DURABLE),
)
class AnswerBeforePersist(Rules):  # redis 533d0e0
    def answers_after_persist(self) -> bool:
        return False


@mutant(
    "04-ignore-failed-vote-write", says="ignores that the vote could not be written", caught_by=(by.VOTE, by.DURABLE)
)
class IgnoreFailedVoteWrite(Rules):
    """Seen in jraft 1241, DLedger, JoyQueue: that answer is lost with the write, the repeated one is not."""

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        return "ignore" if file == "vote" else "halt"


@mutant("05-vote-not-synced", says="replaces the vote file without fsync", caught_by=(by.VOTE, by.DURABLE))
class VoteNotSynced(Rules):  # jgroups 4c6961f, DLedger
    def syncs(self, file: str) -> bool:
        return file != "vote"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable vote file as a node that never voted",
    caught_by=(by.VOTE, by.TERM, by.DURABLE),
)
class UnreadableMeansFresh(Rules):  # DLedger
    def load_state(self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int) -> HardState:
        try:
            return super().load_state(content, node=node, last_log_term=last_log_term)
        except Unreadable:
            return HardState(0, None)


@mutant(
    "10-resumes-leadership",
    says="resumes leading its term after a restart",
    caught_by=(by.MATCHING,),
    needs={"noop": "on"},
)
class ResumesLeadership(Rules):  # KAFKA-10527
    def resumes_leadership(self, *, node: str, state: HardState, last_log_term: int) -> bool:
        return state.term > 0 and state.voted_for == node and last_log_term == state.term


@mutant(
    "11-forgets-own-vote",
    says="after a restart votes again in a term in which it voted for itself",
    caught_by=(by.VOTE, by.LEADER),
)
class ForgetsOwnVote(Rules):  # KAFKA-10661
    def load_state(self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int) -> HardState:
        state = super().load_state(content, node=node, last_log_term=last_log_term)
        return HardState(state.term, None) if state.voted_for == node else state


@mutant(
    "plain-writes-term-before",
    says="stores each term one too low, so that any restart goes back",
    caught_by=(by.TERM, by.DURABLE),
)
class WritesTermBefore(Rules):  # An off-by-one on disk, plain enough that any restart of a node shows it
    def persist_vote(self, state: HardState) -> HardState:
        return HardState(max(0, state.term - 1), state.voted_for)


# --- granting and counting --------------------------------------------------------------------------------------


@mutant(
    "plain-votes-twice",
    says="votes for every candidate of a term, and all campaign at once",
    caught_by=(by.VOTE, by.LEADER),
)
class VotesTwice(Rules):  # Grants regardless of earlier votes; without jitter, so that campaigns of one term meet
    def deadline(self, rng: Rng) -> Ns:
        return self.knobs.election_timeout_min

    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:
        del voted_for
        return super().grants_vote(voted_for=None, candidate=candidate, up_to_date=up_to_date)


@mutant(
    "14-last-log-term-is-current", says="gives its current term as the term of its last entry", caught_by=(by.COMPLETE,)
)
class LastLogTermIsCurrent(Rules):  # DLedger 52
    def last_log(self, last_term: int, last_index: int, current_term: int) -> Position:
        return current_term, last_index


@mutant("16-counts-older-term", says="counts votes given in an earlier term", caught_by=(by.LEADER, by.MAJORITY))
class CountsOlderTerm(Rules):  # Xraft 33
    def counts_vote(self, answer: VoteReply, *, own_term: int, candidate: bool, from_voter: bool) -> bool:
        return answer.vote_granted and candidate and answer.term <= own_term and from_voter


@mutant(
    "17-counts-higher-term",
    says="steps down on an answer with a higher term and tallies it all the same",
    caught_by=(by.LEADER, by.MAJORITY),
)
class CountsHigherTerm(Rules):
    """JoyQueue, canonical fdce566: steps down without a return, and the answer is tallied all the same."""

    def counts_vote(self, answer: VoteReply, *, own_term: int, candidate: bool, from_voter: bool) -> bool:
        honest = super().counts_vote(answer, own_term=own_term, candidate=candidate, from_voter=from_voter)
        return honest or (candidate and answer.term > own_term and from_voter)


@mutant(
    "18-pre-votes-are-votes",
    says="starts its campaign with the pre-votes as votes",
    caught_by=(by.MAJORITY, by.LEADER),
    needs={"pre_vote": "on"},
)
class PreVotesAreVotes(Rules):  # canonical 0ed4553, JoyQueue
    def clears_votes(self, at: Literal["round", "campaign"]) -> bool:
        return at == "round"


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(by.MAJORITY, by.LEADER),
    nodes_min=5,
)
class MajorityOfResponders(Rules):  # Sentinel f4be6f1, JGroups views
    def is_quorum(self, votes: Collection[str], voters: Collection[str], answered: Collection[str]) -> bool:
        if len(voters) == 1 or len(answered) == 1:
            return super().is_quorum(votes, voters, answered)
        return len(votes) >= self.quorum_size(len(answered))


@mutant("22-half-is-enough", says="counts half of an even number as a majority", caught_by=(by.LEADER,), nodes_min=4)
class HalfIsEnough(Rules):  # The class of braft 3884640
    def quorum_size(self, voters: int) -> int:
        return (voters + 1) // 2


@mutant(
    "23-non-members-vote",
    says="asks and counts learners and removed nodes",
    caught_by=(by.MEMBERS, by.LEADER),
    needs=SINGLE,
)
class NonMembersVote(Rules):
    """Seen in hashicorp 477, NATS: every node that any configuration in the log named is asked and counted."""

    def electorate(self, config: Config, configs: Sequence[tuple[int, Config]]) -> tuple[str, ...]:
        names = dict.fromkeys(config.voters)
        for _, known in configs:
            names.update(dict.fromkeys((*known.voters, *known.learners)))
        return tuple(names)


@mutant("25-term-may-fall", says="adopts a lower term from an old AppendEntries", caught_by=(by.TERM,))
class TermMayFall(Rules):  # NATS 25561f4, WRaft 4
    def next_term(self, own_term: int, seen: int) -> int:
        return seen


@mutant(
    "27-refuses-campaigned-term",
    says="refuses the leader of a term in which it campaigned itself",
    caught_by=(by.CONVERGES, by.LIVELOCK),
)
class RefusesCampaignedTerm(Rules):
    def accepts_leader(self, term: int, campaigned_term: int) -> bool:
        return term != campaigned_term


# --- leading and timing -----------------------------------------------------------------------------------------


@mutant("33-no-jitter", says="always waits the shortest election timeout", caught_by=(by.LIVELOCK,))
class NoJitter(Rules):  # Raft paper, 9.3; etcd 780bbb2
    def deadline(self, rng: Rng) -> Ns:
        return self.knobs.election_timeout_min


@mutant("plain-wants-every-vote", says="is elected only with the votes of all voters", caught_by=(by.OWED,))
class WantsEveryVote(Rules):  # No node is elected while any voter is silent
    def is_quorum(
        self,
        votes: Collection[str],
        voters: Collection[str],
        answered: Collection[str],
    ) -> bool:
        return len(votes) >= len(voters)


@mutant("34-same-seed", says="draws its timeouts from one seed on all nodes", caught_by=(by.LIVELOCK,))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: RaftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def deadline(self, rng: Rng) -> Ns:
        return super().deadline(self._own)


@mutant(
    "37-pre-vote-terms-compared",
    says="drops pre-votes of a lower term and leaves askers of a lower term without an answer",
    caught_by=(by.OWED,),
    needs={"pre_vote": "on"},
)
class PreVoteTermsCompared(Rules):  # canonical 279, etcd 8243
    def counts_pre_vote(self, *, granted: bool, answer_term: int, own_term: int, from_voter: bool) -> bool:
        return granted and from_voter and answer_term >= own_term

    def answers_lower_term(self) -> bool:
        return False


@mutant(
    "39-repeated-request-refused",
    says="refuses the repeated request of the candidate that it voted for",
    caught_by=(by.LIVELOCK,),
)
class RepeatedRequestRefused(Rules):  # Nebula 2419
    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:
        if voted_for is not None:
            return 2
        return super().grants_vote(voted_for=voted_for, candidate=candidate, up_to_date=up_to_date)


# --- log and commit ---------------------------------------------------------------------------------------------


@mutant("42-follower-commit-unchecked", says="adopts the leader's commit index unchecked", caught_by=(by.COMMIT,))
class FollowerCommitUnchecked(Rules):  # PySyncObj 166
    def follower_commit(self, *, leader_commit: int, last_new: int, commit: int) -> int:
        return leader_commit


@mutant(
    "plain-never-truncates", says="keeps entries that conflict with its leader's", caught_by=(by.MATCHING, by.ACKED)
)
class NeverTruncates(Rules):  # Entries of a deposed leader stay where its successor wrote others
    def truncates(self, own_term: int, new_term: int) -> bool:
        return False


@mutant("45-acks-after-local-append", says="acknowledges a write that only the leader holds", caught_by=(by.ACKED,))
class AcksAfterLocalAppend(Rules):  # Nacos, Redis
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        return True


@mutant("46-acks-before-sync", says="acknowledges entries that a power loss can undo", caught_by=(by.ACKED,))
class AcksBeforeSync(Rules):  # NATS 2.12, ZK-3911
    def syncs(self, file: str) -> bool:
        return file != "log"


# --- leases and clocks ------------------------------------------------------------------------------------------


@mutant("47-lease-on-wall-clock", says="measures its lease on the wall clock", caught_by=(by.LEASE,), needs=_LEASE)
class LeaseOnWallClock(Rules):  # Nebula 2723, NATS 2e2d40c
    def clock(self, timer: Literal["election", "lease"]) -> ClockName:
        return "wall" if timer == "lease" else "mono"


@mutant("49-lease-on-timer", says="looks at its lease once in a timeout only", caught_by=(by.LEASE,), needs=_LEASE)
class LeaseOnTimer(Rules):  # jraft 34
    def lease_valid(self, *, now: Ns, end: Ns, ticked: Ns, checked: bool) -> bool:
        return checked


@mutant(
    "51-lease-without-recheck",
    says="serves what was queued during a stop by the time of before it",
    caught_by=(by.LEASE,),
    needs=_LEASE,
)
class LeaseWithoutRecheck(Rules):
    """Seen in etcd locks, ZooKeeper sessions: the time of the last tick stands for now, also after a stop."""

    def lease_valid(self, *, now: Ns, end: Ns, ticked: Ns, checked: bool) -> bool:
        return ticked < end


@mutant("52-election-on-wall-clock", says="measures its election deadline on the wall clock", caught_by=(by.OWED,))
class ElectionOnWallClock(Rules):  # DLedger
    def clock(self, timer: Literal["election", "lease"]) -> ClockName:
        return "wall" if timer == "election" else "mono"


# --- members and the rest ---------------------------------------------------------------------------------------


@mutant(
    "53-config-on-commit",
    says="uses a new configuration only when it is committed",
    caught_by=(by.LEADER, by.MEMBERS),
    needs=SINGLE,
)
class ConfigOnCommit(Rules):  # etcd 7625
    def config_in_force(self, configs: Sequence[tuple[int, Config]], commit: int) -> tuple[int, Config]:
        return next(known for known in reversed(configs) if known[0] <= commit)
