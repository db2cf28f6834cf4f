"""The writes of a master that wait for their result: stored, and, with SYNC_MASTER, held by a slave.

Guarantees: results come in the order of the writes, each within ``sync_flush_timeout`` or with a status that says what
was late; at most ``PENDING_MAX`` wait. Out of scope: the log on the disk and the slaves themselves (`broker`).

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from dethrone.clusters.targets.client_api import Append, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.master_slave import messages as m
from dethrone.clusters.targets.master_slave.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.log import LogNode
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.clock import Ns

SEND_LIMIT = "send_limit"
PENDING_MAX = 10_000


class Sending(msgspec.Struct, frozen=True):
    """One write that waits for its result."""

    index: int
    request: int
    at: Ns


class Sends:
    """All writes of one broker that wait."""

    def __init__(self, broker: LogNode, rules: Rules) -> None:
        self._broker, self._rules = broker, rules
        self.waiting: deque[Sending] = deque()

    def take(self, request: int, body: Append | Put) -> None:
        """A client sends: append, unless too many wait."""
        broker = self._broker
        if len(self.waiting) >= PENDING_MAX:
            broker.reply(request, Refused(f"{PENDING_MAX} sends wait already"))
            return
        index = broker.log.end + 1
        broker.log.append(Record(index, 0, body))
        self.waiting.append(Sending(index, request, broker.mono))
        if len(self.waiting) == 1:
            broker.timer(SEND_LIMIT, self._rules.knobs.sync_flush_timeout)
        broker.write_log()

    def answer(self, acked: int, slave_available: Callable[[], bool]) -> None:
        """Results of sends, in order: stored, and, with SYNC_MASTER, on a slave; the best one has ``acked`` records."""
        sync = self._rules.waits_for_slave()
        while self.waiting and self.waiting[0].index <= self._broker.log.durable:
            if not sync or self.waiting[0].index <= acked:
                self._result(m.SEND_OK)
            elif not slave_available():
                self._result(self._rules.without_slave())
            else:
                return

    def late(self) -> None:
        """The time limit of the oldest send: the result says what it still waited for."""
        broker = self._broker
        limit = self._rules.knobs.sync_flush_timeout
        while self.waiting and broker.mono - self.waiting[0].at >= limit:
            stored = self.waiting[0].index <= broker.log.durable
            self._result(m.FLUSH_SLAVE_TIMEOUT if stored else m.FLUSH_DISK_TIMEOUT)
        if self.waiting:
            broker.timer(SEND_LIMIT, self.waiting[0].at + limit - broker.mono)

    def _result(self, status: str) -> None:
        broker = self._broker
        one = self.waiting.popleft()
        broker.note("write", {"offset": one.index - 1, "status": status})
        broker.count(f"sends_{status}")
        if status == m.SEND_OK:
            broker.note("write_acked", {"index": one.index, "offset": one.index - 1})
        fine = status == m.SEND_OK or self._rules.knobs.degraded_counts_as == "ok"
        broker.reply(one.request, Ok(one.index) if fine else Unknown(status))
