"""lease: clients take locks that run out, keep them, give them back, and look who holds them; others write and read.

    acquire  value [lock, owner, ttl_ms]   ok: the fencing token       renew  the same, while held
    release  value [lock, owner]           ok: the token given back    holder  value lock   ok: [owner, token] or None
    append, read                           as in the workload log, so that what needs written data is judged as well

Half of the clients take locks, renew them now and then, and give them back, or let them run out; between that they
append. The others only look: who holds a lock, what a list holds. They never wait for a commit, so that some client
still asks a leader that was cut off just now. Guarantees: an owner is never used again after an operation of its own
whose outcome is unknown: a late release may not end a later hold of the same name (a process gets a new number then,
which is its owner's name). Out of scope: guarding anything with the locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.generators import Targets
from dethrone.workloads.keys import Keys
from dethrone.workloads.log import KEYS, FinalReads
from dethrone.workloads.log import WORKLOAD as LOG

LOCKS = ("l0", "l1")
"""The first ones. Few, so that clients contend."""

LOCK_OPS_MAX = 5000
"""Draws of one lock before another one takes its place."""

TTLS_MS = (300, 600, 1200)
RELEASE_PERCENT = 60
"""Of holders that are done; the others let their lock run out."""

APPEND_PERCENT = 25
"""Of the operations of clients that take locks."""

READ_PERCENT = 40
"""Of the operations of clients that look: reads of a list; the others ask who holds a lock."""


@dataclass(slots=True)
class _Client:
    """What one client believes: what it asked for, as whom, and until when it holds."""

    owner: str
    lock: str = ""
    ttl_ms: int = 0
    until: Ns = 0
    asked: Ns = 0


class LeaseWorkload(Base):
    name = "lease"
    ops = frozenset({"acquire", "renew", "release", "holder", "append", "read"})
    shows = LOG.shows
    keys_retire = True
    rate = 100
    """A lease is a matter of tenths of a second."""

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Endless."""
        del rate_per_s  # the asker's pace
        return _Leases(rng, nodes=nodes, processes=processes)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """The lists are read once more, as in the workload log."""
        return FinalReads(rng, nodes=nodes, processes=processes, used=used)


class _Leases:
    """See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> None:
        self._rng = rng.stream("choices")
        self._lists, self._locks = Keys(KEYS), Keys(LOCKS, most=LOCK_OPS_MAX)
        self._targets = Targets(rng.stream("targets"), nodes)
        self._processes = max(1, processes)
        self._clients: dict[int, _Client] = {}
        self._last = 0

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """An operation for whichever process asks."""
        who = process % self._processes
        owner = f"c{process}"
        client = self._clients.get(who)
        if client is None or client.owner != owner:
            client = self._clients[who] = _Client(owner)
        target = self._targets.choose(view)
        if who % 2:
            return self._look(target)
        if self._rng.chance(APPEND_PERCENT, 100):
            self._last += 1
            return OpPlan(f="append", value=[self._lists.choose(self._rng), self._last], target=target)
        lock = client.lock or self._locks.choose(self._rng)
        client.asked = now
        if client.lock and now < client.until:
            if self._rng.chance(1, 2):
                return OpPlan(f="renew", value=[lock, owner, client.ttl_ms], target=target)
            if self._rng.chance(RELEASE_PERCENT, 100):
                return OpPlan(f="release", value=[lock, owner], target=target)
            return OpPlan(f="holder", value=lock, target=target)
        client.lock, client.ttl_ms = "", self._rng.choice(TTLS_MS)
        return OpPlan(f="acquire", value=[lock, owner, client.ttl_ms], target=target)

    def _look(self, target: str) -> OpPlan:
        if self._rng.chance(READ_PERCENT, 100):
            return OpPlan(f="read", value=self._lists.choose(self._rng), target=target)
        return OpPlan(f="holder", value=self._locks.choose(self._rng), target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Learn who leads, and whether the lock is held."""
        self._targets.learn(result)
        client = self._clients.get(process % self._processes)
        if client is None or client.owner != f"c{process}":
            return
        if op.f in ("acquire", "renew"):
            if result.status == "ok":
                client.lock, client.until = op.value[0], client.asked + client.ttl_ms * MS
            elif result.status == "fail" and op.f == "renew":
                client.lock = ""
        elif op.f == "release" and result.status == "ok":
            client.lock = ""


WORKLOAD = LeaseWorkload()
