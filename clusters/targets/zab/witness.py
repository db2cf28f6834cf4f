"""Votes, elections, acknowledgements and log ends of one ZAB node, read off its wire and its disk.

* ``vote``: an ACKEPOCH that counts leaves, or, of a leader, its first LEADERINFO of an epoch.
* ``elected``: the first NEWLEADER of an epoch leaves; its voters are those whose ACKEPOCH of it arrived and counts, and
  the node itself if its LEADERINFO left.
* ``acked``: an ACK leaves: of NEWLEADER, for the whole history that was sent; of a proposal, up to its place.
* ``commit``: UPTODATE leaves (the whole initial history), or, after it, the COMMIT of a transaction of that epoch; the
  COMMITs of a sync do not count, because an initial history is yet to be committed.
* ``persisted``: either epoch file; ``found``: acceptedEpoch. Neither holds a vote: that an epoch is acknowledged once
  follows from the order of the epochs.

Guarantees: nothing is taken from the core. Places are indexes from 1: NEWLEADER carries the length of the history
before its epoch, and counters follow it without a gap. Out of scope: an ensemble of one (it sends nothing); rules.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.kit.files import Unreadable, digest, file_of, split_log
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, LOG, LOG_TEMPORARY, read_epoch
from dethrone.clusters.targets.zab.messages import (
    COUNTER_MAX,
    NOT_COUNTED,
    Ack,
    AckEpoch,
    Commit,
    LeaderInfo,
    NewLeader,
    Packet,
    UpToDate,
    epoch_of,
)
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Witnessed, Write

Entry = tuple[int, int, str]


class ZabWitness:
    """The witness of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._counted: dict[int, set[str]] = {}
        self._voted: set[tuple[int, str]] = set()
        self._led = self._serves = 0
        self._initial: dict[int, int] = {}
        """Epoch → how long the history before it is; and, as a follower, how much of it was sent."""
        self._sent_upto: dict[int, int] = {}
        self._acked = (0, 0)
        self._commit = 0
        self._ends: list[int] = []
        self._entries: list[Entry] = []
        self._damaged = False
        self._written: dict[str, bytes] = {}
        self._stored: dict[str, int] = {}

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: what its disk holds."""
        self._forget()
        try:
            epoch = read_epoch(disk, ACCEPTED)
            file = "absent" if epoch is None else "read"
        except Unreadable:
            epoch, file = None, "unreadable"
        out = [Witnessed("found", epoch or 0, {"file": file})]
        try:
            found = self._parse(file_of(disk, LOG) or b"")
        except Unreadable:
            self._damaged = True
            return out
        out.append(Witnessed("log_truncate", 0, {"from": len(found) + 1}))
        return out + self._appended(found)

    # --- the wire ---------------------------------------------------------------------------------------------------

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        if type(body) is not Packet:
            return []
        match body.body:
            case AckEpoch(epoch=epoch, current=current) if current != NOT_COUNTED:
                return self._vote(epoch, to)
            case LeaderInfo(epoch):
                self._counted.setdefault(epoch, set()).add(self._node)
                self._serves = self._serves if self._serves == epoch else 0
                return self._vote(epoch, self._node)
            case NewLeader():
                return self._leads(body.body)
            case Ack(zxid):
                return self._ack(zxid, to)
            case UpToDate():
                self._serves = self._led
                return self._commits(self._led, self._initial.get(self._led, 0))
            case Commit(zxid) if epoch_of(zxid) == self._serves:
                return self._commits(self._led, self._initial[self._serves] + (zxid & COUNTER_MAX))
            case _:
                return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled."""
        if type(body) is Packet:
            match body.body:
                case AckEpoch(epoch=epoch, current=current) if current != NOT_COUNTED:
                    self._counted.setdefault(epoch, set()).add(src)
                case NewLeader(zxid=zxid, initial=initial, end=end):
                    self._initial[epoch_of(zxid)], self._sent_upto[epoch_of(zxid)] = initial, end
        return []

    def _vote(self, epoch: int, candidate: str) -> list[Witnessed]:
        if (epoch, candidate) in self._voted:
            return []
        self._voted.add((epoch, candidate))
        return [Witnessed("vote", epoch, {"candidate": candidate})]

    def _leads(self, body: NewLeader) -> list[Witnessed]:
        epoch = epoch_of(body.zxid)
        if epoch == self._led:
            return []
        self._led = epoch
        self._initial[epoch] = body.initial
        return [Witnessed("elected", epoch, {"voters": sorted(self._counted.get(epoch, ()))})]

    def _ack(self, zxid: int, to: str) -> list[Witnessed]:
        epoch, counter = epoch_of(zxid), zxid & COUNTER_MAX
        if epoch not in self._initial:
            return []  # of a transaction of an older epoch: the history is acknowledged as a whole
        index = self._initial[epoch] + counter if counter else self._sent_upto[epoch]
        if (epoch, index) <= self._acked:
            return []
        self._acked = epoch, index
        return [Witnessed("acked", epoch, {"index": index, "leader": to})]

    def _commits(self, epoch: int, index: int) -> list[Witnessed]:
        if index <= self._commit:
            return []
        self._commit = index
        return [Witnessed("commit", epoch, {"index": index})]

    # --- the disk ---------------------------------------------------------------------------------------------------

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done."""
        out: list[Witnessed] = []
        for op in ops:
            if isinstance(op, Write):
                if op.path == LOG:
                    out += self._wrote_log(op)
                else:
                    self._written[op.path] = op.data
            elif isinstance(op, Rename):
                data = self._written.pop(op.src, b"")
                if op.src == LOG_TEMPORARY:
                    out += self._replaced_log(data)
                elif op.dst in (ACCEPTED, CURRENT):
                    self._stored[op.dst] = int(data)
            elif isinstance(op, Fsync) and op.path in self._stored:
                out.append(Witnessed("persisted", self._stored[op.path], {"voted_for": None, "file": op.path}))
        return out

    def _wrote_log(self, op: Write) -> list[Witnessed]:
        """Transactions cut off and appended by one write."""
        if self._damaged:
            return []
        out: list[Witnessed] = []
        end = self._ends[-1] if self._ends else 0
        at = end if op.offset is None else op.offset
        if at < end:
            while self._ends and self._ends[-1] > at:
                self._ends.pop()
            del self._entries[len(self._ends) :]
            out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        return out + self._appended(self._parse(op.data, base=at))

    def _replaced_log(self, data: bytes) -> list[Witnessed]:
        """A snapshot: what both logs hold stays."""
        before, self._ends, self._entries = self._entries, [], []
        found = self._parse(data)
        same = 0
        while same < min(len(before), len(found)) and before[same] == found[same]:
            same += 1
        out = [Witnessed("log_truncate", 0, {"from": same + 1})] if same < len(before) else []
        return out + self._appended(found[same:])

    def _parse(self, data: bytes, base: int = 0) -> list[Entry]:
        records, _ = split_log(data, path=LOG, first=len(self._ends) + 1, base=base)
        found = [(place, epoch_of(zxid), digest(command)) for place, zxid, command, _ in records]
        self._ends += [end for _, _, _, end in records]
        self._entries += found
        return found

    def _appended(self, found: list[Entry]) -> list[Witnessed]:
        if not found:
            return []
        return [Witnessed("log_append", found[-1][1], {"from": found[0][0], "entries": found})]
