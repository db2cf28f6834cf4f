"""The replicated log behind a leader: it pushes records, followers drop what follows the common point (rollback).

Guarantees: an acknowledgement waits for the own disk, or with ``write_concern=majority`` for a majority of disks; a
follower obeys its own leader's present reign only, in the order in which it was sent. Out of scope: which node leads.
An election may ignore the log, so that acknowledged writes are dropped: that is the protocol, not this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.client_api import Append, Get, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.zk_ephemeral.log import LOG, Log
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.machine import Disk, DiskDone, DiskImage, Halt, Reply

if TYPE_CHECKING:
    from dethrone.clusters.targets.bully.core import BullyCore

BATCH_MAX = 64


class Replication:
    """The log of one node, and what a leader knows of the others' logs."""

    def __init__(self, core: BullyCore) -> None:
        self.core = core
        self.log = Log(sync=True)
        self.token = 0
        self.batches: dict[int, int] = {}
        self.commit = 0
        self.pending: list[tuple[int, int]] = []
        """(index, request) of writes that are not acknowledged yet."""
        self.number = 0
        self.prev: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.matched: dict[str, int] = {}
        self.agreed = 0
        """A follower's: up to here its log is its leader's."""

    def load(self, disk: DiskImage) -> None:
        """Read the log; raises ``Unreadable``."""
        self._disk(self.log.start(disk))
        self._visible()

    @property
    def optime(self) -> int:
        """The wall-clock time of the last record, in ns; 0: none."""
        return self.log.last_term

    def optime_at(self, index: int) -> int:
        """That of a record; 0 before the first, -1 beyond the last."""
        return -1 if index > self.log.end else self.log.entries[index - 1].epoch if index else 0

    def begin(self) -> None:
        """A reign begins or ends, here or at another node."""
        for _, request in self.pending:
            self._reply(request, Unknown("this node does not lead any more"))
        self.pending.clear()
        self.number = self.agreed = 0
        self.prev, self.sent, self.matched = {}, {}, {}

    # --- the leader's ---------------------------------------------------------------------------------------------

    def request(self, request: int, body: Any) -> None:
        """A client asks."""
        core, log = self.core, self.log
        if not isinstance(body, Append | Put | Get):
            self._reply(request, Refused("not served by this target"))
        elif not core.leads:
            self._reply(request, NotLeader(core.coordinator))
        elif isinstance(body, Get):
            self._reply(request, Ok(log.read(body.key)))
        else:
            log.append(Record(log.end + 1, max(self.optime + 1, core.now.wall), body))
            self.pending.append((log.end, request))
            self._write()

    def push(self, *, always: bool = False) -> None:
        """Send to each peer what follows; ``always``: also where an answer is due or nothing is new."""
        for peer in self.core.peers:
            if always or self.sent.get(peer, 0) <= self.matched.get(peer, -1):
                self._push(peer)

    def _push(self, peer: str) -> None:
        log = self.log
        at = min(self.prev.setdefault(peer, log.durable), log.durable)
        records = tuple(log.entries[at : min(log.durable, at + BATCH_MAX)])
        self.number += 1
        self.sent[peer] = at + len(records)
        self.core.send(
            peer, m.Entries(self.core.reign, self.number, at, self.optime_at(at), records, log.durable, self.commit)
        )

    def stored(self, src: str, body: m.Stored) -> None:
        """A follower reports up to where its log agrees."""
        if not self.core.leads or body.reign != self.core.reign:
            return
        if body.fits:
            self.prev[src] = self.matched[src] = max(self.matched.get(src, 0), body.index)
            self.advance()
        else:
            self.prev[src] = min(body.index, self.log.end_of_term(body.optime)[1])
        if self.prev[src] < self.log.durable or not body.fits:
            self._push(src)

    def advance(self) -> None:
        """Commit what a majority holds, and acknowledge what may be."""
        log, core = self.log, self.core
        ends = sorted([log.durable, *(self.matched.get(peer, 0) for peer in core.peers)], reverse=True)
        self.commit = max(self.commit, ends[len(ends) // 2])
        limit = log.durable if core.on.write_concern == "1" else min(self.commit, log.durable)
        while self.pending and self.pending[0][0] <= limit:
            index, request = self.pending.pop(0)
            core.note("write_acked", index=index)
            self._reply(request, Ok(index, index, self.optime_at(index)))

    # --- a follower's ---------------------------------------------------------------------------------------------

    def entries(self, src: str, body: m.Entries) -> None:
        """Take the leader's records."""
        core, log = self.core, self.log
        if src != core.coordinator or core.leads or body.reign != core.reign or body.number <= self.number:
            return
        self.number = body.number
        if self.optime_at(body.index) != body.optime:
            index = max(0, min(body.index - 1, log.end_of_term(body.optime)[1]))
            core.send(src, m.Stored(body.reign, index, self.optime_at(index), fits=False))
            return
        for one in body.records:
            if self.optime_at(one.index) != one.epoch:
                self._cut(one.index - 1)
                log.append(one)
        self._cut(body.end)
        self.agreed = body.index + len(body.records)
        self.commit = min(body.commit, self.agreed)
        self._write()
        self._tell()

    def _tell(self) -> None:
        core = self.core
        if not core.leads and core.coordinator is not None and self.number:
            index = min(self.agreed, self.log.durable)
            core.send(core.coordinator, m.Stored(core.reign, index, self.optime_at(index), fits=True))

    def _cut(self, end: int) -> None:
        if end >= self.log.end:
            return
        self.core.note("rollback", start=end + 1, end=self.log.end)
        self._disk(self.log.cut_now(end))
        self.batches = {token: min(index, end) for token, index in self.batches.items()}
        self.agreed = min(self.agreed, end)

    # --- disk -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self.log.waits() and not self.batches:
            self._disk(self.log.take_ops())

    def _disk(self, ops: tuple[Any, ...]) -> None:
        if ops:
            self.token += 1
            self.batches[self.token] = self.log.end
            self.core.out.append(Disk(self.token, ops))

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded, or failed: then this node stops."""
        if done.error is not None:
            self.core.halted = True
            self.core.out.append(Halt(f"{LOG}: {done.error}"))
            return
        self.log.durable = max(self.log.durable, min(self.batches.pop(done.token, 0), self.log.end))
        self._visible()
        self._write()
        if self.core.leads:
            self.advance()
            self.push()
        else:
            self._tell()

    def _visible(self) -> None:
        self.log.hw = self.log.durable
        self.log.apply()

    def _reply(self, request: int, body: Any) -> None:
        self.core.out.append(Reply(request, body))
