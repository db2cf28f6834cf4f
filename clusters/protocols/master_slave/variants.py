"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Promises: numbers and sense are those of the project's table of planted bugs, as far as there is something to break:
nothing votes, campaigns or commits by quorum here, so most of that table has no counterpart. 07 has none as the only
file besides the messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the
base loses acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.protocols.kit.mutants import Mutant, bug
from clusters.protocols.master_slave import broken

_ACKED, _MATCH, _COMMIT = "acknowledged-survives", "log-matching", "commit-never-regresses"
_SYNC = {"broker_role": "SYNC_MASTER"}

VARIANTS: Mapping[str, Mutant] = {
    "04-ignore-failed-write": bug(
        "goes on after a message could not be written, and tells that it was", broken.IgnoreFailedWrite, _ACKED
    ),
    "05-not-synced": bug(
        "tells SEND_OK of SYNC_FLUSH without fsync", broken.NotSynced, _ACKED, needs={"flush_disk_type": "SYNC_FLUSH"}
    ),
    "12-copies-from-shorter-log": bug(
        "a slave throws its log away for a master that holds less", broken.CopiesFromShorterLog, _COMMIT, _ACKED, _MATCH
    ),
    "44-cuts-before-copy": bug(
        "a slave cuts its log at every transfer, repeated or not", broken.CutsBeforeCopy, _COMMIT, _ACKED, _MATCH
    ),
    "45-acks-after-local-append": bug(
        "a synchronous master tells SEND_OK when only it itself holds the message",
        broken.AcksAfterLocalAppend,
        _ACKED,
        needs=_SYNC,
    ),
    "46-acks-before-write": bug(
        "a slave tells its master of messages that it has not written", broken.AcksBeforeWrite, _ACKED, needs=_SYNC
    ),
    "plain-degraded-is-ok": bug(
        "a synchronous master without slaves tells SEND_OK", broken.DegradedIsOk, _ACKED, needs=_SYNC
    ),
    "plain-slave-takes-writes": bug("a slave stores what clients send it", broken.SlaveTakesWrites, _MATCH, _ACKED),
    "plain-promotes-itself": bug("a slave becomes a master by itself", broken.PromotesItself, _MATCH, _ACKED),
    "harmless-half-heartbeat": bug("exchanges heartbeats twice as often", broken.HalfHeartbeat),
    "harmless-registers-more": bug("registers twice as often", broken.RegistersMore),
    "harmless-small-batches": bug("copies fewer messages at once", broken.SmallBatches),
    "harmless-flushes-more": bug("flushes more often", broken.FlushesMore),
    "harmless-never-suggests": bug("never sends consumers to a slave", broken.NeverSuggests),
    "flip-0-1": bug("claim 0-1 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-3": bug("claim 1-3 turned: a slave replaces its dead master", broken.PromotesItself),
    "flip-1-4": bug("claim 1-4 turned: the group is written without its master", broken.SlaveTakesWrites),
    "flip-1-2": bug("claim 1-2 turned: a synchronous master does not wait", broken.AcksAfterLocalAppend),
    "flip-1-5": bug("claim 1-5 turned: a slave takes writes", broken.SlaveTakesWrites),
    "flip-1-6": bug("claim 1-6 turned: any slave takes balanced reads", broken.EverySlaveBalanced),
    "flip-1-7": bug("claim 1-7 turned: brokerId 1 is a master, too", broken.RoleByName),
}
