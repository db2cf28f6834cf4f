"""The replicated log behind a leader: it pushes records, followers drop what follows the common point (rollback).

Guarantees: an acknowledgement waits for the own disk, or with ``write_concern=majority`` for a majority of disks; a
follower obeys its own leader's present reign only, in the order in which it was sent. Out of scope: which node leads.
An election may ignore the log, so that acknowledged writes are dropped: that is the protocol, not this module.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.client_api import Append, Get, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.zk_ephemeral.log import LOG, Log, LogNode
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.machine import DiskDone

BATCH_MAX = 64
LEADING = frozenset({"COORDINATOR", "PRIMARY"})


class Replication(LogNode):
    """The log of one node, and what a leader knows of the others' logs.

    ``reign``: the wall time at which the present leader, this node or another, began to lead.
    """

    def __init__(self, node: str, members: tuple[str, ...], rules: Rules) -> None:
        super().__init__(Log(sync=True))
        self.me, self.members, self.rules, self.on = node, members, rules, rules.on
        self.peers = tuple(name for name in members if name != node)
        self.ids = {name: place for place, name in enumerate(members)}
        self.role = ""
        self.coordinator: str | None = None
        self.reign = 0
        self.commit = 0
        self.pending: list[tuple[int, int]] = []
        """(index, request) of writes that are not acknowledged yet."""
        self.number = self.agreed = 0
        """Of the last message of this reign; up to where a follower's log is its leader's."""
        self.prev: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.matched: dict[str, int] = {}

    @property
    def leads(self) -> bool:
        """Whether this node calls itself the leader."""
        return self.role in LEADING

    @property
    def optime(self) -> int:
        """The wall-clock time of the last record, in ns; 0: none."""
        return self.log.last_term

    def begin(self, role: str, coordinator: str | None, reign: int) -> None:
        """A reign begins or ends, here or at another node."""
        self.role, self.coordinator, self.reign = role, coordinator, reign
        for _, request in self.pending:
            self.reply(request, Unknown("this node does not lead any more"))
        self.pending.clear()
        self.number = self.agreed = 0
        self.prev, self.sent, self.matched = {}, {}, {}

    # --- the leader's ---------------------------------------------------------------------------------------------

    def on_request(self, request: int, body: Any) -> None:
        """A client asks."""
        log = self.log
        if not isinstance(body, Append | Put | Get):
            self.reply(request, Refused("not served by this target"))
        elif not self.leads:
            self.reply(request, NotLeader(self.coordinator))
        elif isinstance(body, Get):
            self.reply(request, Ok(log.read(body.key)))
        else:
            log.append(Record(log.end + 1, max(self.optime + 1, self.wall), body))
            self.pending.append((log.end, request))
            self.write_log()

    def push(self, *, always: bool = False) -> None:
        """Send to each peer what follows; ``always``: also where an answer is due or nothing is new."""
        for peer in self.peers:
            if always or self.sent.get(peer, 0) <= self.matched.get(peer, -1):
                self._push(peer)

    def _push(self, peer: str) -> None:
        log = self.log
        at = min(self.prev.setdefault(peer, log.durable), log.durable)
        records = tuple(log.entries[at : min(log.durable, at + BATCH_MAX)])
        self.number += 1
        self.sent[peer] = at + len(records)
        self.send(peer, m.Entries(self.reign, self.number, at, log.term_at(at), records, log.durable, self.commit))

    def stored(self, src: str, body: m.Stored) -> None:
        """A follower reports up to where its log agrees."""
        if not self.leads or body.reign != self.reign:
            return
        if body.fits:
            self.prev[src] = self.matched[src] = max(self.matched.get(src, 0), body.index)
            self._advance()
        else:
            self.prev[src] = min(body.index, self.log.end_of_term(body.optime)[1])
        if self.prev[src] < self.log.durable or not body.fits:
            self._push(src)

    def _advance(self) -> None:
        """Commit what a majority holds, and acknowledge what may be."""
        log = self.log
        ends = sorted([log.durable, *(self.matched.get(peer, 0) for peer in self.peers)], reverse=True)
        self.commit = max(self.commit, ends[len(ends) // 2])
        limit = log.durable if self.on.write_concern == "1" else min(self.commit, log.durable)
        while self.pending and self.pending[0][0] <= limit:
            index, request = self.pending.pop(0)
            self.note("write_acked", {"index": index})
            self.reply(request, Ok(index, index, log.term_at(index)))

    # --- a follower's ---------------------------------------------------------------------------------------------

    def entries(self, src: str, body: m.Entries) -> None:
        """Take the leader's records."""
        log = self.log
        if src != self.coordinator or self.leads or body.reign != self.reign or body.number <= self.number:
            return
        self.number = body.number
        if log.term_at(body.index) != body.optime:
            index = max(0, min(body.index - 1, log.end_of_term(body.optime)[1]))
            self.send(src, m.Stored(body.reign, index, log.term_at(index), fits=False))
            return
        for one in body.records:
            if log.term_at(one.index) != one.epoch:
                self._cut(one.index - 1)
                log.append(one)
        self._cut(body.end)
        self.agreed = body.index + len(body.records)
        self.commit = min(body.commit, self.agreed)
        self.write_log()
        self._confirm()

    def _confirm(self) -> None:
        if not self.leads and self.coordinator is not None and self.number:
            index = min(self.agreed, self.log.durable)
            self.send(self.coordinator, m.Stored(self.reign, index, self.log.term_at(index), fits=True))

    def _cut(self, end: int) -> None:
        if end >= self.log.end:
            return
        self.note("rollback", {"start": end + 1, "end": self.log.end})
        self.cut_log(end)
        self.agreed = min(self.agreed, end)

    # --- disk -----------------------------------------------------------------------------------------------------

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded, or failed: then this node stops."""
        if done.error is not None:
            self.halt(f"{LOG}: {done.error}")
            return
        self.log_written(done.token)
        self.show_durable()
        self.write_log()
        if self.leads:
            self._advance()
            self.push()
        else:
            self._confirm()
