"""The planted bugs, and the harmless builds, which must raise no alarm: each class overrides the rule that it breaks.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs). Nothing votes,
campaigns or commits by quorum here, so most numbers have no counterpart. 07 has none as the only file besides the
messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the base loses
acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.master_slave.rules import Rules
from dethrone.harness.core.clock import Ns

_ACKED, _MATCH, _COMMIT = "acknowledged-survives", "log-matching", "commit-never-regresses"
_SYNC = {"broker_role": "SYNC_MASTER"}


@mutant(
    "04-ignore-failed-write",
    says="continues after a message could not be written, and acknowledges it",
    caught_by=(_ACKED,),
)
class IgnoreFailedWrite(Rules):
    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        return "ignore"


@mutant(
    "05-not-synced",
    says="answers SEND_OK under SYNC_FLUSH without fsync",
    caught_by=(_ACKED,),
    needs={"flush_disk_type": "SYNC_FLUSH"},
)
class NotSynced(Rules):
    def waits_for_disk(self) -> bool:
        return False


@mutant(
    "12-copies-from-shorter-log",
    says="a slave throws its log away for a master that holds less",
    caught_by=(_COMMIT, _ACKED, _MATCH),
)
class CopiesFromShorterLog(Rules):
    def copies_from(self, *, master_end: int, own_end: int) -> bool:
        return True


@mutant(
    "44-cuts-before-copy",
    says="a slave cuts its log at every transfer, repeated or not",
    caught_by=(_COMMIT, _ACKED, _MATCH),
)
class CutsBeforeCopy(Rules):
    def cuts_before_copy(self, *, own_end: int, offset: int) -> int:
        return min(own_end, offset)


@mutant(
    "45-acks-after-local-append",
    says="a synchronous master answers SEND_OK when only it holds the message",
    caught_by=(_ACKED,),
    needs=_SYNC,
)
class AcksAfterLocalAppend(Rules):
    def waits_for_slave(self) -> bool:
        return False


@mutant(
    "46-acks-before-write",
    says="a slave acknowledges messages that it has not written",
    caught_by=(_ACKED,),
    needs=_SYNC,
)
class AcksBeforeWrite(Rules):
    def ack_position(self, *, durable: int, written: int) -> int:
        return written


@mutant(
    "plain-degraded-is-ok", says="a synchronous master without slaves answers SEND_OK", caught_by=(_ACKED,), needs=_SYNC
)
class DegradedIsOk(Rules):  # A send without a slave is answered as a success
    def without_slave(self) -> str:
        return "SEND_OK"


@mutant("plain-slave-takes-writes", says="a slave stores what clients send it", caught_by=(_MATCH, _ACKED))
class SlaveTakesWrites(Rules):  # Slaves store what clients send them
    def takes_writes(self, *, master: bool) -> bool:
        return True


@mutant("plain-promotes-itself", says="a slave becomes a master by itself", caught_by=(_MATCH, _ACKED))
class PromotesItself(Rules):
    def promotes_itself(self, *, master_silent: bool) -> bool:
        return master_silent


@mutant("harmless-half-heartbeat", says="exchanges heartbeats twice as often")
class HalfHeartbeat(Rules):  # Harmless
    def heartbeat_interval(self) -> Ns:
        return max(1, self.knobs.ha_send_heartbeat_interval // 2)


@mutant("harmless-registers-more", says="registers twice as often")
class RegistersMore(Rules):  # Harmless
    def register_interval(self) -> Ns:
        return max(1, self.knobs.register_interval // 2)


@mutant("harmless-small-batches", says="copies fewer messages at once")
class SmallBatches(Rules):  # Harmless
    def records_max(self) -> int:
        return 4


@mutant("harmless-flushes-more", says="flushes more often")
class FlushesMore(Rules):  # Harmless
    def flush_interval(self) -> Ns:
        return max(1, self.knobs.flush_interval // 5)


@mutant("harmless-never-suggests", says="never sends consumers to a slave")
class NeverSuggests(Rules):  # Harmless: consumers stay at the master
    def suggests(self, *, lag: int, slaves: Collection[int]) -> int:
        return 0
