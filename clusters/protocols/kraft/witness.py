"""Votes, elections, acknowledgements and log ends of one KRaft node, read off its wire and its disk.

* ``vote``: a granted answer leaves, or the node's own vote request (its vote for itself).
* ``elected``: the first that shows it: ``quorum-state`` naming this node as leader in an epoch is carried out, or an
  announcement or a fetch answer of a leader leaves. Its voters are those whose granted answers of that epoch arrived,
  and the node itself if it stood; ``config`` holds the voter set of the file, without observers.
* ``acked``: a fetch leaves whose last record is of the leader's epoch: everything before its offset is stored.
* ``commit``: a fetch answer leaves with a higher high watermark.
* ``persisted``: rename AND fsync of ``quorum-state``; a vote is no longer in it once the leader is known.
* ``found``: that file as a new incarnation finds it. If it names the epoch's leader, only the epoch is told: whether
  this node voted, and for whom, is not in it then, and of no consequence. ``answered``: once an epoch, an answer that
  tells nothing else.

Promises: nothing is taken from the core; steady fetches cost a few comparisons and say nothing new. Offsets are told as
indexes from 1: the exclusive end of a log is the index of its last record. Leaves out rules.

Source: Apache Kafka 3.3.1, the messages and QuorumStateData.
"""

from __future__ import annotations

from typing import Any

from clusters.protocols.kit.files import Unreadable, digest, file_of, split_log
from clusters.protocols.kraft.messages import (
    NOBODY,
    NONE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from clusters.protocols.kraft.storage import (
    LOG,
    STATE,
    STATE_TEMPORARY,
    QuorumState,
    read_state,
)
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write


class KraftWitness:
    """The witness of one node."""

    __slots__ = (
        "_acked",
        "_answered",
        "_commit",
        "_damaged",
        "_ends",
        "_grants",
        "_led",
        "_me",
        "_names",
        "_node",
        "_renamed",
        "_stood",
        "_temporary",
        "_voted",
        "_voters",
    )

    def __init__(self, *, node: str, members: tuple[str, ...]) -> None:
        self._node = node
        self._names = dict(enumerate(members, 1))
        self._me = members.index(node) + 1 if node in members else NOBODY
        self._voters: tuple[str, ...] = ()
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._grants: dict[int, set[str]] = {}
        self._voted: set[tuple[int, str]] = set()
        self._stood: set[int] = set()
        self._led = -1
        self._acked = (-1, -1)
        self._answered = 0
        self._commit = 0
        self._ends: list[int] = []
        self._damaged = False
        self._temporary: QuorumState | None = None
        self._renamed: QuorumState | None = None

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds. Its state is ``persisted`` once the node synced it again."""
        self._forget()
        out = self._found(disk)
        try:
            found = self._parse(file_of(disk, LOG) or b"")
        except Unreadable:
            self._damaged = True
            return out
        out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if found:
            out.append(Witnessed("log_append", found[-1][1], {"from": 1, "entries": found}))
        return out

    def _found(self, disk: DiskImage) -> list[Witnessed]:
        """The file as it lies there, whatever the node makes of it."""
        content = disk.get(STATE)
        if content is None:
            return [Witnessed("found", 0, {"voted_for": None, "file": "absent"})]
        state = self._renamed = None if isinstance(content, str) else _state(content)
        if state is None:
            return [Witnessed("found", 0, {"voted_for": None, "file": "unreadable"})]
        self._remember(state)
        if state.leader_id != NOBODY:
            return [Witnessed("found", state.leader_epoch, {"file": "read"})]
        voted_for = self._names.get(state.voted_id)
        return [Witnessed("found", state.leader_epoch, {"voted_for": voted_for, "file": "read"})]

    def _remember(self, state: QuorumState | None) -> None:
        """The voter set, and whether this node stood, as the file says."""
        if state is None:
            return
        self._voters = tuple(self._names.get(voter, str(voter)) for voter in state.voters)
        if state.voted_id == self._me:
            self._stood.add(state.leader_epoch)

    # --- the wire ---------------------------------------------------------------------------------------------------

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is FetchRequest:
            epoch = body.current_leader_epoch
            if body.last_fetched_epoch == epoch and (epoch, body.fetch_offset) != self._acked:
                self._acked = (epoch, body.fetch_offset)
                self._answered = max(self._answered, epoch)
                return [Witnessed("acked", epoch, {"index": body.fetch_offset, "leader": to})]
        elif kind is FetchResponse:
            if body.error_code == NONE:
                return self._leads(body.current_leader.leader_epoch, body.high_watermark)
            return self._answer(body.current_leader.leader_epoch, to)
        elif kind is VoteResponse:
            partition = body.partition
            if partition is not None:
                epoch = partition.leader_epoch
                return self._vote(epoch, to) if partition.vote_granted else self._answer(epoch, to)
        elif kind is BeginQuorumEpochResponse or kind is EndQuorumEpochResponse:
            return self._answer(body.leader_epoch, to)
        elif kind is VoteRequest:
            if body.candidate_id == self._me:
                self._stood.add(body.candidate_epoch)
                return self._vote(body.candidate_epoch, self._node)
        elif kind is BeginQuorumEpochRequest and body.leader_id == self._me:
            return self._leads(body.leader_epoch, -1)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: granted votes are remembered by the epoch that they carry."""
        if type(body) is VoteResponse:
            partition = body.partition
            if partition is not None and partition.vote_granted:
                self._grants.setdefault(partition.leader_epoch, set()).add(src)
        return []

    def _answer(self, epoch: int, to: str) -> list[Witnessed]:
        """An answer that grants nothing still tells the epoch that this node is in."""
        if epoch <= self._answered:
            return []
        self._answered = epoch
        return [Witnessed("answered", epoch, {"to": to})]

    def _vote(self, epoch: int, candidate: str) -> list[Witnessed]:
        if (epoch, candidate) in self._voted:
            return []
        self._voted.add((epoch, candidate))
        self._answered = max(self._answered, epoch)
        return [Witnessed("vote", epoch, {"candidate": candidate})]

    def _leads(self, epoch: int, hw: int) -> list[Witnessed]:
        if epoch == self._led and hw <= self._commit:
            return []
        out: list[Witnessed] = []
        if epoch != self._led:
            self._led = epoch
            self._answered = max(self._answered, epoch)
            voters = set(self._grants.get(epoch, ()))
            if epoch in self._stood:
                voters.add(self._node)
            data: dict[str, Any] = {"voters": sorted(voters)}
            if self._voters:
                data["config"] = {"voters": list(self._voters)}
            out.append(Witnessed("elected", epoch, data))
        if hw > self._commit:
            self._commit = hw
            out.append(Witnessed("commit", epoch, {"index": hw}))
        return out

    # --- the disk ---------------------------------------------------------------------------------------------------

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        for op in ops:
            if isinstance(op, Write):
                if op.path == LOG:
                    out += self._wrote_log(op)
                elif op.path == STATE_TEMPORARY:
                    self._temporary = _state(op.data)
            elif isinstance(op, Rename) and op.dst == STATE:
                self._renamed = self._temporary
                self._remember(self._renamed)
                if self._renamed is not None and self._renamed.leader_id == self._me:
                    out += self._leads(self._renamed.leader_epoch, -1)
            elif isinstance(op, Fsync) and op.path == STATE and self._renamed is not None:
                out.append(self._persisted(self._renamed))
            elif isinstance(op, Unlink) and op.path == STATE:
                self._renamed = None
        return out

    def _persisted(self, state: QuorumState) -> Witnessed:
        return Witnessed("persisted", state.leader_epoch, self._words(state))

    def _words(self, state: QuorumState) -> dict[str, str | None]:
        return {"voted_for": self._names.get(state.voted_id), "leader": self._names.get(state.leader_id)}

    def _wrote_log(self, op: Write) -> list[Witnessed]:
        """Records cut off and records appended by one write."""
        if self._damaged:
            return []
        out: list[Witnessed] = []
        end = self._ends[-1] if self._ends else 0
        at = end if op.offset is None else op.offset
        if at < end:
            while self._ends and self._ends[-1] > at:
                self._ends.pop()
            out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if op.data:
            first = len(self._ends)
            try:
                found = self._parse(op.data, first=first, base=at)
            except Unreadable:
                self._damaged = True
                return out
            if found:
                out.append(Witnessed("log_append", found[-1][1], {"from": first + 1, "entries": found}))
        return out

    def _parse(self, data: bytes, *, first: int = 0, base: int = 0) -> list[tuple[int, int, str]]:
        records, _ = split_log(data, path=LOG, first=first, base=base)
        self._ends.extend(end for _, _, _, end in records)
        return [(offset + 1, epoch, digest(command)) for offset, epoch, command, _ in records]


def _state(content: bytes) -> QuorumState | None:
    try:
        return read_state(content)
    except Unreadable:
        return None
