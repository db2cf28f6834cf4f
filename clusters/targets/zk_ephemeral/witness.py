"""Elections, log ends and commits of one broker, and the epochs that the coordination service grants and keeps.

Read off the wire and the disk:

* ``elected`` (term): the service confirmed this node's new epoch in the partition state; or this node answered a fetch,
  accepted its controller's command, or notified others, as the leader of an epoch for the first time in this life.
* ``commit`` (index): the high watermark as a leader sends it to its followers.
* ``log_append``, ``log_truncate``: what was carried out on the log file;
* of the service, ``granted`` (term, candidate) and ``answered`` (term): it is about to confirm a change of the
  partition state with that epoch; ``found`` (term): the epoch in the tree that its next process finds. The last member
  is taken for the service where its disk holds nothing (no other member is owed what rests on it).

Guarantees: nothing is taken from the core. Out of scope: votes (there are none) and acknowledgements: a majority that
stores a record commits nothing here, the ISR does.

Source: docs/sources.md, zk-ephemeral.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.clusters.targets.kit.files import Unreadable, digest, split
from dethrone.clusters.targets.kit.witness import Parsed, RecordLogWatch
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.log import LOG
from dethrone.clusters.targets.zk_ephemeral.tree import TREE, load
from dethrone.harness.core.log_marks import LogMarks
from dethrone.harness.core.machine import DiskImage, DiskOp, Rename, Witnessed

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(m.Record)


class LogWitness:
    """The log of one broker; what decides its elections is seen by those that derive from this."""

    def __init__(self) -> None:
        self.marks = LogMarks()
        self._log = RecordLogWatch(LOG, _parse)

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds."""
        self._log = RecordLogWatch(LOG, _parse)
        seen = self._log.booted(disk, self.marks)
        return seen if LOG in disk else []

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """Nothing that is sent decides anything."""
        del to, body
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """As above."""
        del src, body
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done."""
        return [seen for op in ops if not isinstance(op, Rename) and op.path == LOG for seen in self._log.carried(op)]


class ZkWitness(LogWitness):
    """The witness of one node."""

    def __init__(self, node: str, *, serves: bool = False) -> None:
        super().__init__()
        self._node = node
        self._serves = serves
        """Whether an empty disk is the service's."""
        self._forget()

    def _forget(self) -> None:
        self._led = 0
        self._commit = 0
        self._published: dict[tuple[int, int], int] = {}
        self._commands: dict[tuple[int, int, int], None] = {}
        self._asked: dict[tuple[int, int], tuple[int, str]] = {}
        """(session, call) → the epoch that it asks for, and the node that asks."""
        self._granted = 0

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds, or the epoch in the service's tree."""
        self._forget()
        seen = super().booted(disk)
        return [_stored_epoch(disk)] if TREE in disk or (self._serves and not disk) else seen

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is m.Answer:
            return self._answered(to, body)
        if kind is m.FetchReply:
            if body.code != m.FETCH_OK or (body.epoch == self._led and body.hw <= self._commit):
                return []
            out = self._elected(body.epoch)
            if body.hw > self._commit:
                self._commit = body.hw
                out.append(Witnessed("commit", body.epoch, {"index": body.hw}))
            return out
        if kind is m.Call:
            epoch = _claims(body.op, self._node)
            if epoch:
                self._published[body.session, body.xid] = epoch
        elif kind is m.LeaderNotice:
            return self._elected(body.epoch)
        elif (
            kind is m.LeaderAndIsrReply
            and body.code == m.ACCEPTED
            and (body.controller_epoch, body.leader_epoch, body.version) in self._commands
        ):
            return self._elected(body.leader_epoch)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled."""
        kind = type(body)
        if kind is m.Call:
            if epoch := _epoch_in(body.op):
                self._asked[body.session, body.xid] = (epoch, src)
        elif kind is m.Answer:
            epoch = self._published.pop((body.session, body.xid), 0)
            if epoch and body.code == m.OK:
                return self._elected(epoch)
        elif kind is m.LeaderAndIsr and body.leader == self._node:
            self._commands[body.controller_epoch, body.leader_epoch, body.version] = None
        return []

    def _answered(self, to: str, body: m.Answer) -> list[Witnessed]:
        """The service confirms a call; what it confirms again is no new grant."""
        epoch, src = self._asked.pop((body.session, body.xid), (0, ""))
        if body.code != m.OK or src != to or epoch <= self._granted:
            return []
        self._granted = epoch
        return [Witnessed("granted", epoch, {"candidate": to}), Witnessed("answered", epoch)]

    def _elected(self, epoch: int) -> list[Witnessed]:
        if epoch == self._led:
            return []
        self._led = epoch
        return [Witnessed("elected", epoch, {"voters": []})]


def _parse(data: bytes, _: int, __: int) -> Parsed:
    bodies, _ = split(data, path=LOG)
    try:
        records = [_DECODER.decode(body) for body, _ in bodies]
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from error
    found = [(one.index, one.epoch, digest(_ENCODE(one.command))) for one in records]
    return found, [end for _, end in bodies], ()


def _stored_epoch(disk: DiskImage) -> Witnessed:
    """What the service's disk holds."""
    try:
        tree, _, _ = load(disk)
    except Unreadable:
        return Witnessed("found", 0, {"file": "unreadable"})
    state = tree.nodes.get(m.STATE_PATH)
    held = state.data if state is not None and isinstance(state.data, dict) else {}
    return Witnessed("found", int(held.get("leader_epoch") or 0), {"file": "read" if TREE in disk else "absent"})


def _epoch_in(op: m.Operation) -> int:
    """The epoch that this operation writes into the partition state; 0: none."""
    if not isinstance(op, m.SetNode | m.Create) or op.path != m.STATE_PATH or not isinstance(op.data, dict):
        return 0
    return int(op.data.get("leader_epoch") or 0)


def _claims(op: m.Operation, node: str) -> int:
    """The epoch in which this operation on the partition state makes ``node`` the leader by its own will; 0: none.

    A leader's change of its ISR repeats the same epoch, which is no new election; a controller that chooses itself
    shows this by its answers to fetches.
    """
    epoch = _epoch_in(op)
    data = getattr(op, "data", {})
    return epoch if epoch and data.get("leader") == node and data.get("controller_epoch") == 0 else 0
