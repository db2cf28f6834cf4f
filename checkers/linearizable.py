"""linearizable: registers that clients write, read and compare-and-set behave as if each operation took effect at once.

Operations of the workload ``register``: ``put`` [key, v], ``get`` key → v, ``cas`` [key, old, new] → whether it was
set. Judged, a register at a time: some order of the operations, true to real time, explains every answer; a cas that
got ``false`` found another value at some moment of it; what failed did not happen; what was never answered may
have happened, then or later, or not at all. A register that was never written holds None.

Where reads may be old (the promise names no linearizable reads), writes and cas are judged in the same way without the
reads, and of a read only that a client may have written what it shows, before it returned.

Guarantees: exact; what takes more memory than its limits ends in ``unknown`` with how far it came. Operations are
judged as they come, and not kept (``linear_pieces``), unless reads may be old. Left
out: reads of lists (``acknowledged-survives``) and transactions (``list-append``).

Source: Herlihy, Wing, "Linearizability", 1990; the engines name theirs (``dethrone.checkers.linearizability``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from dethrone.checkers.linear_models import KV
from dethrone.checkers.seen import Anomaly, Seen, SeenChecker, concerning, of_key, told
from dethrone.harness.core.operations import ModelOptions, Operation, Operations, identity, stream_of
from dethrone.harness.core.promise import Promise

if TYPE_CHECKING:
    from dethrone.harness.core.history import History

MEMORY_BYTES_MAX = 64_000_000
"""What one search may keep. A bound on memory and not on time: the same history gives the same verdict anywhere."""
WAITING_BYTES_MAX = 512_000_000
"""What operations may take that wait to be judged."""


class Linearizable(SeenChecker):
    name = "linearizable"
    rests_on = ("acknowledged-survives",)
    about = "put, get, cas: one order, true to real time, explains what every client saw"

    def __init__(self, *, search_bytes_max: int = MEMORY_BYTES_MAX, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._search_bytes_max = search_bytes_max
        self._waiting_bytes_max = waiting_bytes_max

    def within(self, memory_bytes_max: int) -> Linearizable:
        """The same with this limit on what it searches, and on what waits."""
        return Linearizable(search_bytes_max=memory_bytes_max, waiting_bytes_max=memory_bytes_max)

    def functions(self) -> frozenset[str]:
        """Put, get and cas."""
        return frozenset({"put", "get", "cas"})

    def options(self, promise: Promise) -> ModelOptions:
        """A cas that got false is an answer."""
        return msgspec.structs.replace(
            super().options(promise), strict_cas=True, memory_bytes_max=self._search_bytes_max
        )

    def keyed(self, op: Operation) -> Operation:
        """The register apart; of a put the value is left, of a cas [old, new]. Malformed ones keep their value."""
        match op.f, op.value:
            case "get", str(key):
                return concerning(op, key, None)
            case "put", [str(key), value]:
                return concerning(op, key, value)
            case "cas", [str(key), old, new]:
                return concerning(op, key, [old, new])
            case _:
                return op

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """What the engines find in the operations that had, or may have had, an effect."""
        return self._seen(operations.rows, options)

    def see_run(self, history: History, options: ModelOptions) -> Seen:
        """The same, of operations that come one by one."""
        doubts: list[str] = []
        seen = self._seen(map(self.keyed, stream_of(history, self.functions(), doubts)), options)
        return msgspec.structs.replace(seen, doubts=[*doubts, *seen.doubts])

    def _seen(self, operations: Iterable[Operation], options: ModelOptions) -> Seen:
        doubts: list[str] = []
        tally: Counter[str] = Counter()
        rows = _counted(_effective(operations, doubts), tally)
        phantoms: list[Anomaly] = []
        if options.stale_reads:
            every = list(rows)
            rows = (op for op in every if op.f != "get")
            phantoms = list(_phantoms([op for op in every if op.f != "get"], [op for op in every if op.f == "get"]))
        seen = KV.found_in(rows, options, waiting_bytes_max=self._waiting_bytes_max)
        return msgspec.structs.replace(
            seen,
            anomalies=[*seen.anomalies, *phantoms],
            judged=min(tally["get ok"], tally["answered"]),
            nothing="no write and read of a register were answered",
            evidence={
                **seen.evidence,
                "reads": tally["get ok"],
                "writes_answered": tally["put ok"],
                "swaps": tally["cas ok"],
                "swaps_refused": tally["cas fail"],
                "unknown": tally["info"],
                "fresh_reads_judged": not options.stale_reads,
            },
            doubts=[*doubts, *seen.doubts],
        )


def _counted(rows: Iterable[Operation], tally: Counter[str]) -> Iterator[Operation]:
    """The same; the tally counts them by what they do and how they ended."""
    for op in rows:
        tally[f"{op.f} {op.status}"] += 1
        tally["info"] += op.status == "info"
        tally["answered"] += op.status != "info" and op.f != "get"
        yield op


def _effective(rows: Iterable[Operation], doubts: list[str]) -> Iterator[Operation]:
    """Without what certainly did not happen; a cas that got false is one that the register refused."""
    for op in rows:
        if op.status == "fail" or (op.f == "get" and op.status == "info"):
            continue
        if op.key is None:
            doubts.append(f"{op.f} of {told(op.value)} (event {op.invoked}) names no register, so it cannot be judged")
        elif op.f != "cas" or op.status == "info" or op.result is True:
            yield op
        elif op.result is False:
            yield msgspec.structs.replace(op, status="fail")
        else:
            doubts.append(f"a cas (event {op.invoked}) answered neither true nor false, so it cannot be judged")


def _phantoms(writes: Iterable[Operation], reads: Iterable[Operation]) -> Iterator[Anomaly]:
    """Reads of what no client can have written by then."""
    since: dict[object, int] = {}
    for op in writes:
        if op.status != "fail":
            value = op.value[1] if op.f == "cas" else op.value
            since.setdefault((identity(op.key), identity(value)), op.invoked)
    for op in reads:
        if op.result is not None and since.get((identity(op.key), identity(op.result)), op.returned) >= op.returned:
            yield Anomaly(
                kind="phantom",
                sentence=f"phantom: a read{of_key(op.key)} shows {told(op.result)}, which no client can have written"
                " before it returned.",
                proof=(op,),
                data={"key": told(op.key)},
            )


CHECKER = Linearizable()
