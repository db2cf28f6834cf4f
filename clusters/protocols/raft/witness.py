"""Votes, elections, acknowledgements and log ends of one Raft node, read off its wire and its disk.

Promises: it sees what was really sent, received and carried out, so no planted bug can hide; steady heartbeats cost a
few comparisons and say nothing new. ``elected`` is the first AppendEntries of a term that names this node as leader;
its voters are those whose granted answers of that term arrived, plus the node itself if it stood (it sent a request or,
where it is the only voter, wrote its own name). ``persisted`` needs the rename AND its fsync. Leaves out a group of one
node (it sends nothing, so nothing shows its election), and rules: it imports messages and the storage format only.

Source: Raft paper, figure 2.
"""

from __future__ import annotations

import contextlib
from typing import Any

from clusters.protocols.raft.messages import AppendEntries, AppendReply, RequestVote, VoteReply
from clusters.protocols.raft.storage import (
    LOG,
    VOTE,
    VOTE_TEMPORARY,
    HardState,
    Unreadable,
    digest,
    file_of,
    read_vote,
    split_records,
)
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write


class RaftWitness:
    """The witness of one node."""

    __slots__ = (
        "_acked",
        "_commit",
        "_damaged",
        "_ends",
        "_grants",
        "_led",
        "_node",
        "_renamed",
        "_stood",
        "_temporary",
        "_voted",
    )

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._grants: dict[int, set[str]] = {}
        self._voted: set[tuple[int, str]] = set()
        self._stood = -1
        self._led = -1
        self._acked = (-1, -1)
        self._commit = 0
        self._ends: list[int] = []
        self._damaged = False
        self._temporary: HardState | None = None
        self._renamed: HardState | None = None

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds. Its vote is ``persisted`` once the node synced it again."""
        self._forget()
        out: list[Witnessed] = []
        with contextlib.suppress(Unreadable):  # the node halts, or shows what it makes of it
            self._renamed = _state(file_of(disk, VOTE) or b"")
        try:
            content = file_of(disk, LOG) or b""
            found = self._parse(content)
        except Unreadable:
            self._damaged = True
            return out
        out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if found:
            out.append(Witnessed("log_append", found[-1][1], {"from": 1, "entries": found}))
        return out

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is AppendReply:
            if body.success and (body.term, body.match_index) != self._acked:
                self._acked = (body.term, body.match_index)
                return [Witnessed("acked", body.term, {"index": body.match_index, "leader": to})]
        elif kind is AppendEntries:
            return self._sent_append(body)
        elif kind is VoteReply:
            if body.vote_granted:
                return self._vote(body.term, to)
        elif kind is RequestVote and body.candidate_id == self._node:
            self._stood = max(self._stood, body.term)
            return self._vote(body.term, self._node)
        return []

    def _sent_append(self, body: AppendEntries) -> list[Witnessed]:
        if body.term == self._led and body.leader_commit <= self._commit:
            return []
        out: list[Witnessed] = []
        if body.term != self._led and body.leader_id == self._node:
            self._led = body.term
            voters = set(self._grants.get(body.term, ()))
            if (body.term, self._node) in self._voted or self._renamed == HardState(body.term, self._node):
                voters.add(self._node)
            out.append(Witnessed("elected", body.term, {"voters": sorted(voters)}))
        if body.leader_commit > self._commit:
            self._commit = body.leader_commit
            out.append(Witnessed("commit", body.term, {"index": body.leader_commit}))
        return out

    def _vote(self, term: int, candidate: str) -> list[Witnessed]:
        if (term, candidate) in self._voted:
            return []
        self._voted.add((term, candidate))
        return [Witnessed("vote", term, {"candidate": candidate})]

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: granted votes are remembered by the term that they carry."""
        if type(body) is VoteReply and body.vote_granted:
            self._grants.setdefault(body.term, set()).add(src)
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        for op in ops:
            if isinstance(op, Write):
                if op.path == LOG:
                    out += self._wrote_log(op)
                elif op.path == VOTE_TEMPORARY:
                    self._temporary = _state(op.data)
                elif op.path == VOTE:
                    self._renamed = _state(op.data)
            elif isinstance(op, Rename) and op.dst == VOTE:
                self._renamed = self._temporary
            elif isinstance(op, Fsync) and op.path == VOTE and self._renamed is not None:
                out.append(_persisted(self._renamed))
            elif isinstance(op, Unlink) and op.path == LOG:
                self._ends = []
                out.append(Witnessed("log_truncate", 0, {"from": 1}))
        return out

    def _wrote_log(self, op: Write) -> list[Witnessed]:
        """Records cut off and records appended by one write."""
        if self._damaged:
            return []
        out: list[Witnessed] = []
        end = self._ends[-1] if self._ends else 0
        offset = end if op.offset is None else op.offset
        if offset < end:
            while self._ends and self._ends[-1] > offset:
                self._ends.pop()
            out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if op.data:
            first = len(self._ends) + 1
            try:
                found = self._parse(op.data, first=first, base=offset)
            except Unreadable:
                self._damaged = True
                return out
            if found:
                out.append(Witnessed("log_append", found[-1][1], {"from": first, "entries": found}))
        return out

    def _parse(self, data: bytes, *, first: int = 1, base: int = 0) -> list[tuple[int, int, str]]:
        records, _ = split_records(data, first_index=first, base=base)
        self._ends.extend(end for _, _, _, end in records)
        return [(index, term, digest(command)) for index, term, command, _ in records]


def _state(content: bytes) -> HardState | None:
    try:
        return read_vote(content)
    except Unreadable:
        return None


def _persisted(state: HardState) -> Witnessed:
    return Witnessed("persisted", state.term, {"voted_for": state.voted_for})
