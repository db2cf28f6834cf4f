"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: each build breaks one rule (37: the two that make its deadlock), is
named by its number (docs/sources.md, planted-bugs), and names the knobs without which it shows nothing. It inherits the
promise of its profile. Omitted, as the original itself makes these mistakes: 17 (JQ-B1), 28 and 30 (JQ-B5), 36 (JQ-B4);
18 (JQ-B2) is planted into the mended build, where 17 alone shows nothing. Omitted, too: 35, as pre-votes here do not
protect a leader, so its checker has no promise to judge by. Without a counterpart: repeated requests (39), as every
campaign has its own term; leases (47, 49, 51); membership changes (53, 54); a main loop that can be stuck (58). 16 is
masked while answers are not awaited beyond an election timeout, and where messages are much quicker than elections. Out
of scope: finding the bugs, which is the exam's task.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from typing import Literal

from dethrone.clusters.targets.joyqueue.knobs import Knobs
from dethrone.clusters.targets.joyqueue.rules import LATE, Position, Round, Rules, WriteReason
from dethrone.clusters.targets.joyqueue.storage import Stored
from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Replacement, Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

# --- the vote on disk -------------------------------------------------------------------------------------------


@mutant("01-vote-not-written", says="writes the term but not the vote", caught_by=(by.VOTE, by.LEADER, by.DURABLE))
class VoteNotWritten(Rules):  # NodeDB, etcd 2877, Nacos
    def persisted(self, stored: Stored) -> Stored:
        return Stored(stored.term, None)


@mutant(
    "05-vote-not-synced", says="writes votes over the metadata file, without fsync", caught_by=(by.VOTE, by.DURABLE)
)
class VoteNotSynced(Rules):
    """Seen in jgroups 4c6961f, DLedger. In place: behind a rename, the checksum would reveal the unsynced file."""

    def replaces(self, why: WriteReason) -> Replacement:
        return super().replaces(why) if why == "first" else "in_place"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable metadata file as a node that never voted",
    caught_by=(by.VOTE, by.TERM, by.DURABLE),
)
class UnreadableMeansFresh(Rules):  # DLedger
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        try:
            return super().load(content, node=node)
        except Unreadable:
            return Stored()


@mutant("10-resumes-leadership", says="resumes leading its term after a restart", caught_by=(by.MATCHING,))
class ResumesLeadership(Rules):  # KAFKA-10527
    def resumes_leadership(self, *, node: str, stored: Stored, last_log_term: int) -> bool:
        return stored.term > 0 and stored.voted_for == node and last_log_term == stored.term


@mutant(
    "11-forgets-own-vote",
    says="after a restart votes again in a term in which it voted for itself",
    caught_by=(by.VOTE, by.LEADER),
    advised=LATE,
)
class ForgetsOwnVote(Rules):  # KAFKA-10661
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        stored = super().load(content, node=node)
        return Stored(stored.term, None) if stored.voted_for == node else stored


# --- granting and counting --------------------------------------------------------------------------------------


@mutant(
    "14-last-log-term-is-current",
    says="gives its current term as the term of its last entry",
    caught_by=(by.COMPLETE, by.ACKED),
)
class LastLogTermIsCurrent(Rules):  # DLedger 52
    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:
        return term, right


@mutant(
    "18-pre-votes-are-votes",
    says="starts its campaign with the pre-votes as votes",
    caught_by=(by.MAJORITY, by.LEADER),
    needs={"fix_missing_return": "true", "sync_flag_reset": "true"},
)
class PreVotesAreVotes(Rules):  # canonical 0ed4553; JoyQueue itself (JQ-B2), as far as its send tasks are late
    def resets_flag(self, where: Literal["round", "task"], kind: Round) -> bool:
        return kind == "prevote" and super().resets_flag(where, kind)


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(by.MAJORITY, by.LEADER),
    nodes_min=5,
)
class MajorityOfResponders(Rules):  # Sentinel f4be6f1, JGroups views
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if nodes == 1 or answered == 1:
            return super().majority(kind, granted=granted, nodes=nodes, answered=answered)
        return granted > answered // 2


@mutant(
    "22-half-is-enough",
    says="counts half of an even number as a majority",
    caught_by=(by.LEADER, by.MAJORITY),
    nodes_min=4,
)
class HalfIsEnough(Rules):  # The class of braft 3884640
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        return granted >= (nodes + 1) // 2


@mutant(
    "23-non-members-vote",
    says="asks and counts learners",
    caught_by=(by.MEMBERS, by.LEADER),
    needs={"learners": "*"},
    advised={"learners": "n3"},
    nodes_min=4,
)
class NonMembersVote(Rules):  # hashicorp 477, NATS
    def voters(self, voters: tuple[str, ...], learners: tuple[str, ...]) -> tuple[str, ...]:
        return voters + learners


@mutant(
    "27-refuses-campaigned-term",
    says="refuses the leader of a term in which it campaigned itself",
    caught_by=(by.CONVERGES, by.LIVELOCK),
    advised=LATE,
)
class RefusesCampaignedTerm(Rules):
    def accepts_leader(self, term: int, campaigned_term: int) -> bool:
        return term != campaigned_term


# --- timing -----------------------------------------------------------------------------------------------------


@mutant("33-no-jitter", says="always waits the shortest election timeout", caught_by=(by.LIVELOCK, by.OWED))
class NoJitter(Rules):  # Raft paper, 9.3; etcd 780bbb2
    def election_delay(self, rng: Rng) -> Ns:
        return self.election_delay_min()


@mutant("34-same-seed", says="draws its timeouts from one seed on all nodes", caught_by=(by.LIVELOCK, by.OWED))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_delay(self, rng: Rng) -> Ns:
        return super().election_delay(self._own)


@mutant(
    "37-pre-vote-terms-compared",
    says="drops pre-votes of a lower term and leaves askers of a lower term without an answer",
    caught_by=(by.OWED,),
)
class PreVoteTermsCompared(Rules):  # canonical 279, etcd 8243
    def accepts_answer_of(self, answer_term: int, term: int) -> bool:
        return answer_term >= term

    def answers_lower_term(self) -> bool:
        return False


# --- log and clients --------------------------------------------------------------------------------------------


@mutant("42-follower-commit-unchecked", says="adopts the leader's commit position unchecked", caught_by=(by.COMMIT,))
class FollowerCommitUnchecked(Rules):  # PySyncObj 166
    def follower_commit(self, *, leader_commit: int, matched: int, commit: int) -> int:
        return leader_commit


# --- harmless ---------------------------------------------------------------------------------------------------


@mutant("harmless-longer-jitter", says="draws its timeouts from a wider range")
class LongerJitter(Rules):  # A quarter more spread
    def election_delay(self, rng: Rng) -> Ns:
        knobs = self.knobs
        return knobs.ns(knobs.election_timeout_ms + rng.below(knobs.election_timeout_ms * 5 // 4))


@mutant("harmless-half-heartbeat", says="sends heartbeats twice as often")
class HalfHeartbeat(Rules):  # Twice the heartbeats
    def heartbeat_interval(self) -> Ns:
        return max(1, super().heartbeat_interval() // 2)
