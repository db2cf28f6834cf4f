"""What a Paxos node promised, accepted and led, read off its messages and its disk, out of a variant's reach.

* ``promised`` (instance, id, candidate: the proposer): the first time that a PROMISE for that number leaves;
* ``accepted`` (instance, id, value, kind): the first time that an ACCEPTED of it leaves, or a PROMISE that reports it.
  These events of all acceptors determine every chosen value, independent of the learners;
* ``elected`` (term = epoch, voters): the first heartbeat of an epoch that leaves; the voters are the acceptors whose
  ACCEPTED, with this node as the value and under one number, arrived here or left here;
* ``persisted`` (instance, max_id, accepted_id): a record is durable;
* ``found`` (file, instances: number → [max_id, accepted_id]): what a new incarnation finds, the latest
  ``FOUND_MAX`` instances of it.

Guarantees: it sees what was really sent, received and carried out. Out of scope: a group of one node (it sends
nothing), and rules: it imports messages and the storage format only.

Source: Lamport, "Paxos Made Simple", 2.2-2.3.
"""

from __future__ import annotations

import contextlib
from typing import Any

from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.paxos.messages import Accepted, Heartbeat, Leader, Promise, Told, kind_of, shown
from dethrone.clusters.targets.paxos.storage import FILE, DiskRecord, Promised, Stored, load, records_in
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Witnessed, Write

FOUND_MAX = 5_000
"""The largest number of instances of a disk that are recorded, from either end of those in use; others are omitted."""


class PaxosWitness:
    """The witness of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._accepted: dict[tuple[int, int], Any] = {}
        self._promised: set[tuple[int, int]] = set()
        self._votes: dict[int, dict[int, set[str]]] = {}
        """epoch → number → acceptors of this node as leader."""
        self._led = 0
        self._written: list[DiskRecord] = []

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: what it accepted before counts for the epochs it leads."""
        self._forget()
        try:
            acceptors = load(disk).acceptors
        except Unreadable:  # the node halts, or shows what it makes of it
            return [Witnessed("found", 0, {"file": "unreadable", "instances": {}})]
        for number, state in acceptors.items():
            if state.accepted_value is not None:
                self._vote(self._node, Accepted(number, state.accepted_id, state.accepted_value))
        told = sorted(acceptors, key=abs)[-FOUND_MAX:]
        found = {
            "file": "read" if FILE in disk else "absent",
            "instances": {str(number): [acceptors[number].max_id, acceptors[number].accepted_id] for number in told},
            "complete": len(told) == len(acceptors),
        }
        return [Witnessed("found", 0, found)]

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is Accepted:
            return self._sent_accepted(body)
        if kind is Promise:
            seen: list[Witnessed] = []
            if body.accepted_value is not None:
                seen = self._sent_accepted(Accepted(body.instance, body.accepted_id, body.accepted_value))
            key = (body.instance, body.id)
            if key not in self._promised:
                self._promised.add(key)
                told = {"instance": body.instance, "id": body.id, "candidate": to}
                seen.append(Witnessed("promised", abs(body.instance), told))
            return seen
        if kind is Heartbeat:
            if body.epoch > self._led:
                self._led = body.epoch
                voters = max(self._votes.get(body.epoch, {}).values(), key=len, default=set())
                return [Witnessed("elected", body.epoch, {"voters": sorted(voters)})]
        elif kind is Told:
            return [seen for accepted in body.accepted for seen in self._sent_accepted(accepted)]
        return []

    def _sent_accepted(self, body: Accepted) -> list[Witnessed]:
        key = (body.instance, body.id)
        if self._accepted.get(key) == body.value:
            return []
        self._accepted[key] = body.value
        self._vote(self._node, body)
        told = {"instance": body.instance, "id": body.id, "value": shown(body.value), "kind": kind_of(body.value)}
        return [Witnessed("accepted", abs(body.instance), told)]

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: acceptances of this node as a leader are remembered by number."""
        kind = type(body)
        if kind is Accepted:
            self._vote(src, body)
        elif kind is Told:
            for accepted in body.accepted:
                self._vote(src, accepted)
        return []

    def _vote(self, acceptor: str, body: Accepted) -> None:
        if body.instance < 0 and body.value == Leader(self._node):
            self._votes.setdefault(-body.instance, {}).setdefault(body.id, set()).add(acceptor)

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done: what its fsync made durable."""
        out: list[Witnessed] = []
        for op in ops:
            if isinstance(op, Write) and op.path == FILE:
                with contextlib.suppress(Unreadable):
                    self._written += records_in(op.data)[0]
            elif isinstance(op, Fsync) and op.path == FILE:
                out += [seen for record in self._written for seen in _persisted(record)]
                self._written = []
        return out


def _persisted(record: DiskRecord) -> list[Witnessed]:
    if isinstance(record, Promised):
        told: dict[str, Any] = {"instance": record.instance, "max_id": record.max_id}
    elif isinstance(record, Stored):
        told = {"instance": record.instance, "max_id": record.max_id, "accepted_id": record.id}
        told["value"] = shown(record.value)
    else:
        return []
    return [Witnessed("persisted", abs(record.instance), told)]
