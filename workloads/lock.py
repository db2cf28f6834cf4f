"""lock: clients contend for locks, change what each lock guards while they hold it, and sometimes too late.

    acquire  value [lock, owner, ttl_ms]   ok: the fencing token      release  value [lock, owner]   ok: the token
    use      value [lock, token]           ok: the token; fail: the guard had accepted a higher one
    append, read                           as in the workload log, so that what needs written data is judged as well

A third of the clients append and read. The others take a lock, use its token some times, and give it back or let it run
out; who let it run out often comes back with the old token, which is what fencing is for. Guarantees: an owner is never
used again after an operation of its own whose outcome is unknown: a late release may not end a later hold of the same
name (a process gets a new number then, which is its owner's name). Out of scope: renewing and looking (the workload
lease).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.combinators import EachProcess, Reserve
from dethrone.workloads.generators import Targets
from dethrone.workloads.keys import Keys
from dethrone.workloads.log import WORKLOAD as LOG
from dethrone.workloads.log import FinalReads

LOCKS = ("l0", "l1")
"""The first ones. Few, so that clients contend."""

LOCK_OPS_MAX = 5000
"""Draws of one lock before another one takes its place."""

TTLS_MS = (300, 600, 1200)

USE_PERCENT = 70
"""Of the operations of a holder; the others give the lock back."""

FORGET_PERCENT = 30
"""Of holders: those that only use, so that their lock runs out."""

LATE_PERCENT = 25
"""Of the operations of a client that holds nothing and whose last lock ran out: those that use the old token, once."""

WRITERS_ONE_IN = 3
"""Of the processes: those that append and read."""


class LockWorkload(Base):
    name = "lock"
    ops = frozenset({"acquire", "release", "use", "append", "read"})
    shows = LOG.shows
    keys_retire = True
    rate = 100
    """A lease is a matter of tenths of a second."""

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Endless."""
        log = LOG.main(rng.stream("log"), nodes=nodes, processes=processes, rate_per_s=rate_per_s)
        targets = Targets(rng.stream("targets"), nodes)
        locks = Keys(LOCKS, most=LOCK_OPS_MAX)
        clients = EachProcess(lambda who: _Client(rng.stream(f"client-{who}"), targets, locks), processes=processes)
        return Reserve([(processes // WRITERS_ONE_IN, log)], clients, processes=processes)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """The lists are read once more, as in the workload log."""
        return FinalReads(rng, nodes=nodes, processes=processes, used=used)


@dataclass(slots=True)
class _Hold:
    """What a client was granted: until when, by its own count from the moment it asked."""

    lock: str
    token: int
    until: Ns
    forgets: bool


class _Client:
    """One client. See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, targets: Targets, locks: Keys) -> None:
        self._rng, self._targets, self._locks = rng, targets, locks
        self._asked: Ns = 0
        self._hold: _Hold | None = None
        self._late: _Hold | None = None
        """What ran out, and whose token was not used since."""

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """Use or give back what is held; else take a lock."""
        target, owner, hold = self._targets.choose(view), f"c{process}", self._hold
        if hold is not None and now >= hold.until:
            self._hold, self._late = None, hold
        elif hold is not None:
            if hold.forgets or self._rng.chance(USE_PERCENT, 100):
                return OpPlan(f="use", value=[hold.lock, hold.token], target=target)
            return OpPlan(f="release", value=[hold.lock, owner], target=target)
        late = self._late
        if late is not None and self._rng.chance(LATE_PERCENT, 100):
            self._late = None
            return OpPlan(f="use", value=[late.lock, late.token], target=target)
        self._asked = now
        value = [self._locks.choose(self._rng), owner, self._rng.choice(TTLS_MS)]
        return OpPlan(f="acquire", value=value, target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Learn who leads, and what is held. What became unknown is not held by any client that is asked again."""
        del process
        self._targets.learn(result)
        if result.status == "info":
            self._hold = None
        elif result.status == "ok" and op.f == "acquire" and isinstance(result.value, int):
            forgets = self._rng.chance(FORGET_PERCENT, 100)
            self._hold = _Hold(op.value[0], result.value, self._asked + op.value[2] * MS, forgets)
        elif result.status == "ok" and op.f == "release":
            self._hold = None


WORKLOAD = LockWorkload()
