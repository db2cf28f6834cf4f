"""The writes of a master that wait for their result: stored, and, with SYNC_MASTER, held by a slave.

Guarantees: results come in the order of the writes, each within ``sync_flush_timeout`` or with a status that says what
was late; at most ``PENDING_MAX`` wait. Out of scope: the log on the disk and the slaves themselves (`broker`).

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from dethrone.clusters.targets.client_api import Append, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.master_slave import messages as m
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import SetTimer

if TYPE_CHECKING:
    from dethrone.clusters.targets.master_slave.broker import BrokerCore

SEND_LIMIT = "send_limit"
PENDING_MAX = 10_000


class Sending(msgspec.Struct, frozen=True):
    """One write that waits for its result."""

    index: int
    request: int
    at: Ns


class Sends:
    """All writes of one broker that wait."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self.waiting: deque[Sending] = deque()

    def take(self, request: int, body: Append | Put) -> None:
        """A client sends: append, or refuse."""
        broker = self._broker
        if not broker.rules.takes_writes(master=broker.leads):
            broker.count("writes_refused")
            broker.note("write_refused", {"id": broker.place.broker_id})
            broker.reply(request, NotLeader(broker.master if broker.master != broker.me else None))
            return
        if len(self.waiting) >= PENDING_MAX:
            broker.reply(request, Refused(f"{PENDING_MAX} sends wait already"))
            return
        index = broker.log.end + 1
        broker.log.append(Record(index, 0, body))
        self.waiting.append(Sending(index, request, broker.mono))
        if len(self.waiting) == 1:
            broker.out.append(SetTimer(SEND_LIMIT, broker.mono + broker.knobs.sync_flush_timeout))
        broker.write_log()

    def answer(self) -> None:
        """Results of sends, in order: stored, and, with SYNC_MASTER, on a slave."""
        broker = self._broker
        sync = broker.rules.waits_for_slave()
        while self.waiting and self.waiting[0].index <= broker.log.durable:
            if not sync or self.waiting[0].index <= broker.acked_most:
                self._result(m.SEND_OK)
            elif not broker.slave_available():
                self._result(broker.rules.without_slave())
            else:
                return

    def late(self) -> None:
        """The time limit of the oldest send: the result says what it still waited for."""
        broker = self._broker
        limit = broker.knobs.sync_flush_timeout
        while self.waiting and broker.mono - self.waiting[0].at >= limit:
            stored = self.waiting[0].index <= broker.log.durable
            self._result(m.FLUSH_SLAVE_TIMEOUT if stored else m.FLUSH_DISK_TIMEOUT)
        if self.waiting:
            broker.out.append(SetTimer(SEND_LIMIT, self.waiting[0].at + limit))

    def _result(self, status: str) -> None:
        broker = self._broker
        one = self.waiting.popleft()
        broker.note("write", {"offset": one.index - 1, "status": status})
        broker.count(f"sends_{status}")
        if status == m.SEND_OK:
            broker.note("write_acked", {"index": one.index, "offset": one.index - 1})
        fine = status == m.SEND_OK or broker.knobs.degraded_counts_as == "ok"
        broker.reply(one.request, Ok(one.index) if fine else Unknown(status))
