"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

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
from dethrone.clusters.targets.dledger.rules import ATOMIC, Rules
from dethrone.clusters.targets.dledger.storage import TermState
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

# --- the vote on disk -----------------------------------------------------------------------------------------------


@mutant(
    "01-vote-not-written",
    says="writes the term but not the vote",
    caught_by=(by.VOTE, by.LEADER, by.DURABLE),
    needs=ATOMIC,
)
class VoteNotWritten(Rules):
    def stored_state(self, state: TermState) -> TermState:
        return TermState(state.term, None)


@mutant(
    "04-ignore-failed-vote-write",
    says="ignores that the vote could not be written",
    caught_by=(by.VOTE, by.DURABLE),
    needs=ATOMIC,
)
class IgnoreFailedVoteWrite(Rules):  # The answer of that moment is lost with the write, the repeated one is not
    def on_persist_error(self, file: Literal["term", "log"]) -> Literal["halt", "ignore"]:
        return "ignore" if file == "term" else "halt"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable term file as a node that never voted",
    caught_by=(by.VOTE, by.TERM, by.DURABLE),
    needs=ATOMIC,
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
    caught_by=(by.TERM, by.DURABLE),
    needs=ATOMIC,
)
class WritesTermBefore(Rules):  # Any restart goes back by one term
    def stored_state(self, state: TermState) -> TermState:
        return TermState(max(0, state.term - 1), state.voted_for)


# --- elections ------------------------------------------------------------------------------------------------------


@mutant("12-grant-without-log-check", says="votes for candidates with an older log", caught_by=(by.COMPLETE, by.ACKED))
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
    caught_by=(by.COMPLETE, by.ACKED),
)
class LastTermIsCurrent(Rules):  # Upstream issue 52. Of two logs the longer one wins, regardless of its last term
    def log_term(self, last: int, current: int) -> int:
        del last
        return current


@mutant(
    "17-counts-higher-term",
    says="counts refusals that carry a higher term as votes",
    caught_by=(by.LEADER, by.MAJORITY),
)
class CountsHigherTerm(Rules):
    def is_accept(self, result: str) -> bool:
        return result in (m.ACCEPT, m.EXPIRED_VOTE_TERM)


@mutant(
    "18-not-ready-is-a-vote",
    says="counts those who must raise their term first as voters",
    caught_by=(by.MAJORITY, by.LEADER),
)
class NotReadyIsAVote(Rules):  # The first contact of a higher term takes the place of a pre-vote here
    def is_accept(self, result: str) -> bool:
        return result in (m.ACCEPT, m.TERM_NOT_READY)


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(by.MAJORITY, by.LEADER),
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
    "22-half-is-enough",
    says="counts half of an even number as a majority",
    caught_by=(by.LEADER, by.MAJORITY),
    nodes_min=4,
)
class HalfIsEnough(Rules):
    def quorum(self, members: int) -> int:
        return (members + 1) // 2


@mutant("25-term-may-fall", says="adopts the largest term that it saw, even a lower one", caught_by=(by.TERM,))
class TermMayFall(Rules):
    def next_term(self, current: int, known_max: int) -> int:
        return known_max if 0 <= known_max != current else current + 1


@mutant(
    "27-refuses-campaigned-term",
    says="refuses the leader of a term in which it campaigned itself",
    caught_by=(by.CONVERGES, by.OWED, by.LIVELOCK),
    advised={"leader_checks_max_term_first": "true"},
)
class RefusesCampaignedTerm(Rules):
    def follows_unknown(self, *, campaigned: bool) -> bool:
        return not campaigned


@mutant(
    "30-sending-is-contact",
    says="counts its own sending as a majority's success",
    caught_by=(by.STEP_DOWN,),
)
class SendingIsContact(Rules):
    def success_at(self, sent: Ns, now: Ns, *, majority: bool) -> Ns | None:
        del now, majority
        return sent


@mutant("33-no-jitter", says="always waits the shortest time between campaigns", caught_by=(by.LIVELOCK, by.OWED))
class NoJitter(Rules):
    def vote_delay(self, rng: Rng) -> Ns:
        del rng
        return self.knobs.min_vote_interval


@mutant("34-same-seed", says="draws its delays from one seed on all nodes", caught_by=(by.LIVELOCK, by.OWED))
class SameSeedEverywhere(Rules):
    def seed(self, rng: Rng) -> Rng:
        del rng
        return Rng(34)


@mutant(
    "39-repeated-request-refused",
    says="refuses the repeated request of the candidate that it voted for",
    caught_by=(by.LIVELOCK,),
)
class RepeatedRequestRefused(Rules):
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        del candidate
        return voted_for is None


@mutant("plain-votes-twice", says="votes for every candidate", caught_by=(by.VOTE, by.LEADER))
class VotesTwice(Rules):
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        del voted_for, candidate
        return True


@mutant("plain-wants-every-vote", says="is elected only with the votes of all members", caught_by=(by.OWED,))
class WantsEveryVote(Rules):
    def case_5(self, tally: Campaign) -> bool:
        return tally.accepted >= tally.members


# --- the log --------------------------------------------------------------------------------------------------------


@mutant(
    "10-pushes-unwritten-tail",
    says="pushes entries that its own disk does not have yet, and may lead the same term again without them",
    caught_by=(by.MATCHING,),
)
class PushesUnwrittenTail(Rules):
    """KAFKA-10527. A restarted leader leads its term again, here by design, so its tail must be on disk first."""

    def push_end(self, *, stored: int, in_memory: int) -> int:
        del stored
        return in_memory


@mutant("42-follower-commit-unchecked", says="adopts the leader's committed index unchecked", caught_by=(by.COMMIT,))
class FollowerCommitUnchecked(Rules):
    def follower_commit(self, *, own_end: int, leader_commit: int, committed: int) -> int:
        del own_end
        return leader_commit if leader_commit >= 0 else committed


@mutant(
    "plain-never-truncates", says="keeps entries that conflict with its leader's", caught_by=(by.MATCHING, by.ACKED)
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


@mutant("harmless-sooner-resend", says="pushes unanswered entries again sooner")
class SoonerResend(Rules):
    def resend_after(self) -> Ns:
        return self.knobs.max_push_time_out // 4
