"""The planted bugs, and the harmless builds, which must raise no alarm: each class overrides the rule that it breaks.

Guarantees: each build is named by its number (docs/sources.md, planted-bugs; ``plain``: no number, but shown by
nearly any schedule), and inherits the promise of its profile. Omitted, as DLedger has nothing to break there: 11 (a
restarted node campaigns at once in its stored term, and so repeats its own vote before it can hear of another
candidate), 23, 53, 54 (members never change), 35 to 37 (no pre-vote), 47 to 51 (no leases), 52 (its clock is the wall
clock by design), 56 (reads are not linearizable), 58 (heartbeats do not wait for the disk by design).
"""

# ruff: noqa: D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from typing import Literal

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.rules import Rules
from dethrone.clusters.targets.dledger.storage import Replacement, TermState
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

_VOTE, _LEADER, _TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
_MAJORITY, _OWED, _LIVELOCK = "leader-has-majority", "leader-when-owed", "no-livelock"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_DURABLE = "vote-is-durable"
_ATOMIC = {"persist_mode": "atomic"}
_PLAIN = {"noop_on_elect": "false"}
"""A blank entry at each election ends every log with the current term, and commits what came before."""
_AT_ONCE = {**_PLAIN, "push_retry_ms": "20"}
"""Besides: a new leader's first comparison, which comes before its first heartbeat and is refused, is soon repeated."""
_IMPATIENT = {"vote_wait_ms": "100"}
"""A campaign ends sooner than a slow link or disk answers; with 2 s it takes a voter that is away for so long."""


# --- the vote on disk -----------------------------------------------------------------------------------------------


@mutant(
    "01-vote-not-written", says="writes the term but not the vote", caught_by=(_VOTE, _LEADER, _DURABLE), needs=_ATOMIC
)
class VoteNotWritten(Rules):
    def stored_state(self, state: TermState) -> TermState:
        return TermState(state.term, None)


@mutant(
    "02-answer-before-persist",
    says="answers a vote request before the vote is on disk",
    caught_by=(_VOTE, _DURABLE),
    needs=_ATOMIC,
)
class AnswerBeforePersist(Rules):
    def answers_after_persist(self) -> bool:
        return False


@mutant(
    "04-ignore-failed-vote-write",
    says="ignores that the vote could not be written",
    caught_by=(_VOTE, _DURABLE),
    needs=_ATOMIC,
)
class IgnoreFailedVoteWrite(Rules):  # The answer of that moment is lost with the write, the repeated one is not
    def on_persist_error(self, file: Literal["term", "log"]) -> Literal["halt", "ignore"]:
        return "ignore" if file == "term" else "halt"


@mutant(
    "05-vote-not-synced",
    says="writes the term file in place, without fsync",
    caught_by=(_VOTE, _DURABLE),
    needs=_ATOMIC,
)
class VoteNotSynced(Rules):
    def replaces_term_file(self) -> Replacement:
        return "unsynced"


@mutant(
    "06-delete-then-rename",
    says="deletes the term file before the new one takes its place",
    caught_by=(_VOTE, _TERM, _DURABLE),
    needs=_ATOMIC,
)
class DeleteThenRename(Rules):  # DLedger itself does it
    def replaces_term_file(self) -> Replacement:
        return "delete_rename"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable term file as a node that never voted",
    caught_by=(_VOTE, _TERM, _DURABLE),
    needs=_ATOMIC,
)
class UnreadableMeansFresh(Rules):  # DLedger itself does it
    def load_state(self, content: bytes | str | None, *, node: str) -> TermState:
        try:
            return super().load_state(content, node=node)
        except Unreadable:
            return TermState()


@mutant(
    "plain-writes-term-before",
    says="stores each term one too low, so that any restart goes back",
    caught_by=(_TERM, _DURABLE),
    needs=_ATOMIC,
)
class WritesTermBefore(Rules):  # Any restart goes back by one term
    def stored_state(self, state: TermState) -> TermState:
        return TermState(max(0, state.term - 1), state.voted_for)


# --- elections ------------------------------------------------------------------------------------------------------


@mutant("12-grant-without-log-check", says="votes for candidates with an older log", caught_by=(_COMPLETE, _ACKED))
class NoLogCheck(Rules):  # Neither row
    def older_ledger_term(self, asked: int, own: int) -> bool:
        del asked, own
        return False

    def shorter_ledger(self, asked: int, own: int) -> bool:
        del asked, own
        return False


@mutant(
    "14-last-log-term-is-current",
    says="compares logs with its current term as its last entry's",
    caught_by=(_COMPLETE, _ACKED),
)
class LastTermIsCurrent(Rules):  # Upstream issue 52. Of two logs the longer one wins, regardless of its last term
    def log_term(self, last: int, current: int) -> int:
        del last
        return current


@mutant(
    "16-counts-other-campaigns",
    says="counts answers to earlier campaigns",
    caught_by=(_LEADER, _MAJORITY),
    advised=_IMPATIENT,
)
class CountsOtherCampaigns(Rules):
    def of_this_campaign(self, answer: int, campaign: int) -> bool:
        del answer, campaign
        return True


@mutant(
    "17-counts-higher-term", says="counts refusals that carry a higher term as votes", caught_by=(_LEADER, _MAJORITY)
)
class CountsHigherTerm(Rules):
    def is_accept(self, result: str) -> bool:
        return result in (m.ACCEPT, m.EXPIRED_VOTE_TERM)


@mutant(
    "18-not-ready-is-a-vote",
    says="counts those who must raise their term first as voters",
    caught_by=(_MAJORITY, _LEADER),
)
class NotReadyIsAVote(Rules):  # The first contact of a higher term takes the place of a pre-vote here
    def is_accept(self, result: str) -> bool:
        return result in (m.ACCEPT, m.TERM_NOT_READY)


@mutant(
    "21-majority-of-responders", says="is elected by a majority of those who answered", caught_by=(_MAJORITY, _LEADER)
)
class MajorityOfResponders(Rules):
    def case_5(self, tally: Campaign) -> bool:
        return tally.accepted >= self.quorum(max(1, tally.valid))

    def case_3(self, tally: Campaign) -> bool:
        del tally
        return False

    def case_4(self, tally: Campaign) -> bool:
        del tally
        return False


@mutant(
    "22-half-is-enough", says="counts half of an even number as a majority", caught_by=(_LEADER, _MAJORITY), nodes_min=4
)
class HalfIsEnough(Rules):
    def quorum(self, members: int) -> int:
        return (members + 1) // 2


@mutant("25-term-may-fall", says="adopts the largest term that it saw, even a lower one", caught_by=(_TERM,))
class TermMayFall(Rules):
    def next_term(self, current: int, known_max: int) -> int:
        return known_max if 0 <= known_max != current else current + 1


@mutant(
    "27-refuses-campaigned-term",
    says="refuses the leader of a term in which it campaigned itself",
    caught_by=("convergence-after-heal", _OWED, _LIVELOCK),
    advised={"leader_checks_max_term_first": "true"},
)
class RefusesCampaignedTerm(Rules):
    def follows_unknown(self, *, campaigned: bool) -> bool:
        return not campaigned


@mutant("28-never-steps-down", says="keeps leading without a quorum", caught_by=("step-down-without-quorum",))
class NeverStepsDown(Rules):
    def leader_gives_up(self, silence: Ns) -> bool:
        del silence
        return False


@mutant(
    "30-sending-is-contact",
    says="counts its own sending as a majority's success",
    caught_by=("step-down-without-quorum",),
)
class SendingIsContact(Rules):
    def success_at(self, sent: Ns, now: Ns, *, majority: bool) -> Ns | None:
        del now, majority
        return sent


@mutant(
    "31-any-request-resets-timers",
    says="restarts its timers after every vote request, granted or not",
    caught_by=(_OWED, _LIVELOCK),
)
class AnyRequestResetsTimers(Rules):
    def renews_on_request(self) -> bool:
        return True


@mutant("33-no-jitter", says="always waits the shortest time between campaigns", caught_by=(_LIVELOCK, _OWED))
class NoJitter(Rules):
    def vote_delay(self, rng: Rng) -> Ns:
        del rng
        return self.knobs.min_vote_interval


@mutant("34-same-seed", says="draws its delays from one seed on all nodes", caught_by=(_LIVELOCK, _OWED))
class SameSeedEverywhere(Rules):
    def seed(self, rng: Rng) -> Rng:
        del rng
        return Rng(34)


@mutant(
    "39-repeated-request-refused",
    says="refuses the repeated request of the candidate that it voted for",
    caught_by=(_LIVELOCK,),
)
class RepeatedRequestRefused(Rules):
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        del candidate
        return voted_for is None


@mutant("plain-votes-twice", says="votes for every candidate", caught_by=(_VOTE, _LEADER))
class VotesTwice(Rules):
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        del voted_for, candidate
        return True


@mutant("plain-wants-every-vote", says="is elected only with the votes of all members", caught_by=(_OWED,))
class WantsEveryVote(Rules):
    def case_5(self, tally: Campaign) -> bool:
        return tally.accepted >= tally.members


# --- the log --------------------------------------------------------------------------------------------------------


@mutant(
    "10-pushes-unwritten-tail",
    says="pushes entries that its own disk does not have yet, and may lead the same term again without them",
    caught_by=("log-matching",),
)
class PushesUnwrittenTail(Rules):
    """KAFKA-10527. A restarted leader leads its term again, here by design, so its tail must be on disk first."""

    def push_end(self, *, stored: int, in_memory: int) -> int:
        del stored
        return in_memory


@mutant(
    "40-commits-old-terms",
    says="commits entries of earlier terms by counting copies",
    caught_by=(_COMMIT, _ACKED),
    advised=_AT_ONCE,
)
class CommitsOldTerms(Rules):  # DLedger itself does it
    def may_commit(self, entry_term: int, current_term: int) -> bool:
        del entry_term, current_term
        return True


@mutant("42-follower-commit-unchecked", says="adopts the leader's committed index unchecked", caught_by=(_COMMIT,))
class FollowerCommitUnchecked(Rules):
    def follower_commit(self, *, own_end: int, leader_commit: int, committed: int) -> int:
        del own_end
        return leader_commit if leader_commit >= 0 else committed


@mutant(
    "44-cuts-on-append", says="cuts its log at every repeated push of an entry that it has", caught_by=(_COMMIT, _ACKED)
)
class CutsOnAppend(Rules):
    def cuts_on_append(self) -> bool:
        return True


@mutant("45-acks-after-local-append", says="acknowledges a write that only the leader holds", caught_by=(_ACKED,))
class AcksAfterLocalAppend(Rules):
    def acks_client(self, *, committed: bool) -> bool:
        del committed
        return True


@mutant("46-acks-before-sync", says="acknowledges entries that a power loss can undo", caught_by=(_ACKED,))
class AcksBeforeSync(Rules):
    def syncs(self) -> bool:
        return False


@mutant(
    "plain-never-truncates", says="keeps entries that conflict with its leader's", caught_by=("log-matching", _ACKED)
)
class NeverTruncates(Rules):  # Keeps entries that conflict with its leader's, and reports that it stored them
    def truncates_to(self, index: int, end: int) -> int:
        del index
        return end

    def entries_equal(self, one: m.Entry, other: m.Entry) -> bool:
        return one.index == other.index


# --- harmless -------------------------------------------------------------------------------------------------------


@mutant("harmless-longer-jitter", says="draws its delays from a wider range")
class LongerJitter(Rules):  # A wider range of delays
    def vote_delay(self, rng: Rng) -> Ns:
        return super().vote_delay(rng) + rng.below(self.knobs.max_vote_interval)


@mutant("harmless-half-heartbeat", says="sends heartbeats twice as often")
class HalfHeartbeat(Rules):  # Heartbeats twice as often
    def heartbeat_interval(self) -> Ns:
        return self.knobs.heart_beat_interval // 2


@mutant("harmless-eager-commit", says="notifies followers of a commit at once")
class EagerCommit(Rules):
    def notices_commit_eagerly(self) -> bool:
        return True


@mutant("harmless-sooner-resend", says="pushes unanswered entries again sooner")
class SoonerResend(Rules):
    def resend_after(self) -> Ns:
        return self.knobs.max_push_time_out // 4


@mutant("harmless-more-notes", says="writes every heartbeat to the trace")
class MoreNotes(Rules):
    def notes_every_beat(self) -> bool:
        return True
