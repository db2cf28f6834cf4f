"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Promises: numbers and sense are those of the project's table of planted bugs, as far as there is something to break:
nothing votes, campaigns or commits by quorum here, so most of that table has no counterpart. 07 has none as the only
file besides the messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the
base loses acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clusters.protocols.master_slave import broken
from clusters.protocols.master_slave.knobs import KNOBS, MsKnobs
from clusters.protocols.master_slave.rules import Rules


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One build that differs from the honest one."""

    says: str
    rules: Callable[[MsKnobs], Rules]
    caught_by: tuple[str, ...] = ()
    """Checkers of which any one counts; none: the build is harmless, or a claim's flip."""
    needs: Mapping[str, str] = {}
    """Knobs without which the mistake cannot show; refused otherwise."""
    advised: Mapping[str, str] = {}
    nodes_min: int = 3

    def unmet(self, knobs: MsKnobs) -> str:
        """The first needed knob that is not so set; empty when all are."""
        return KNOBS.unmet(knobs, self.needs)


def _bug(says: str, rules: Callable[[MsKnobs], Rules], *caught_by: str, **more: Any) -> Variant:
    return Variant(says=says, rules=rules, caught_by=caught_by, **more)


_ACKED, _MATCH, _COMMIT = "acknowledged-survives", "log-matching", "commit-never-regresses"
_SYNC = {"broker_role": "SYNC_MASTER"}

VARIANTS: Mapping[str, Variant] = {
    "04-ignore-failed-write": _bug(
        "goes on after a message could not be written, and tells that it was", broken.IgnoreFailedWrite, _ACKED
    ),
    "05-not-synced": _bug(
        "tells SEND_OK of SYNC_FLUSH without fsync", broken.NotSynced, _ACKED, needs={"flush_disk_type": "SYNC_FLUSH"}
    ),
    "12-copies-from-shorter-log": _bug(
        "a slave throws its log away for a master that holds less", broken.CopiesFromShorterLog, _COMMIT, _ACKED, _MATCH
    ),
    "44-cuts-before-copy": _bug(
        "a slave cuts its log at every transfer, repeated or not", broken.CutsBeforeCopy, _COMMIT, _ACKED, _MATCH
    ),
    "45-acks-after-local-append": _bug(
        "a synchronous master tells SEND_OK when only it itself holds the message",
        broken.AcksAfterLocalAppend,
        _ACKED,
        needs=_SYNC,
    ),
    "46-acks-before-write": _bug(
        "a slave tells its master of messages that it has not written", broken.AcksBeforeWrite, _ACKED, needs=_SYNC
    ),
    "plain-degraded-is-ok": _bug(
        "a synchronous master without slaves tells SEND_OK", broken.DegradedIsOk, _ACKED, needs=_SYNC
    ),
    "plain-slave-takes-writes": _bug("a slave stores what clients send it", broken.SlaveTakesWrites, _MATCH, _ACKED),
    "plain-promotes-itself": _bug("a slave becomes a master by itself", broken.PromotesItself, _MATCH, _ACKED),
    "harmless-half-heartbeat": _bug("exchanges heartbeats twice as often", broken.HalfHeartbeat),
    "harmless-registers-more": _bug("registers twice as often", broken.RegistersMore),
    "harmless-small-batches": _bug("copies fewer messages at once", broken.SmallBatches),
    "harmless-flushes-more": _bug("flushes more often", broken.FlushesMore),
    "harmless-never-suggests": _bug("never sends consumers to a slave", broken.NeverSuggests),
    "flip-0-1": _bug("claim 0-1 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-3": _bug("claim 1-3 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-4": _bug("claim 1-4 turned: the group is written without its master", broken.SlaveTakesWrites),
    "flip-1-2": _bug("claim 1-2 turned: a synchronous master does not wait", broken.AcksAfterLocalAppend),
    "flip-1-5": _bug("claim 1-5 turned: a slave takes writes", broken.SlaveTakesWrites),
    "flip-1-6": _bug("claim 1-6 turned: any slave takes balanced reads", broken.EverySlaveBalanced),
    "flip-1-7": _bug("claim 1-7 turned: brokerId 1 is a master, too", broken.RoleByName),
}
