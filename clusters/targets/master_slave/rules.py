"""Every rule of master/slave that a planted bug may override, one small pure method each.

Guarantees: the honest build is exactly this class. Out of scope: what no knob and no variant changes.

Source: docs/sources.md, master-slave.
"""

# ruff: noqa: ARG002 - a broken rule may look at what the honest one ignores

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.master_slave.knobs import MASTER_ID, READ_BALANCED_ID, MsKnobs, Place

SYNC = {"broker_role": "SYNC_MASTER"}
HALF = Fraction(1, 2)


@mutant(
    "harmless-half-heartbeat", says="exchanges heartbeats twice as often", scales={"ha_send_heartbeat_interval": HALF}
)
@mutant("harmless-registers-more", says="registers twice as often", scales={"register_interval": HALF})
@mutant("harmless-flushes-more", says="flushes more often", scales={"flush_interval": Fraction(1, 5)})
class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: MsKnobs) -> None:
        self.knobs = knobs

    # --- roles ----------------------------------------------------------------------------------------------------

    def is_master(self, place: Place) -> bool:
        """BrokerId 0 is the master, any other id a slave: configuration, nothing else."""
        return place.broker_id == MASTER_ID

    def promotes_itself(self, *, master_silent: bool) -> bool:
        """Whether a slave takes over when its master is gone: never."""
        return False

    @mutant(
        "plain-slave-takes-writes",
        answers=True,
        says="a slave stores what clients send it",
        caught_by=(by.MATCHING, by.ACKED),
    )
    def takes_writes(self, *, master: bool) -> bool:
        """The master reads and writes, slaves read only."""
        return master

    def takes_balanced_reads(self, broker_id: int) -> bool:
        """Only brokerId 1."""
        return broker_id == READ_BALANCED_ID

    def load_place(self, load: Callable[[], Place | None], configured: Place) -> Place:
        """What this broker is: the operator's file, else the layout. `Unreadable` stops the node."""
        return load() or configured

    # --- copying --------------------------------------------------------------------------------------------------

    @mutant(
        "12-copies-from-shorter-log",
        answers=True,
        says="a slave throws its log away for a master that holds less",
        caught_by=(by.COMMIT, by.ACKED, by.MATCHING),
    )
    def copies_from(self, *, master_end: int, own_end: int) -> bool:
        """A slave refuses to copy from a log that is shorter than its own."""
        return master_end >= own_end

    def ack_position(self, *, durable: int, written: int) -> int:
        """The position that a slave reports to its master: what was written to its log file."""
        return durable

    def cuts_before_copy(self, *, own_end: int, offset: int) -> int:
        """Where a slave's log is cut before records are appended: nowhere."""
        return own_end

    def slave_available(self, behind_bytes: int) -> bool:
        """A slave further behind does not count for synchronous sends."""
        return behind_bytes <= self.knobs.ha_slave_fallbehind_max

    @mutant(
        "45-acks-after-local-append",
        answers=False,
        says="a synchronous master answers SEND_OK when only it holds the message",
        caught_by=(by.ACKED,),
        needs=SYNC,
    )
    def waits_for_slave(self) -> bool:
        """Whether SEND_OK needs a slave."""
        return self.knobs.broker_role == "SYNC_MASTER"

    @mutant(
        "05-not-synced",
        answers=False,
        says="answers SEND_OK under SYNC_FLUSH without fsync",
        caught_by=(by.ACKED,),
        needs={"flush_disk_type": "SYNC_FLUSH"},
    )
    def waits_for_disk(self) -> bool:
        """Whether SEND_OK needs the disk's barrier."""
        return self.knobs.flush_disk_type == "SYNC_FLUSH"

    # A send without a slave is answered as a success
    @mutant(
        "plain-degraded-is-ok",
        answers="SEND_OK",
        says="a synchronous master without slaves answers SEND_OK",
        caught_by=(by.ACKED,),
        needs=SYNC,
    )
    def without_slave(self) -> str:
        """The result of a synchronous send with no slave there."""
        return "SLAVE_NOT_AVAILABLE"

    # --- disk -----------------------------------------------------------------------------------------------------

    @mutant(
        "04-ignore-failed-write",
        answers="ignore",
        says="continues after a message could not be written, and acknowledges it",
        caught_by=(by.ACKED,),
    )
    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        """A node that could not write stops."""
        return "halt"

    # --- freedoms -------------------------------------------------------------------------------------------------

    @mutant("harmless-small-batches", answers=4, says="copies fewer messages at once")
    def records_max(self) -> int:
        """Records in one transfer."""
        return 64

    @mutant("harmless-never-suggests", answers=0, says="never sends consumers to a slave")
    def suggests(self, *, lag: int, slaves: Collection[int]) -> int:
        """The broker id that a consumer should ask next: the balanced slave once it lags."""
        there = [broker_id for broker_id in sorted(slaves) if self.takes_balanced_reads(broker_id)]
        return there[0] if there and lag > self.knobs.suggest_slave_lag else MASTER_ID
