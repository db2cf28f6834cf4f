"""Elections, log ends and commits of one broker, read off its wire and its disk; the coordination service has none.

* ``elected`` (term): the service confirmed this node's new epoch in the partition state; or this node answered a fetch,
  accepted its controller's command, or told others, as the leader of an epoch for the first time in this life.
* ``commit`` (index): the high watermark as a leader tells it to its followers.
* ``log_append``, ``log_truncate``: what was carried out on the log file.

Promises: nothing is taken from the core. Leaves out votes (there are none) and acknowledgements: a majority that stores
a record commits nothing here, the ISR does.

Source: specification of Kafka's ephemeral-node election, §5, §7.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from clusters.protocols.zk_ephemeral import messages as m
from clusters.protocols.zk_ephemeral.log import LOG
from clusters.protocols.zk_ephemeral.recordfile import Unreadable, file_of, split
from harness.core.machine import DiskImage, DiskOp, Unlink, Witnessed, Write

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(m.Record)


class ZkWitness:
    """The witness of one node."""

    __slots__ = ("_commands", "_commit", "_damaged", "_ends", "_led", "_node", "_published")

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        self._led = 0
        self._commit = 0
        self._published: dict[tuple[int, int], int] = {}
        self._commands: dict[tuple[int, int, int], None] = {}
        self._ends: list[int] = []
        self._damaged = False

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds."""
        self._forget()
        try:
            content = file_of(disk, LOG)
            if content is None:
                return []
            found = self._parse(content, 0)
        except Unreadable:
            self._damaged = True
            return []
        out = [Witnessed("log_truncate", 0, {"from": len(self._ends) + 1})]
        if found:
            out.append(Witnessed("log_append", found[-1][1], {"from": 1, "entries": found}))
        return out

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        del to
        kind = type(body)
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
        del src
        kind = type(body)
        if kind is m.Answer:
            epoch = self._published.pop((body.session, body.xid), 0)
            if epoch and body.code == m.OK:
                return self._elected(epoch)
        elif kind is m.LeaderAndIsr and body.leader == self._node:
            self._commands[body.controller_epoch, body.leader_epoch, body.version] = None
        return []

    def _elected(self, epoch: int) -> list[Witnessed]:
        if epoch == self._led:
            return []
        self._led = epoch
        return [Witnessed("elected", epoch, {"voters": []})]

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        if self._damaged:
            return out
        for op in ops:
            if isinstance(op, Unlink) and op.path == LOG:
                self._ends = []
                out.append(Witnessed("log_truncate", 0, {"from": 1}))
            elif isinstance(op, Write) and op.path == LOG:
                end = self._ends[-1] if self._ends else 0
                offset = end if op.offset is None else op.offset
                if offset < end:
                    while self._ends and self._ends[-1] > offset:
                        self._ends.pop()
                    out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
                if op.data:
                    first = len(self._ends) + 1
                    try:
                        found = self._parse(op.data, offset)
                    except Unreadable:
                        self._damaged = True
                        return out
                    if found:
                        out.append(Witnessed("log_append", found[-1][1], {"from": first, "entries": found}))
        return out

    def _parse(self, data: bytes, base: int) -> list[tuple[int, int, str]]:
        bodies, _ = split(data, path=LOG)
        out = []
        for body, end in bodies:
            try:
                one = _DECODER.decode(body)
            except msgspec.DecodeError as error:
                raise Unreadable(str(error)) from error
            self._ends.append(base + end)
            out.append((one.index, one.epoch, hashlib.blake2b(_ENCODE(one.command), digest_size=8).hexdigest()))
        return out


def _claims(op: m.Operation, node: str) -> int:
    """The epoch in which this operation on the partition state makes ``node`` the leader by its own will; 0: none.

    A leader's change of its ISR says the same epoch again, which is no new election; a controller's choice of itself
    is told by its answers to fetches.
    """
    if not isinstance(op, m.SetNode | m.Create) or op.path != m.STATE_PATH or not isinstance(op.data, dict):
        return 0
    claims = op.data.get("leader") == node and op.data.get("controller_epoch") == 0
    return int(op.data.get("leader_epoch") or 0) if claims else 0
