"""Votes, elections, acknowledgements and log ends of one KRaft node, read off its wire and its disk.

* ``vote``: a granted answer leaves, or the node's own vote request (its vote for itself).
* ``elected``: ``quorum-state`` naming this node as leader in an epoch is carried out, or an announcement or a fetch
  answer of a leader leaves, whichever is first. Its voters are those whose granted answers of that epoch arrived, and
  the node itself if it campaigned; ``config`` holds the voter set of the file, without observers.
* ``acked``: a fetch leaves whose last record is of the leader's epoch: everything before its offset is stored.
* ``commit``: a fetch answer leaves with a higher high watermark.
* ``persisted``: rename AND fsync of ``quorum-state``; a vote is no longer in it once the leader is known.
* ``found``: that file as a new incarnation finds it. If it names the epoch's leader, only the epoch is recorded: the
  file then no longer holds this node's vote, which has no effect any more. ``answered``: once per epoch, an answer that
  shows nothing else.

Guarantees: nothing is taken from the core; steady fetches cost a few comparisons and add nothing. Offsets are recorded
as indexes from 1: the exclusive end of a log is the index of its last record. Out of scope: rules.

Source: Apache Kafka 3.3.1, the messages and QuorumStateData.
"""

from __future__ import annotations

from typing import Any, Literal

from dethrone.clusters.targets.kit.witness import DiskWatch, RecordLogWatch, StateFileWatch, log_parser
from dethrone.clusters.targets.kraft.messages import (
    NOBODY,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.storage import LOG, STATE, QuorumState, read_state
from dethrone.harness.core.machine import DiskImage, Witnessed

_PARSE = log_parser(LOG, first=0)


class KraftWitness(DiskWatch[QuorumState]):
    """The witness of one node."""

    def __init__(self, *, node: str, members: tuple[str, ...]) -> None:
        self._names = dict(enumerate(members, 1))
        self._me = members.index(node) + 1 if node in members else NOBODY
        self._voters: tuple[str, ...] = ()
        super().__init__(node)

    def forget(self) -> None:
        """What a process loses when it ends."""
        super().forget()
        self._stood: set[int] = set()

    def watched(self) -> tuple[RecordLogWatch, StateFileWatch[QuorumState]]:
        """The log and ``quorum-state``."""
        return RecordLogWatch(LOG, _PARSE), StateFileWatch(STATE, read_state)

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds. Its state is ``persisted`` once the node synced it again."""
        self.forget()
        return [self._found(disk), *self.log.booted(disk, self.marks)]

    def _found(self, disk: DiskImage) -> Witnessed:
        """The file as it lies there, regardless of how the node reads it."""
        file = self.file.found(disk)
        state = self.file.now
        if state is None:
            return self.found(file, 0, None)
        self._remember(state)
        if state.leader_id != NOBODY:
            return Witnessed("found", state.leader_epoch, {"file": file})
        return self.found(file, state.leader_epoch, self._names.get(state.voted_id))

    def _remember(self, state: QuorumState) -> None:
        """The voter set, and whether this node campaigned, by the file."""
        self._voters = tuple(self._names.get(voter, str(voter)) for voter in state.voters)
        if state.voted_id == self._me:
            self._stood.add(state.leader_epoch)

    # --- the wire ---------------------------------------------------------------------------------------------------

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is FetchRequest:
            epoch = body.current_leader_epoch
            if body.last_fetched_epoch == epoch:
                return self.acks(epoch, body.fetch_offset, to)
        elif kind is FetchResponse:
            if body.error_code == "NONE":
                return self._leads(body.current_leader.leader_epoch, body.high_watermark)
            return self.answers(body.current_leader.leader_epoch, to)
        elif kind is VoteResponse:
            partition = body.partition
            if partition is not None:
                epoch = partition.leader_epoch
                return self.votes(epoch, to) if partition.vote_granted else self.answers(epoch, to)
        elif kind is BeginQuorumEpochResponse or kind is EndQuorumEpochResponse:
            return self.answers(body.leader_epoch, to)
        elif kind is VoteRequest:
            if body.candidate_id == self._me:
                self._stood.add(body.candidate_epoch)
                return self.votes(body.candidate_epoch, self.node)
        elif kind is BeginQuorumEpochRequest and body.leader_id == self._me:
            return self._leads(body.leader_epoch, -1)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: granted votes are remembered by the epoch that they carry."""
        if type(body) is VoteResponse:
            partition = body.partition
            if partition is not None and partition.vote_granted:
                self.granted(partition.leader_epoch, src)
        return []

    def _leads(self, epoch: int, hw: int) -> list[Witnessed]:
        out: list[Witnessed] = []
        if epoch != self.led:
            more = {"config": {"voters": list(self._voters)}} if self._voters else {}
            out = self.leads(epoch, stood=epoch in self._stood, **more)
        return out + self.commits(epoch, hw)

    # --- the disk ---------------------------------------------------------------------------------------------------

    def stored(self, change: Literal["replaced", "durable"], state: QuorumState) -> list[Witnessed]:
        """The file names the leader, or the candidate that has the vote."""
        if change == "durable":
            words = {"voted_for": self._names.get(state.voted_id), "leader": self._names.get(state.leader_id)}
            return [Witnessed("persisted", state.leader_epoch, words)]
        self._remember(state)
        return self._leads(state.leader_epoch, -1) if state.leader_id == self._me else []
