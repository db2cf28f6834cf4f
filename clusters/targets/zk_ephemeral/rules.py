"""Every rule of the ephemeral-node election that a planted bug may override, one small pure method each.

Guarantees: the honest build is exactly this class; a variant overrides the rule that it is named for, and nothing else
decides what the rule decides. Out of scope: what no knob and no variant changes.

Source: docs/sources.md, zk-ephemeral.
"""

# ruff: noqa: ARG002 - a broken rule may look at what the honest one ignores

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import Switched, mutant
from dethrone.clusters.targets.zk_ephemeral.knobs import ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.tree import Change, Tree
from dethrone.harness.core.clock import Ns

SAFE = {"acks": "all", "min_insync_replicas": "2", "truncate": "epoch"}


@mutant("harmless-longer-wait", says="keeps empty fetches waiting longer", scales={"fetch_wait_max": Fraction(3, 2)})
@mutant(
    "harmless-frequent-checkpoints",
    says="writes the high watermark down more often",
    scales={"hw_checkpoint_interval": Fraction(1, 10)},
)
class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: ZkKnobs) -> None:
        self.knobs = knobs

    # --- the service ----------------------------------------------------------------------------------------------

    def load_tree(self, load: Callable[[], tuple[Tree, int, bool]]) -> tuple[Tree, int, bool]:
        """The tree to start from; `Unreadable` stops the service."""
        return load()

    def may_create(self, *, exists: bool, path: str) -> bool:
        """Exactly one of concurrent creators succeeds."""
        return not exists

    # Any version matches
    @mutant(
        "plain-no-compare-and-set",
        answers=True,
        says="the service ignores versions",
        caught_by=(by.LEADER, by.COMPLETE, by.ACKED),
        advised=SAFE,
    )
    def version_matches(self, given: int, present: int) -> bool:
        """Compare-and-set; -1 matches any version."""
        return given in (-1, present)

    def stores(self, change: Change) -> bool:
        """Which changes go to disk: all."""
        return True

    # --- disks, of service and brokers ----------------------------------------------------------------------------

    def syncs(self, file: str) -> bool:
        """Whether writes of this file are made durable."""
        return True

    def appends_at(self, end: int) -> int | None:
        """Where the service writes its next records: where the last ones that it wrote end."""
        return end

    answers_after_persist = Switched(
        "02-answer-before-persist",
        says="the service answers before the change is on disk",
        caught_by=(by.LEADER, by.TERM, by.DURABLE),
    )
    """Whether what shows a change of the tree waits for its write."""

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        """A node that could not write stops."""
        return "halt"

    # --- sessions -------------------------------------------------------------------------------------------------

    def ping_interval(self) -> Ns:
        """A third of the timeout."""
        return self.knobs.session_timeout // 3

    def disconnect_after(self) -> Ns:
        """Silence of the service after which a client knows itself disconnected: two thirds of the timeout."""
        return self.knobs.session_timeout * 2 // 3

    # ZK-B9
    @mutant(
        "zk-b9-never-watches-again", answers=False, says="does not set a fired watch again", caught_by=(by.CONVERGES,)
    )
    def rewatches(self) -> bool:
        """Whether a fired watch is set again."""
        return self.knobs.rewatch

    # --- the race -------------------------------------------------------------------------------------------------

    def may_contend(self, node: str, isr: Collection[str] | None, *, unclean: bool) -> bool:
        """Members of the last published ISR try; at the very first start all; ``unclean``: no ISR member lives
        and the knob allows it.
        """
        return not isr or node in isr or unclean

    def may_lead(self, node: str, isr: Collection[str]) -> bool:
        """Whom a controller may choose: members of the ISR."""
        return node in isr

    reacts_to_deletion = True
    """A follower that learns of the deletion tries to take the lead."""

    creates_ephemeral = True
    """The leader's node vanishes with its session."""

    def next_epoch(self, stored: int) -> int:
        """One more than the stored one."""
        return stored + 1

    @mutant(
        "28-never-steps-down",
        answers=False,
        says="keeps leading when it lost its session, or contact",
        caught_by=(by.CONVERGES,),
    )
    def gives_up(self, why: Literal["expired", "disconnected", "other"]) -> bool:
        """What ends a leadership: an expired session, another owner; a lost connection only where the knob says so."""
        return self.knobs.step_down_on_disconnect if why == "disconnected" else True

    def resumes_leadership(self, *, node: str, leader: str | None) -> bool:
        """Whether a restarted broker resumes leading because the stored state names it: never."""
        return False

    # --- epochs ---------------------------------------------------------------------------------------------------

    def accepts_epoch(self, known: int, seen: int) -> bool:
        """An older leader epoch is refused, with fencing."""
        return seen >= known or not self.knobs.fencing

    def accepts_controller(self, known: int, seen: int) -> bool:
        """A stale controller's commands are refused, with fencing."""
        return seen >= known or not self.knobs.fencing

    def next_term(self, own: int, seen: int) -> int:
        """The own epoch after the leader's answer that carried ``seen``."""
        return max(own, seen)

    # --- replication ----------------------------------------------------------------------------------------------

    def serves_clients(self, *, leads: bool, reading: bool) -> bool:
        """The leader takes all reads and writes; followers serve no client."""
        return leads

    def fetch_position(self, *, durable: int, written: int) -> int:
        """A follower asks for (and so acknowledges) what follows its durable log."""
        return durable

    def follower_hw(self, *, hw: int, leader_hw: int, log_end: int) -> int:
        """Never beyond the own log, never back."""
        return max(hw, min(leader_hw, log_end))

    def truncates_to(self, *, hw: int, log_end: int, new_leader: bool) -> int:
        """Where a follower cuts its log when it begins to follow: after its HW, unless epochs give a better place."""
        return min(hw, log_end) if new_leader and self.knobs.truncate == "hw" else log_end

    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        """When a write is confirmed: acks=1 after the local append, acks=all when the high watermark reached it."""
        return at == ("appended" if self.knobs.acks == "1" else "committed")

    def enough_replicas(self, isr: int) -> bool:
        """acks=all refuses writes below min.insync.replicas."""
        return self.knobs.acks == "1" or isr >= self.knobs.min_insync_replicas

    def isr_counts_at(self, when: Literal["decided", "published"]) -> bool:
        """When a smaller ISR begins to count for the high watermark: once the service holds it."""
        return when == ("published" if self.knobs.isr_in_force == "published" else "decided")

    # --- freedoms: any choice here is right -----------------------------------------------------------------------

    @mutant("harmless-small-batches", answers=4, says="sends fewer records at once")
    def records_max(self) -> int:
        """Records in one fetch reply."""
        return 64
