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

from functools import partial
from typing import Any

from dethrone.clusters.targets.kit.files import digest, split_log
from dethrone.clusters.targets.kit.witness import ElectionWatch, Parsed, RecordLogWatch, StateFileWatch
from dethrone.clusters.targets.zab import messages as m
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, LOG, LOG_TEMPORARY, epoch_in
from dethrone.clusters.targets.zab.messages import COUNTER_MAX, NOT_COUNTED, epoch_of
from dethrone.harness.core.machine import DiskImage, DiskOp, Rename, Witnessed


class ZabWitness(ElectionWatch):
    """The witness of one node."""

    def forget(self) -> None:
        """What a process loses when it ends."""
        super().forget()
        self.led = self._serves = 0
        self._history: dict[int, m.NewLeader] = {}
        """Epoch → how long the history before it is; and, as a follower, how much of it was sent."""
        self._log = RecordLogWatch(LOG, _parse, scratch=LOG_TEMPORARY)
        self._files = [StateFileWatch(path, partial(epoch_in, path=path)) for path in (ACCEPTED, CURRENT)]

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: what its disk holds. An epoch is ``persisted`` once this life stored it."""
        self.forget()
        accepted = StateFileWatch(ACCEPTED, partial(epoch_in, path=ACCEPTED))
        file = accepted.found(disk)
        return [self.says("found", accepted.now or 0, {"file": file}), *self._log.booted(disk, self.marks)]

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        if type(body) is not m.Packet:
            return []
        match body.body:
            case m.AckEpoch(epoch=epoch, current=current) if current != NOT_COUNTED:
                return self.votes(epoch, to)
            case m.LeaderInfo(epoch):
                self.granted(epoch, self.node)
                self._serves = self._serves if self._serves == epoch else 0
                return self.votes(epoch, self.node)
            case m.NewLeader(zxid=zxid) as history if epoch_of(zxid) != self.led:
                self._history[epoch_of(zxid)] = history
                return self.leads(epoch_of(zxid), stood=False)
            case m.Ack(zxid):
                return self._acks(zxid, to)
            case m.UpToDate() if self.led in self._history:
                self._serves = self.led
                return self.commits(self.led, self._history[self.led].initial)
            case m.Commit(zxid) if epoch_of(zxid) == self._serves:
                return self.commits(self.led, self._history[self.led].initial + (zxid & COUNTER_MAX))
            case _:
                return []

    def _acks(self, zxid: int, to: str) -> list[Witnessed]:
        epoch, counter = epoch_of(zxid), zxid & COUNTER_MAX
        history = self._history.get(epoch)
        if history is None:
            return []  # of a transaction of an older epoch: the history is acknowledged as a whole
        index = history.initial + counter if counter else history.end
        return self.acks(epoch, index, to) if (epoch, index) > self.acked else []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled."""
        if type(body) is m.Packet:
            match body.body:
                case m.AckEpoch(epoch=epoch, current=current) if current != NOT_COUNTED:
                    self.granted(epoch, src)
                case m.NewLeader(zxid=zxid) as history:
                    self._history[epoch_of(zxid)] = history
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done."""
        out: list[Witnessed] = []
        for op in ops:
            if (op.dst if isinstance(op, Rename) else op.path) in (LOG, LOG_TEMPORARY):
                out += self._log.carried(op)
            for file in self._files:
                if file.carried(op) == "durable":
                    out.append(self.says("persisted", file.now or 0, {"voted_for": None, "file": file.path}))
        return out


def _parse(data: bytes, index: int, _: int) -> Parsed:
    records, _ = split_log(data, path=LOG, first=index)
    entries = [(place, epoch_of(zxid), digest(command)) for place, zxid, command, _ in records]
    return entries, [end for _, _, _, end in records], ()
