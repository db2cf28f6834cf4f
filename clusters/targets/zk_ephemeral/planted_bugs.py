"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs): where Raft has a
vote file, this protocol has the coordination service's tree, which decides who leads. Each inherits the promise of its
profile. Not applicable here: votes, campaigns, pre-votes, terms and quorums of brokers (06, 11, 14, 16-18, 21-23, 27,
31-40, 47, 49, 53, 54), and 56, 58: a new leader's log is its state, and a hung broker with a live session keeps the
lead by design. 30 and 52 break only what no profile promises (a leader without contact to the service steps down for a
lost majority, ZK-B5; healthy brokers keep their sessions, ZK-B7).
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.zk_ephemeral.messages import STATE_PATH
from dethrone.clusters.targets.zk_ephemeral.rules import SAFE, Rules
from dethrone.clusters.targets.zk_ephemeral.tree import TREE, Change, Stored, Tree
from dethrone.harness.core.clock import Ns


@mutant(
    "01-state-not-written",
    says="the service keeps the partition state, and with it the epoch, in memory only",
    caught_by=(by.TERM, by.LEADER, by.DURABLE),
)
class StateNotWritten(Rules):
    def stores(self, change: Change) -> bool:
        return not (isinstance(change, Stored) and change.path == STATE_PATH)


@mutant(
    "04-ignore-failed-write",
    says="the service continues after a change could not be written",
    caught_by=(by.LEADER, by.TERM, by.DURABLE),
)
class IgnoreFailedWrite(Rules):  # A change that could not be written is skipped; later ones are appended all the same
    def appends_at(self, end: int) -> int | None:
        return None

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        return "ignore" if file == TREE else "halt"


@mutant(
    "05-tree-not-synced", says="the service writes its tree without fsync", caught_by=(by.LEADER, by.TERM, by.DURABLE)
)
class TreeNotSynced(Rules):
    def syncs(self, file: str) -> bool:
        return file != TREE


@mutant(
    "07-unreadable-means-fresh",
    says="the service treats an unreadable tree as an empty one",
    caught_by=(by.LEADER, by.TERM, by.DURABLE),
)
class UnreadableMeansFresh(Rules):
    def load_tree(self, load: Callable[[], tuple[Tree, int, bool]]) -> tuple[Tree, int, bool]:
        try:
            return load()
        except Unreadable:
            return Tree(), 0, True


@mutant(
    "10-resumes-leadership",
    says="a restarted broker resumes leading because the stored state names it",
    caught_by=(by.LEADER, by.MATCHING),
    needs={"mode": "race"},
)
class ResumesLeadership(Rules):
    def resumes_leadership(self, *, node: str, leader: str | None) -> bool:
        return node == leader


@mutant(
    "12-contends-outside-isr",
    says="a replica outside the ISR contends and may be chosen",
    caught_by=(by.COMPLETE, by.ACKED),
    advised=SAFE,
)
class ContendsOutsideIsr(Rules):
    def may_contend(self, node: str, isr: Collection[str] | None, *, unclean: bool) -> bool:
        return True

    def may_lead(self, node: str, isr: Collection[str]) -> bool:
        return True


@mutant(
    "25-epoch-may-fall",
    says="obeys commands and leaders of lower epochs",
    caught_by=(by.TERM, by.LEADER),
    needs={"mode": "controller"},
)
class EpochMayFall(Rules):  # Obeys any controller and any epoch; the guard against it is one rule in two places
    def accepts_epoch(self, known: int, seen: int) -> bool:
        return True

    def next_term(self, own: int, seen: int) -> int:
        return seen

    def accepts_controller(self, known: int, seen: int) -> bool:
        return True


@mutant(
    "42-follower-hw-unchecked",
    says="a follower adopts the leader's high watermark unchecked",
    caught_by=(by.COMMIT,),
    advised={"mode": "controller", "acks": "all"},
)
class FollowerHwUnchecked(Rules):
    def follower_hw(self, *, hw: int, leader_hw: int, log_end: int) -> int:
        return leader_hw


@mutant(
    "44-truncates-always",
    says="a follower cuts below its high watermark whenever it begins to follow",
    caught_by=(by.COMMIT, by.ACKED),
)
class TruncatesAlways(Rules):
    def truncates_to(self, *, hw: int, log_end: int, new_leader: bool) -> int:
        return max(0, min(hw, log_end) - 1)


@mutant(
    "45-acks-after-local-append",
    says="confirms acks=all writes that only the leader holds",
    caught_by=(by.ACKED,),
    needs={"acks": "all"},
    advised=SAFE,
)
class AcksAfterLocalAppend(Rules):
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        return at == "appended"


@mutant(
    "46-acks-before-sync",
    says="a follower acknowledges records that a power loss can undo",
    caught_by=(by.ACKED,),
    advised=SAFE,
)
class AcksBeforeSync(Rules):
    def fetch_position(self, *, durable: int, written: int) -> int:
        return written


@mutant(
    "plain-two-creators",
    says="the service lets every creator win, and any node overwrite the state",
    caught_by=(by.LEADER,),
)
class TwoCreators(Rules):  # Two owners of one node
    def may_create(self, *, exists: bool, path: str) -> bool:
        return True

    def version_matches(self, given: int, present: int) -> bool:
        return True


@mutant(
    "plain-epoch-not-raised",
    says="a new leader takes the stored epoch as it is",
    caught_by=(by.LEADER,),
    needs={"mode": "race"},
)
class EpochNotRaised(Rules):  # The stored epoch again
    def next_epoch(self, stored: int) -> int:
        return max(1, stored)


@mutant(
    "plain-isr-before-publish",
    says="commits without a lagging follower before the service knows that it left the ISR",
    caught_by=(by.ACKED, by.COMPLETE),
    advised={"acks": "all", "truncate": "epoch"},
)
class SmallerIsrCountsAtOnce(Rules):  # A follower that lags stops counting before the service knows
    def isr_counts_at(self, when: Literal["decided", "published"]) -> bool:
        return when == "decided"


@mutant("harmless-half-ping", says="pings the service twice as often")
class HalfPing(Rules):  # Harmless
    def ping_interval(self) -> Ns:
        return self.knobs.session_timeout // 6


@mutant("harmless-early-doubt", says="knows itself disconnected a little earlier")
class EarlyDoubt(Rules):  # Harmless: knows itself disconnected a little earlier than it must
    def disconnect_after(self) -> Ns:
        return self.knobs.session_timeout * 5 // 8
