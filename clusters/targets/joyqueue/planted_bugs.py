"""The planted bugs, and the harmless builds, which must raise no alarm: each class overrides the rule that it breaks.

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
from dethrone.clusters.targets.joyqueue.rules import ClockName, Position, Round, Rules, WriteReason
from dethrone.clusters.targets.joyqueue.storage import Stored
from dethrone.clusters.targets.kit.files import Replacement, Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_DURABLE = "vote-is-durable"
_LATE = {"fix_missing_return": "true", "sync_flag_reset": "true", "task_delay_max_ms": "4000"}
"""The mended build with late send tasks: safe, and campaigns of one term overlap often."""


# --- the vote on disk -------------------------------------------------------------------------------------------


@mutant("01-vote-not-written", says="writes the term but not the vote", caught_by=(_VOTE, _LEADER, _DURABLE))
class VoteNotWritten(Rules):  # NodeDB, etcd 2877, Nacos
    def persisted(self, stored: Stored) -> Stored:
        return Stored(stored.term, None)


@mutant(
    "02-answer-before-persist",
    says="answers a vote request before the vote is on disk",
    caught_by=(_VOTE, _DURABLE),
    advised=_LATE,
)
class AnswerBeforePersist(Rules):  # redis 533d0e0
    def waits_for_disk(self, why: WriteReason) -> bool:
        return False


@mutant(
    "04-ignore-failed-vote-write", says="ignores that its metadata could not be written", caught_by=(_VOTE, _DURABLE)
)
class IgnoreFailedVoteWrite(Rules):  # jraft 1241, DLedger, JoyQueue itself (JQ-B6)
    def on_persist_error(self) -> Literal["refuse", "swallow"]:
        return "swallow"


@mutant("05-vote-not-synced", says="writes votes over the metadata file, without fsync", caught_by=(_VOTE, _DURABLE))
class VoteNotSynced(Rules):
    """Seen in jgroups 4c6961f, DLedger. In place: behind a rename, the checksum would reveal the unsynced file."""

    def replaces(self, why: WriteReason) -> Replacement:
        return super().replaces(why) if why == "first" else "in_place"


@mutant(
    "06-delete-then-rename",
    says="deletes the metadata file before the new one takes its place",
    caught_by=(_VOTE, _TERM, _DURABLE),
)
class DeleteThenRename(Rules):  # DLedger; ZK-4269
    def replaces(self, why: WriteReason) -> Replacement:
        return "delete_rename"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable metadata file as a node that never voted",
    caught_by=(_VOTE, _TERM, _DURABLE),
)
class UnreadableMeansFresh(Rules):  # DLedger
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        try:
            return super().load(content, node=node)
        except Unreadable:
            return Stored()


@mutant("10-resumes-leadership", says="resumes leading its term after a restart", caught_by=("log-matching",))
class ResumesLeadership(Rules):  # KAFKA-10527
    def resumes_leadership(self, *, node: str, stored: Stored, last_log_term: int) -> bool:
        return stored.term > 0 and stored.voted_for == node and last_log_term == stored.term


@mutant(
    "11-forgets-own-vote",
    says="after a restart votes again in a term in which it voted for itself",
    caught_by=(_VOTE, _LEADER),
    advised=_LATE,
)
class ForgetsOwnVote(Rules):  # KAFKA-10661
    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        stored = super().load(content, node=node)
        return Stored(stored.term, None) if stored.voted_for == node else stored


# --- granting and counting --------------------------------------------------------------------------------------


@mutant("12-grant-without-log-check", says="votes for candidates with an older log", caught_by=(_COMPLETE, _ACKED))
class NoLogCheck(Rules):  # Nacos 785. In pre-votes and votes, or the honest one of the two would mask it
    def log_up_to_date(self, candidate: Position, own: Position) -> bool:
        return True


@mutant(
    "14-last-log-term-is-current",
    says="gives its current term as the term of its last entry",
    caught_by=(_COMPLETE, _ACKED),
)
class LastLogTermIsCurrent(Rules):  # DLedger 52
    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:
        return term, right


@mutant(
    "16-counts-older-term",
    says="counts answers to requests of an earlier term",
    caught_by=(_LEADER, _MAJORITY),
    advised={"send_command_timeout_ms": "30000", "time_factor": "0.01"},
)
class CountsOlderTerm(Rules):  # Xraft 33
    def keeps_answer(self, *, asked_in: int, term: int) -> bool:
        return True


@mutant(
    "18-pre-votes-are-votes",
    says="starts its campaign with the pre-votes as votes",
    caught_by=(_MAJORITY, _LEADER),
    needs={"fix_missing_return": "true", "sync_flag_reset": "true"},
)
class PreVotesAreVotes(Rules):  # canonical 0ed4553; JoyQueue itself (JQ-B2), as far as its send tasks are late
    def resets_flag(self, where: Literal["round", "task"], kind: Round) -> bool:
        return kind == "prevote" and super().resets_flag(where, kind)


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(_MAJORITY, _LEADER),
    nodes_min=5,
)
class MajorityOfResponders(Rules):  # Sentinel f4be6f1, JGroups views
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        if nodes == 1 or answered == 1:
            return super().majority(kind, granted=granted, nodes=nodes, answered=answered)
        return granted > answered // 2


@mutant(
    "22-half-is-enough", says="counts half of an even number as a majority", caught_by=(_LEADER, _MAJORITY), nodes_min=4
)
class HalfIsEnough(Rules):  # The class of braft 3884640
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        return granted >= (nodes + 1) // 2


@mutant(
    "23-non-members-vote",
    says="asks and counts learners",
    caught_by=("members-only", _LEADER),
    needs={"learners": "*"},
    advised={"learners": "n3"},
    nodes_min=4,
)
class NonMembersVote(Rules):  # hashicorp 477, NATS
    def voters(self, voters: tuple[str, ...], learners: tuple[str, ...]) -> tuple[str, ...]:
        return voters + learners


@mutant("25-term-may-fall", says="adopts a lower term from an old append", caught_by=(_TERM,))
class TermMayFall(Rules):  # NATS 25561f4, WRaft 4
    def refuses_append(self, req_term: int, term: int) -> bool:
        return False


@mutant(
    "27-refuses-campaigned-term",
    says="refuses the leader of a term in which it campaigned itself",
    caught_by=("convergence-after-heal", _LIVELOCK),
    advised=_LATE,
)
class RefusesCampaignedTerm(Rules):
    def accepts_leader(self, term: int, campaigned_term: int) -> bool:
        return term != campaigned_term


# --- timing -----------------------------------------------------------------------------------------------------


@mutant(
    "31-any-request-resets-timer",
    says="restarts its election timer after every vote request, granted or not",
    caught_by=(_OWED, _LIVELOCK),
)
class AnyRequestResetsTimer(Rules):  # NATS 5fe8be8, tikv 8223
    def resets_timer(self, event: Literal["asked"]) -> bool:
        return True


@mutant("33-no-jitter", says="always waits the shortest election timeout", caught_by=(_LIVELOCK, _OWED))
class NoJitter(Rules):  # Raft paper, 9.3; etcd 780bbb2
    def election_delay(self, rng: Rng) -> Ns:
        return self.election_delay_min()


@mutant("34-same-seed", says="draws its timeouts from one seed on all nodes", caught_by=(_LIVELOCK, _OWED))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def election_delay(self, rng: Rng) -> Ns:
        return super().election_delay(self._own)


@mutant(
    "37-pre-vote-terms-compared",
    says="drops pre-votes of a lower term and leaves askers of a lower term without an answer",
    caught_by=(_OWED,),
)
class PreVoteTermsCompared(Rules):  # canonical 279, etcd 8243
    def accepts_answer_of(self, answer_term: int, term: int) -> bool:
        return answer_term >= term

    def answers_lower_term(self) -> bool:
        return False


@mutant("52-election-on-wall-clock", says="measures its election timer on the wall clock", caught_by=(_OWED,))
class ElectionOnWallClock(Rules):  # DLedger
    def election_clock(self) -> ClockName:
        return "wall"


# --- log and clients --------------------------------------------------------------------------------------------


@mutant(
    "40-commits-old-terms",
    says="commits entries of earlier terms by counting replicas",
    caught_by=(_COMMIT, _ACKED),
    needs={"commit_current_term_only": "true"},
    advised={"max_entries_per_append": "1"},
)
class CommitsOldTerms(Rules):  # PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8
    def may_commit(self, entry_term: int, term: int) -> bool:
        return True


@mutant("42-follower-commit-unchecked", says="adopts the leader's commit position unchecked", caught_by=(_COMMIT,))
class FollowerCommitUnchecked(Rules):  # PySyncObj 166
    def follower_commit(self, *, leader_commit: int, matched: int, commit: int) -> int:
        return leader_commit


@mutant("44-truncates-always", says="cuts its log at every append, conflict or not", caught_by=(_COMMIT, _ACKED))
class TruncatesAlways(Rules):  # RaftOS 26, NATS f871570
    def truncates(self, own_term: int, new_term: int) -> bool:
        return True


@mutant("45-acks-after-local-append", says="acknowledges a write that only the leader holds", caught_by=(_ACKED,))
class AcksAfterLocalAppend(Rules):  # Nacos, Redis
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        return True


@mutant("46-acks-before-sync", says="acknowledges entries that a power loss can undo", caught_by=(_ACKED,))
class AcksBeforeSync(Rules):  # NATS 2.12, ZK-3911
    def syncs_log(self) -> bool:
        return False


@mutant(
    "56-reads-before-own-term",
    says="serves reads from what it applied, before an entry of its term is committed",
    caught_by=(_ACKED, "linearizable"),
    needs={"reads": "log"},
)
class ReadsBeforeOwnTerm(Rules):  # KAFKA-17333
    def reads_through_log(self) -> bool:
        return False


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


@mutant("harmless-eager-commit", says="notifies followers of a commit at once")
class EagerCommitNotice(Rules):  # Followers learn of a commit at once
    def notices_commit_eagerly(self) -> bool:
        return True


@mutant("harmless-small-batches", says="sends one entry a request")
class SmallBatches(Rules):  # One entry per request
    def entries_per_append(self) -> int:
        return 1


@mutant("harmless-more-notes", says="notes every heartbeat that it hears")
class MoreNotes(Rules):  # A line per heartbeat
    def notes_heartbeats(self) -> bool:
        return True
