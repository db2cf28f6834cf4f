"""The overridden rules of the deliberately broken builds, one class a mistake, of the harmless ones, and of the flips.

Promises: each class overrides the one rule that its variant is named for. Leaves out names and who must find them.
"""

# ruff: noqa: ARG002, D102 - each method is documented in `rules`; a mistake is to ignore what one is given

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from clusters.protocols.master_slave.knobs import Place
from clusters.protocols.master_slave.rules import Rules
from harness.core.clock import Ns


class IgnoreFailedWrite(Rules):
    """04."""

    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        return "ignore"


class NotSynced(Rules):
    """05."""

    def waits_for_disk(self) -> bool:
        return False


class CopiesFromShorterLog(Rules):
    """12."""

    def copies_from(self, *, master_end: int, own_end: int) -> bool:
        return True


class CutsBeforeCopy(Rules):
    """44."""

    def cuts_before_copy(self, *, own_end: int, offset: int) -> int:
        return min(own_end, offset)


class AcksAfterLocalAppend(Rules):
    """45."""

    def waits_for_slave(self) -> bool:
        return False


class AcksBeforeWrite(Rules):
    """46."""

    def ack_position(self, *, durable: int, written: int) -> int:
        return written


class DegradedIsOk(Rules):
    """A send without a slave is told to be fine."""

    def without_slave(self) -> str:
        return "SEND_OK"


class SlaveTakesWrites(Rules):
    """Slaves store what clients send them."""

    def takes_writes(self, *, master: bool) -> bool:
        return True


class PromotesItself(Rules):
    """A slave becomes a master by itself."""

    def promotes_itself(self, *, master_silent: bool) -> bool:
        return master_silent


class HalfHeartbeat(Rules):
    """Harmless."""

    def heartbeat_interval(self) -> Ns:
        return max(1, self.knobs.ha_send_heartbeat_interval // 2)


class RegistersMore(Rules):
    """Harmless."""

    def register_interval(self) -> Ns:
        return max(1, self.knobs.register_interval // 2)


class SmallBatches(Rules):
    """Harmless."""

    def records_max(self) -> int:
        return 4


class FlushesMore(Rules):
    """Harmless."""

    def flush_interval(self) -> Ns:
        return max(1, self.knobs.flush_interval // 5)


class NeverSuggests(Rules):
    """Harmless: consumers stay at the master."""

    def suggests(self, *, lag: int, slaves: Collection[int]) -> int:
        return 0


class RoleByName(Rules):
    """1-7: the id does not matter."""

    def is_master(self, place: Place) -> bool:
        return place.broker_id <= 1


class EverySlaveBalanced(Rules):
    """1-6."""

    def takes_balanced_reads(self, broker_id: int) -> bool:
        return broker_id > 0
