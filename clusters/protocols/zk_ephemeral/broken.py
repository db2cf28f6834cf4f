"""The overridden rules of the deliberately broken builds, one class a mistake, and of the harmless ones.

Promises: each class overrides the one rule that its variant is named for. Leaves out names and who must find them
(`variants`).
"""

# ruff: noqa: ARG002, D102 - each method is documented in `rules`; a mistake is to ignore what one is given

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from clusters.protocols.kit.files import Unreadable
from clusters.protocols.zk_ephemeral.knobs import ZkKnobs
from clusters.protocols.zk_ephemeral.messages import STATE_PATH
from clusters.protocols.zk_ephemeral.rules import Rules
from clusters.protocols.zk_ephemeral.tree import TREE, Change, Stored, Tree
from harness.core.clock import Ns


class StateNotWritten(Rules):
    """01."""

    def stores(self, change: Change) -> bool:
        return not (isinstance(change, Stored) and change.path == STATE_PATH)


class AnswerBeforePersist(Rules):
    """02."""

    def answers_after_persist(self) -> bool:
        return False


class IgnoreFailedWrite(Rules):
    """04: what could not be written is left out, and what comes later is appended all the same."""

    def appends_at(self, end: int) -> int | None:
        return None

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        return "ignore" if file == TREE else "halt"


class TreeNotSynced(Rules):
    """05."""

    def syncs(self, file: str) -> bool:
        return file != TREE


class UnreadableMeansFresh(Rules):
    """07."""

    def load_tree(self, load: Callable[[], tuple[Tree, int, bool]]) -> tuple[Tree, int, bool]:
        try:
            return load()
        except Unreadable:
            return Tree(), 0, True


class ResumesLeadership(Rules):
    """10."""

    def resumes_leadership(self, *, node: str, leader: str | None) -> bool:
        return node == leader


class ContendsOutsideIsr(Rules):
    """12."""

    def may_contend(self, node: str, isr: Collection[str] | None, *, unclean: bool) -> bool:
        return True

    def may_lead(self, node: str, isr: Collection[str]) -> bool:
        return True


class EpochMayFall(Rules):
    """25: obeys any controller and any epoch; the guard against it is one rule in two places."""

    def accepts_epoch(self, known: int, seen: int) -> bool:
        return True

    def next_term(self, own: int, seen: int) -> int:
        return seen

    def accepts_controller(self, known: int, seen: int) -> bool:
        return True


class NeverStepsDown(Rules):
    """28."""

    def gives_up(self, why: Literal["expired", "disconnected", "other"]) -> bool:
        return False


class FollowerHwUnchecked(Rules):
    """42."""

    def follower_hw(self, *, hw: int, leader_hw: int, log_end: int) -> int:
        return leader_hw


class TruncatesAlways(Rules):
    """44."""

    def truncates_to(self, *, hw: int, log_end: int, new_leader: bool) -> int:
        return max(0, min(hw, log_end) - 1)


class AcksAfterLocalAppend(Rules):
    """45."""

    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        return at == "appended"


class AcksBeforeSync(Rules):
    """46."""

    def fetch_position(self, *, durable: int, written: int) -> int:
        return written


class NeverWatchesAgain(Rules):
    """ZK-B9."""

    def rewatches(self) -> bool:
        return False


class TwoCreators(Rules):
    """Two owners of one node."""

    def may_create(self, *, exists: bool, path: str) -> bool:
        return True

    def version_matches(self, given: int, present: int) -> bool:
        return True


class NoCompareAndSet(Rules):
    """Any version matches."""

    def version_matches(self, given: int, present: int) -> bool:
        return True


class EpochNotRaised(Rules):
    """The stored epoch again."""

    def next_epoch(self, stored: int) -> int:
        return max(1, stored)


class SmallerIsrCountsAtOnce(Rules):
    """A follower that lags stops counting before the service knows."""

    def isr_counts_at(self, when: Literal["decided", "published"]) -> bool:
        return when == "decided"


class LongerWait(Rules):
    """Harmless."""

    def fetch_wait(self) -> Ns:
        return self.knobs.fetch_wait_max * 3 // 2


class HalfPing(Rules):
    """Harmless."""

    def ping_interval(self) -> Ns:
        return self.knobs.session_timeout // 6


class SmallBatches(Rules):
    """Harmless."""

    def records_max(self) -> int:
        return 4


class FrequentCheckpoints(Rules):
    """Harmless."""

    def checkpoint_interval(self) -> Ns:
        return max(1, self.knobs.hw_checkpoint_interval // 10)


class EarlyDoubt(Rules):
    """Harmless: knows itself disconnected a little earlier than it must."""

    def disconnect_after(self) -> Ns:
        return self.knobs.session_timeout * 5 // 8


# --- flips of claims ----------------------------------------------------------------------------------------------


class FollowersServe(Rules):
    """1-10, 1-11."""

    def serves_clients(self, *, leads: bool, reading: bool) -> bool:
        return leads or reading


class LeaderNodePersists(Rules):
    """1-12."""

    def creates_ephemeral(self) -> bool:
        return False


class IgnoresDeletion(Rules):
    """1-13."""

    def reacts_to_deletion(self) -> bool:
        return False


class EveryCreatorWins(Rules):
    """1-14."""

    def may_create(self, *, exists: bool, path: str) -> bool:
        return True


def build(rules: type[Rules]) -> Callable[[ZkKnobs], Rules]:
    """The class as a builder."""
    return rules
