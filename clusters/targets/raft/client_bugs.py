"""Planted bugs that leave the election intact and show only in what clients see, and the harmless builds.

Guarantees: as `planted_bugs`; these bugs have no number.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from typing import Literal

from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

# --- what clients see: not of the table -------------------------------------------------------------------------


@mutant(
    "clients-read-unconfirmed",
    says="serves reads without asking a majority whether it still leads",
    seen_by=("linearizable", "set"),
    needs={"reads": "readindex"},
)
class ReadsUnconfirmed(Rules):
    """Serves by read-index without the round that shows that it still leads. The class of Consul's default reads."""

    def confirms_reads(self) -> bool:
        return False


@mutant(
    "clients-swap-compared-early",
    says="compares what a cas expects before its write is ordered",
    seen_by=("linearizable",),
)
class SwapComparedEarly(Rules):  # Check, then act: another write may be ordered between the two
    def decides_early(self, kind: Literal["cas", "txn"]) -> bool:
        return kind == "cas"


@mutant(
    "clients-transaction-reads-early",
    says="reads for a transaction before its appends are ordered",
    seen_by=("list-append",),
)
class TransactionReadsEarly(Rules):
    """Reads of a transaction are of before its appends are ordered: write skew, lost updates."""

    def decides_early(self, kind: Literal["cas", "txn"]) -> bool:
        return kind == "txn"


@mutant(
    "clients-proposed-again",
    says="as a new leader appends again what it does not know to be committed",
    seen_by=("linearizable", "set", "list-append"),
)
class ProposedAgain(Rules):  # A retry without sessions (thesis 6.3): the same command may be carried out twice
    def proposes_again(self) -> bool:
        return True


@mutant(
    "clients-clock-decides", says="gives a lock away by its own clock, as it applies the question", seen_by=("lock",)
)
class ClockDecides(Rules):
    """Nodes that apply one entry at different moments, or again after a restart, come to different holders."""

    def clock_decides(self) -> bool:
        return True


@mutant("clients-any-token-passes", says="accepts fencing tokens of holders that were superseded", seen_by=("lock",))
class AnyTokenPasses(Rules):  # A lease without fencing: Kleppmann, 2016; HBase's leases
    def accepts_token(self, token: int, highest: int) -> bool:
        return True


# --- harmless ---------------------------------------------------------------------------------------------------


@mutant("harmless-longer-jitter", says="draws its timeouts from a wider range")
class LongerJitter(Rules):  # A quarter more spread
    def deadline(self, rng: Rng) -> Ns:
        longest = self.knobs.election_timeout_max
        return rng.between(self.knobs.election_timeout_min, longest + longest // 4)


@mutant("harmless-half-heartbeat", says="sends heartbeats twice as often")
class HalfHeartbeat(Rules):  # Twice the heartbeats
    def heartbeat_interval(self) -> Ns:
        return max(1, self.knobs.heartbeat_interval // 2)


@mutant("harmless-more-pre-votes", says="repeats its pre-vote requests more often")
class MorePreVotes(Rules):  # Three times the requests to voters that have not answered
    def pre_vote_repeat_interval(self) -> Ns:
        return max(1, self.knobs.heartbeat_interval // 3)


@mutant("harmless-silent-sticky", says="drops vote requests that it ignores instead of answering them")
class SilentSticky(Rules):  # An ignored vote request gets no answer
    def answers_sticky(self) -> bool:
        return False


@mutant("harmless-eager-commit", says="notifies followers of a commit at once")
class EagerCommitNotice(Rules):  # Followers learn of a commit at once
    def notices_commit_eagerly(self) -> bool:
        return True
