"""The state of one ZAB node and the steps that its roles share: notes, timers, the disk, connections.

Guarantees: a batch that must be on disk before anything else leaves is followed by a barrier (`store`); a leader's own
proposals carry none, and what follows from them runs when they are done. A connection hands over messages in their
order, each once. Out of scope: every decision (`rules`, and one module a role).

Source: Apache ZooKeeper, QuorumPeer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dethrone.clusters.targets.client_api import Unknown
from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, Log, epoch_ops
from dethrone.clusters.targets.zab.messages import Body, Notification, Packet, Vote, epoch_of
from dethrone.clusters.targets.zab.roles import Following, Leading, Link
from dethrone.clusters.targets.zab.rules import ELECTION, LEADING, LOOKING, NOMINATED, Rules
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, DiskOp, Note

NOTIFY, FINALIZE, TICK, CONNECT = "notify", "finalize", "tick", "connect"
"""Timers: sending the vote again; the quiet time before a decision; half a tick; the next try to reach the leader."""


class Node(KitNode):
    """One node."""

    def __init__(self, name: str, members: tuple[str, ...], rules: Rules) -> None:
        super().__init__()
        self.me = name
        self.knobs = rules.knobs
        self.rules = rules
        self.sids = {member: place for place, member in enumerate(members, 1)}
        self.others = tuple(member for member in members if member != name)
        self.quorum = len(members) // 2 + 1
        self.log = Log()
        self.machine = Machine()

        self.role, self.phase = LOOKING, ELECTION
        self.accepted = self.current = 0
        self.commit = 0
        """How many transactions are known to be committed, and are applied."""
        self.voted: tuple[int, str | None] = (0, None)
        """The last epoch that this process accepted, and the leader whose count it is part of."""
        self.leader: str | None = None
        """The leader of the accepted epoch, once that is known to be won."""

        self.last_zxid = 0
        """The end of the log with which this node entered the election."""
        self.round = 0
        self.vote = Vote(name, 0, 0)
        """While LOOKING the own one; else the one that was decided on."""
        self.own_vote = self.vote
        """With which this node entered the election."""
        self.received: dict[str, Notification] = {}
        self.outside: dict[str, Notification] = {}
        """Votes of nodes that follow or lead (outofelection)."""
        self.finalizing = False
        self.interval: Ns = 0

        self.lead: Leading | None = None
        self.follow: Following | None = None
        self.link_number = 0

        self.pending: dict[int, Callable[[], None]] = {}
        self.durable_accepted = 0
        self.epochs_in_flight = 0
        self.waiting: dict[int, int] = {}
        """Number of a write → the client's request that it answers."""
        self.origins: dict[int, int] = {}
        """Zxid → the number of the write that it is, where it was asked of this node."""
        self.writes = 0

    # --- saying -----------------------------------------------------------------------------------------------------

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event."""
        self.out.append(Note(name, self.accepted, self.shown_role(), data))

    def pack(self, to: str, link: Link, body: Body) -> None:
        """Append a message on a connection."""
        link.sent += 1
        self.send(to, Packet(link.number, link.sent, body))

    def shown_role(self) -> str:
        """A leader that has not won its epoch is only nominated."""
        if self.role == LEADING and (self.lead is None or not self.lead.elected):
            return NOMINATED
        return self.role

    def enough(self, nodes: Iterable[str]) -> bool:
        """Whether these nodes are a quorum of this leader's."""
        return self.rules.enough(set(nodes), self.me, len(self.sids))

    # --- disk -------------------------------------------------------------------------------------------------------

    def write(self, ops: tuple[DiskOp, ...], done: Callable[[], None] = lambda: None) -> int:
        """Start a batch; ``done`` is called when the disk has it."""
        token = self.batch(ops)
        self.pending[token] = done
        return token

    def store(self, ops: tuple[DiskOp, ...], done: Callable[[], None] = lambda: None) -> None:
        """The same, and nothing that follows leaves before."""
        if ops:
            self.out.append(Await(self.write(ops, done)))

    def store_accepted(self, epoch: int, *, really: bool) -> None:
        """Accept an epoch."""
        self.accepted = epoch
        self.voted = (epoch, None)
        if not really:
            self.durable_accepted = epoch
            return
        self.epochs_in_flight += 1

        def done() -> None:
            self.epochs_in_flight -= 1
            self.durable_accepted = epoch
            self.note("persisted", {"file": ACCEPTED, "epoch": epoch})

        self.store(epoch_ops(ACCEPTED, epoch), done)

    def current_ops(self, epoch: int) -> tuple[DiskOp, ...]:
        """Adopt an epoch's history: the batch that stores it."""
        self.current = epoch
        return epoch_ops(CURRENT, epoch)

    # --- applying ---------------------------------------------------------------------------------------------------

    def deliver(self, upto: int) -> None:
        """Commit and apply the first ``upto`` transactions; answer those that clients of this node wait for."""
        before, self.commit = self.commit, max(self.commit, upto)
        if before == self.commit:
            return
        self.note("commit", {"old": before, "new": self.commit, "zxid": self.log.terms[self.commit - 1]})
        for place in range(before, self.commit):
            txn = self.log.entries[place]
            result = self.machine.apply(place + 1, txn.command)
            number = self.origins.pop(txn.zxid, None)
            request = None if number is None else self.waiting.pop(number, None)
            if request is not None:
                self.answer(request, result, place + 1, epoch_of(txn.zxid))

    def give_up(self, why: str) -> None:
        """The writes that wait here may or may not take effect."""
        for request in self.waiting.values():
            self.reply(request, Unknown(why))
        self.waiting.clear()
        self.origins.clear()
