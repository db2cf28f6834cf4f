"""Votes, elections, acknowledgements and log ends of one Raft node, read off its wire and its disk.

Promises: it sees what was really sent, received and carried out, so no planted bug can hide; steady heartbeats cost
a few comparisons and say nothing new. ``found`` is the vote file as a new incarnation finds it; ``answered`` is told
once a term, where no vote, acknowledgement or election of that term told it already; ``refused`` is a vote that was not
given because this node voted in that term already; ``config`` is an entry of the log
that names the members, as it stands on disk. ``elected`` is the first AppendEntries of a term that names this node as
leader; its voters are those whose granted answers of that term arrived, plus the node itself if it stood (it sent a
request or, where it is the only voter, wrote its own name). ``persisted`` needs the rename AND its fsync. Leaves out a
group of one node (it sends nothing, so nothing shows its election), and rules: it imports messages and the storage
format only.

Source: Raft paper, figure 2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from clusters.protocols.kit.files import Unreadable, digest, file_of, split_log
from clusters.protocols.raft.messages import (
    AppendEntries,
    AppendReply,
    Config,
    PreVoteReply,
    RequestVote,
    VoteReply,
)
from clusters.protocols.raft.storage import (
    LOG,
    VOTE,
    VOTE_TEMPORARY,
    HardState,
    read_vote,
)
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write

_CONFIG = b'{"type":"config"'
"""How the record of a configuration entry begins: everything else is passed over without decoding."""
_decode_config = msgspec.json.Decoder(Config).decode


class RaftWitness:
    """The witness of one node."""

    hears = frozenset({VoteReply})
    """The only messages that ``received`` makes anything of: a shell in haste asks it about no other."""

    __slots__ = (
        "_acked",
        "_answered",
        "_commit",
        "_damaged",
        "_ends",
        "_grants",
        "_leads",
        "_led",
        "_node",
        "_refused",
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
        self._refused: set[tuple[int, str]] = set()
        self._stood = -1
        self._leads = -1
        self._led: set[int] = set()
        self._acked = (-1, -1)
        self._answered = 0
        self._commit = 0
        self._ends: list[int] = []
        self._damaged = False
        self._temporary: HardState | None = None
        self._renamed: HardState | None = None

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: what its disk holds. Its vote is ``persisted`` once the node synced it again."""
        self._forget()
        out = [self._found(disk)]
        try:
            content = file_of(disk, LOG) or b""
            found, ends, configs = _parse(content, 1)
        except Unreadable:
            self._damaged = True
            return out
        self._ends += ends
        out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if found:
            out.append(Witnessed("log_append", found[-1][1], {"from": 1, "entries": list(found)}))
        return [*out, *configs]

    def _found(self, disk: DiskImage) -> Witnessed:
        """The vote file as it lies there, whatever the node makes of it."""
        content = disk.get(VOTE)
        if content is None:
            return Witnessed("found", 0, {"voted_for": None, "file": "absent"})
        state = self._renamed = None if isinstance(content, str) else _state(content)
        if state is None:
            return Witnessed("found", 0, {"voted_for": None, "file": "unreadable"})
        return Witnessed("found", state.term, {"voted_for": state.voted_for, "file": "read"})

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is AppendReply:
            if not body.success:
                return self._answer(body.term, to)
            if (body.term, body.match_index) != self._acked:
                self._acked = (body.term, body.match_index)
                self._answered = max(self._answered, body.term)
                return [Witnessed("acked", body.term, {"index": body.match_index, "leader": to})]
        elif kind is AppendEntries:
            if body.term != self._leads or body.leader_commit > self._commit:  # else a steady heartbeat
                return self._sent_append(body)
        elif kind is VoteReply:
            return self._vote(body.term, to) if body.vote_granted else self._refusal(body, to)
        elif kind is RequestVote and body.candidate_id == self._node:
            self._stood = max(self._stood, body.term)
            return self._vote(body.term, self._node)
        elif kind is PreVoteReply:
            return self._answer(body.term, to)
        return []

    def _answer(self, term: int, to: str) -> list[Witnessed]:
        """An answer that grants nothing still tells the term that this node is in."""
        if term <= self._answered:
            return []
        self._answered = term
        return [Witnessed("answered", term, {"to": to})]

    def _refusal(self, body: VoteReply, to: str) -> list[Witnessed]:
        """Refused because the vote of this term is gone: told once a candidate and term."""
        out = self._answer(body.term, to)
        if body.reason == "voted" and (body.term, to) not in self._refused:
            self._refused.add((body.term, to))
            out.append(Witnessed("refused", body.term, {"candidate": to, "why": "voted"}))
        return out

    def _sent_append(self, body: AppendEntries) -> list[Witnessed]:
        out: list[Witnessed] = []
        if body.term not in self._led and body.leader_id == self._node:  # what leaves late tells nothing new
            self._leads = body.term
            self._led.add(body.term)
            self._answered = max(self._answered, body.term)
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
        self._answered = max(self._answered, term)
        return [Witnessed("vote", term, {"candidate": candidate})]

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: granted votes are remembered by the term that they carry."""
        if type(body) is VoteReply and body.vote_granted:
            self._grants.setdefault(body.term, set()).add(src)
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        op: Any
        for op in ops:
            kind = type(op)
            if kind is Write:
                if op.path == LOG:
                    out += self._wrote_log(op)
                elif op.path == VOTE_TEMPORARY:
                    self._temporary = _state(op.data)
                elif op.path == VOTE:
                    self._renamed = _state(op.data)
            elif kind is Rename and op.dst == VOTE:
                self._renamed = self._temporary
            elif kind is Fsync and op.path == VOTE and self._renamed is not None:
                out.append(_persisted(self._renamed))
            elif kind is Unlink and op.path == LOG:
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
                found, ends, configs = _appended(op.data, first)
            except Unreadable:
                self._damaged = True
                return out
            self._ends += [offset + end for end in ends]
            if found:
                out.append(Witnessed("log_append", found[-1][1], {"from": first, "entries": list(found)}))
                out += configs
        return out


Parsed = tuple[tuple[tuple[int, int, str], ...], tuple[int, ...], tuple[Witnessed, ...]]
"""What log records hold: [index, term, hash] each, where each ends, and the configurations among them."""


def _parse(data: bytes, first: int) -> Parsed:
    records, _ = split_log(data, path=LOG, first=first)
    return (
        tuple((index, term, digest(command)) for index, term, command, _ in records),
        tuple(end for _, _, _, end in records),
        tuple(_config(index, term, command) for index, term, command, _ in records if command.startswith(_CONFIG)),
    )


_appended = lru_cache(maxsize=64)(_parse)
"""The same of one append: in a simulation all nodes write the same bytes at about the same time."""


def _state(content: bytes) -> HardState | None:
    try:
        return read_vote(content)
    except Unreadable:
        return None


def _config(index: int, term: int, command: bytes) -> Witnessed:
    config = _decode_config(command)
    members = {"voters": list(config.voters), "learners": list(config.learners)}
    return Witnessed("config", term, {"index": index, **members})


def _persisted(state: HardState) -> Witnessed:
    return Witnessed("persisted", state.term, {"voted_for": state.voted_for})
