"""Votes, elections, acknowledgements and log ends of one DLedger node, read off its wire and its disk.

Promises: it sees what was really sent, received and carried out, so no planted bug can hide; indexes and terms are told
one higher than DLedger's own, as everywhere outside of the core. A grant is an ACCEPT that leaves. A candidate votes
for itself off the wire: its vote is seen when its request leaves, unless this node is known (by its disk, or by an
ACCEPT that it sent) to have voted for another in that term, for a campaign may repeat a term whose vote is taken.
``elected`` is the first heartbeat or push of a term that names this node as leader; its voters are those whose ACCEPT
of that term arrived, and itself if it voted so. ``found`` is the term file as a new incarnation finds it; ``answered``
is told where an answer shows a term that nothing else showed. Leaves out a group of one node (it sends nothing), a
second election in the same term, and rules: it imports messages and the storage format only.

Source: DLedger 0.2.7, the messages of ``DLedgerLeaderElector`` and ``DLedgerEntryPusher``.
"""

from __future__ import annotations

from typing import Any

from clusters.protocols.dledger.messages import (
    ACCEPT,
    SUCCESS,
    TERM_SMALL_THAN_LEDGER,
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
)
from clusters.protocols.dledger.storage import (
    LOG,
    TERM,
    TERM_TEMPORARY,
    TermState,
    read_term,
    split_records,
)
from clusters.protocols.kit.files import Unreadable, digest, file_of
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write


class DledgerWitness:
    """The witness of one node."""

    __slots__ = (
        "_acked",
        "_answered",
        "_commit",
        "_ends",
        "_file",
        "_grants",
        "_led",
        "_node",
        "_taken",
        "_temporary",
        "_terms",
        "_unknown",
        "_voted",
    )

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._grants: dict[int, set[str]] = {}
        """Term → who accepted this node in it."""
        self._voted: set[tuple[int, str]] = set()
        self._taken: dict[int, str] = {}
        """Term → for whom this node is known to have voted in it."""
        self._led = -1
        self._acked = (-1, -1)
        self._answered = -1
        self._commit = -1
        self._ends: list[int] = []
        self._terms: list[int] = []
        self._unknown = False
        """The log cannot be read here."""
        self._temporary: TermState | None = None
        self._file: TermState | None = None

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds, and the vote in its term file."""
        self._forget()
        out = [self._found(disk)]
        try:
            content = file_of(disk, LOG) or b""
        except Unreadable:
            self._unknown = True
            return out
        found = self._parse(content, first=0, base=0)
        out.append(Witnessed("log_truncate", 0, {"from": len(self._ends) + 1}))
        if found:
            out.append(Witnessed("log_append", found[-1][1], {"from": 1, "entries": found}))
        return out

    def _found(self, disk: DiskImage) -> Witnessed:
        """The term file as it lies there, whatever the node makes of it."""
        content = disk.get(TERM)
        if content is None:
            return Witnessed("found", 0, {"voted_for": None, "file": "absent"})
        state = None if isinstance(content, str) else _state(content)
        if state is None:
            return Witnessed("found", 0, {"voted_for": None, "file": "unreadable"})
        self._know(state)
        return Witnessed("found", state.term + 1, {"voted_for": state.voted_for, "file": "read"})

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is HeartBeatRequest:
            return [] if body.term == self._led else self._leads(body.term, body.leader_id)
        if kind is PushEntryRequest:
            return self._pushed(body)
        if kind is HeartBeatResponse:
            return [] if body.term <= self._answered else self._answer(body.term, to)
        if kind is PushEntryResponse:
            if body.code == SUCCESS and body.index >= 0 and (body.term, body.index) != self._acked:
                self._acked = (body.term, body.index)
                self._answered = max(self._answered, body.term)
                return [Witnessed("acked", body.term + 1, {"index": body.index + 1, "leader": to})]
        elif kind is VoteResponse:
            if body.vote_result == ACCEPT:
                self._taken.setdefault(body.term, to)
                return self._vote(body.term, to)
            if body.vote_result != TERM_SMALL_THAN_LEDGER:
                return self._answer(body.term, to)
        elif kind is VoteRequest and self._taken.get(body.term, self._node) == self._node:
            return self._vote(body.term, self._node)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: votes are remembered by the term that they carry."""
        if type(body) is VoteResponse and body.vote_result == ACCEPT:
            self._grants.setdefault(body.term, set()).add(src)
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        for op in ops:
            if isinstance(op, Write):
                if op.path == LOG:
                    out += self._wrote_log(op)
                elif op.path == TERM_TEMPORARY:
                    self._temporary = _state(op.data)
                elif op.path == TERM:
                    self._know(_state(op.data))
            elif isinstance(op, Rename) and op.dst == TERM:
                self._know(self._temporary)
            elif isinstance(op, Fsync) and op.path == TERM and self._file is not None:
                out.append(Witnessed("persisted", self._file.term + 1, {"voted_for": self._file.voted_for}))
            elif isinstance(op, Unlink) and op.path == LOG:
                self._ends, self._terms = [], []
                out.append(Witnessed("log_truncate", 0, {"from": 1}))
        return out

    # --- inside ---------------------------------------------------------------------------------------------------

    def _know(self, state: TermState | None) -> None:
        """The term file says this."""
        self._file = state
        if state is not None and state.voted_for is not None:
            self._taken.setdefault(state.term, state.voted_for)

    def _vote(self, term: int, candidate: str) -> list[Witnessed]:
        if (term, candidate) in self._voted:
            return []
        self._voted.add((term, candidate))
        self._answered = max(self._answered, term)
        return [Witnessed("vote", term + 1, {"candidate": candidate})]

    def _answer(self, term: int, to: str) -> list[Witnessed]:
        """An answer that grants nothing still tells the term that this node is in."""
        if term <= self._answered:
            return []
        self._answered = term
        return [Witnessed("answered", term + 1, {"to": to})]

    def _leads(self, term: int, leader: str) -> list[Witnessed]:
        if leader != self._node:
            return []
        self._led = term
        self._answered = max(self._answered, term)
        voters = set(self._grants.get(term, ()))
        if (term, self._node) in self._voted or self._file == TermState(term, self._node):
            voters.add(self._node)
        return [Witnessed("elected", term + 1, {"voters": sorted(voters)})]

    def _pushed(self, body: PushEntryRequest) -> list[Witnessed]:
        if body.term == self._led and body.commit_index <= self._commit:
            return []
        out = [] if body.term == self._led else self._leads(body.term, body.leader_id)
        if body.commit_index > self._commit:
            self._commit = body.commit_index
            out.append(Witnessed("commit", body.term + 1, {"index": body.commit_index + 1}))
        return out

    def _wrote_log(self, op: Write) -> list[Witnessed]:
        """Records cut off and records appended by one write."""
        if self._unknown:
            return []
        out: list[Witnessed] = []
        ends = self._ends
        end = ends[-1] if ends else 0
        offset = end if op.offset is None else op.offset
        if offset < end:
            while ends and ends[-1] > offset:
                ends.pop()
                self._terms.pop()
            out.append(Witnessed("log_truncate", 0, {"from": len(ends) + 1}))
        if op.data:
            first = len(ends)
            found = self._parse(op.data, first=first, base=offset)
            if found:
                out.append(Witnessed("log_append", found[-1][1], {"from": first + 1, "entries": found}))
        return out

    def _parse(self, data: bytes, *, first: int, base: int) -> list[tuple[int, int, str]]:
        """Records as (index, term, hash), as observers count."""
        least = self._terms[-1] if self._terms else 0
        records = split_records(data, first_index=first, least_term=least, base=base)
        self._ends.extend(end for _, _, _, end in records)
        self._terms.extend(term for _, term, _, _ in records)
        return [(index + 1, term + 1, digest(command)) for index, term, command, _ in records]


def _state(content: bytes) -> TermState | None:
    try:
        return read_term(content)
    except Unreadable:
        return None
