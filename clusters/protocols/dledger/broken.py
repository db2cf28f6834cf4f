"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs. Leaves out which knobs and checkers belong to it
(`variants`), and the builds that break a single claim (`flips`).
"""

from __future__ import annotations

from typing import Literal

from clusters.protocols.dledger import messages as m
from clusters.protocols.dledger.rules import Rules
from clusters.protocols.dledger.storage import Replacement, TermState
from clusters.protocols.dledger.tally import Campaign
from clusters.protocols.kit.files import Unreadable
from harness.core.clock import Ns
from harness.core.rng import Rng

# --- the vote on disk -----------------------------------------------------------------------------------------------


class VoteNotWritten(Rules):
    """01."""

    def stored_state(self, state: TermState) -> TermState:  # noqa: D102
        return TermState(state.term, None)


class AnswerBeforePersist(Rules):
    """02."""

    def answers_after_persist(self) -> bool:  # noqa: D102
        return False


class IgnoreFailedVoteWrite(Rules):
    """04: the answer of that moment is lost with the write, the repeated one is not."""

    def on_persist_error(self, file: Literal["term", "log"]) -> Literal["halt", "ignore"]:  # noqa: D102
        return "ignore" if file == "term" else "halt"


class VoteNotSynced(Rules):
    """05."""

    def replaces_term_file(self) -> Replacement:  # noqa: D102
        return "unsynced"


class DeleteThenRename(Rules):
    """06: DLedger itself does it."""

    def replaces_term_file(self) -> Replacement:  # noqa: D102
        return "delete_rename"


class UnreadableMeansFresh(Rules):
    """07: DLedger itself does it."""

    def load_state(self, content: bytes | str | None, *, node: str) -> TermState:  # noqa: D102
        try:
            return super().load_state(content, node=node)
        except Unreadable:
            return TermState()


class WritesTermBefore(Rules):
    """Any restart goes back by one term."""

    def stored_state(self, state: TermState) -> TermState:  # noqa: D102
        return TermState(max(0, state.term - 1), state.voted_for)


# --- elections ------------------------------------------------------------------------------------------------------


class NoLogCheck(Rules):
    """12: neither row."""

    def older_ledger_term(self, asked: int, own: int) -> bool:  # noqa: D102
        del asked, own
        return False

    def shorter_ledger(self, asked: int, own: int) -> bool:  # noqa: D102
        del asked, own
        return False


class LastTermIsCurrent(Rules):
    """14: upstream issue 52. Of two logs the longer one wins, whoever wrote its end."""

    def log_term(self, last: int, current: int) -> int:  # noqa: D102
        del last
        return current


class CountsOtherCampaigns(Rules):
    """16."""

    def of_this_campaign(self, answer: int, campaign: int) -> bool:  # noqa: D102
        del answer, campaign
        return True


class CountsHigherTerm(Rules):
    """17."""

    def is_accept(self, result: str) -> bool:  # noqa: D102
        return result in (m.ACCEPT, m.EXPIRED_VOTE_TERM)


class NotReadyIsAVote(Rules):
    """18: the first contact of a higher term takes the place of a pre-vote here."""

    def is_accept(self, result: str) -> bool:  # noqa: D102
        return result in (m.ACCEPT, m.TERM_NOT_READY)


class MajorityOfResponders(Rules):
    """21."""

    def case_5(self, tally: Campaign) -> bool:  # noqa: D102
        return tally.accepted >= self.quorum(max(1, tally.valid))

    def case_3(self, tally: Campaign) -> bool:  # noqa: D102
        del tally
        return False

    def case_4(self, tally: Campaign) -> bool:  # noqa: D102
        del tally
        return False


class HalfIsEnough(Rules):
    """22."""

    def quorum(self, members: int) -> int:  # noqa: D102
        return (members + 1) // 2


class TermMayFall(Rules):
    """25."""

    def next_term(self, current: int, known_max: int) -> int:  # noqa: D102
        return known_max if 0 <= known_max != current else current + 1


class RefusesCampaignedTerm(Rules):
    """27."""

    def follows_unknown(self, *, campaigned: bool) -> bool:  # noqa: D102
        return not campaigned


class NeverStepsDown(Rules):
    """28."""

    def leader_gives_up(self, silence: Ns) -> bool:  # noqa: D102
        del silence
        return False


class SendingIsContact(Rules):
    """30."""

    def success_at(self, sent: Ns, now: Ns, *, majority: bool) -> Ns | None:  # noqa: D102
        del now, majority
        return sent


class AnyRequestResetsTimers(Rules):
    """31."""

    def renews_on_request(self) -> bool:  # noqa: D102
        return True


class NoJitter(Rules):
    """33."""

    def vote_delay(self, rng: Rng) -> Ns:  # noqa: D102
        del rng
        return self.knobs.min_vote_interval


class SameSeedEverywhere(Rules):
    """34."""

    def seed(self, rng: Rng) -> Rng:  # noqa: D102
        del rng
        return Rng(34)


class RepeatedRequestRefused(Rules):
    """39."""

    def vote_left(self, voted_for: str | None, candidate: str) -> bool:  # noqa: D102
        del candidate
        return voted_for is None


class VotesTwice(Rules):
    """Votes for everybody who asks."""

    def vote_left(self, voted_for: str | None, candidate: str) -> bool:  # noqa: D102
        del voted_for, candidate
        return True


class WantsEveryVote(Rules):
    """Is elected only with the votes of all members."""

    def case_5(self, tally: Campaign) -> bool:  # noqa: D102
        return tally.accepted >= tally.members


# --- the log --------------------------------------------------------------------------------------------------------


class PushesUnwrittenTail(Rules):
    """10: KAFKA-10527. A restarted leader leads its term again, here by design, so its tail must be on disk first."""

    def push_end(self, *, stored: int, in_memory: int) -> int:  # noqa: D102
        del stored
        return in_memory


class CommitsOldTerms(Rules):
    """40: DLedger itself does it."""

    def may_commit(self, entry_term: int, current_term: int) -> bool:  # noqa: D102
        del entry_term, current_term
        return True


class FollowerCommitUnchecked(Rules):
    """42."""

    def follower_commit(self, *, own_end: int, leader_commit: int, committed: int) -> int:  # noqa: D102
        del own_end
        return leader_commit if leader_commit >= 0 else committed


class CutsOnAppend(Rules):
    """44."""

    def cuts_on_append(self) -> bool:  # noqa: D102
        return True


class AcksAfterLocalAppend(Rules):
    """45."""

    def acks_client(self, *, committed: bool) -> bool:  # noqa: D102
        del committed
        return True


class AcksBeforeSync(Rules):
    """46."""

    def syncs(self) -> bool:  # noqa: D102
        return False


class NeverTruncates(Rules):
    """Keeps entries that conflict with its leader's, and says that it stored them."""

    def truncates_to(self, index: int, end: int) -> int:  # noqa: D102
        del index
        return end

    def entries_equal(self, one: m.Entry, other: m.Entry) -> bool:  # noqa: D102
        return one.index == other.index


# --- harmless -------------------------------------------------------------------------------------------------------


class LongerJitter(Rules):
    """A wider range of delays."""

    def vote_delay(self, rng: Rng) -> Ns:  # noqa: D102
        return super().vote_delay(rng) + rng.below(self.knobs.max_vote_interval)


class HalfHeartbeat(Rules):
    """Heartbeats twice as often."""

    def heartbeat_interval(self) -> Ns:  # noqa: D102
        return self.knobs.heart_beat_interval // 2


class EagerCommit(Rules):
    """Tells followers of a commit at once."""

    def notices_commit_eagerly(self) -> bool:  # noqa: D102
        return True


class SoonerResend(Rules):
    """Pushes unanswered entries again sooner."""

    def resend_after(self) -> Ns:  # noqa: D102
        return self.knobs.max_push_time_out // 4


class MoreNotes(Rules):
    """Writes every heartbeat to the trace."""

    def notes_every_beat(self) -> bool:  # noqa: D102
        return True
